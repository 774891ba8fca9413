"""What is typed for Docker's sake, up to where an engine is needed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from tests.support.layouts import Raw, folder, layer
from tests.support.layouts import write_layout as raw_layout
from tests.support.locks import AMD64
from tests.support.project import Invoke, copy_project, workspace_of
from trainyard.commands.display import Display
from trainyard.commands.docker import DockerRequest, build_all_docker
from trainyard.commands.parity import compare_engines
from trainyard.errors import InputError, RunnerError, TrainyardError
from trainyard.parity import KNOWN
from trainyard.workspace import Workspace

QUIET = Display(Console(stderr=True), quiet=True)
TARGET = "cuda13.2"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_project(tmp_path_factory.mktemp("project"))


@pytest.fixture
def space(project: Path, tmp_path: Path) -> Workspace:
    shutil.rmtree(project / "dist", ignore_errors=True)
    return workspace_of(project, cache=tmp_path / "cache", environ={"PATH": str(tmp_path)})


def test_an_unknown_engine_is_a_value_that_does_not_exist(project: Path) -> None:
    done = Invoke(project)("build", "--engine", "kaniko")

    assert done.returncode == 2
    assert "'kaniko'" in done.stderr
    assert "--engine docker" in done.stderr


def test_render_check_exits_1_and_prints_the_diff_on_stdout(tmp_path: Path) -> None:
    root = copy_project(tmp_path)
    (root / "images" / TARGET / "linux-amd64" / "Dockerfile").write_text("FROM scratch\n")
    done = Invoke(root)("render", "--check")

    assert done.returncode == 1
    assert "-FROM scratch" in done.stdout
    assert "hint: " in done.stderr


def test_render_check_exits_1_after_a_change_of_a_template_alone(tmp_path: Path) -> None:
    root = copy_project(tmp_path)
    template = root / "templates" / "Dockerfile.j2"
    template.write_text(template.read_text().replace("--no-deps", "--no-deps --verbose", 1))
    done = Invoke(root)("render", "--check")

    assert done.returncode == 1
    assert "--no-deps --verbose" in done.stdout
    assert "`invoke render`" in done.stderr


def test_render_json_names_every_folder(project: Path) -> None:
    images = Invoke(project).json("render", "--check")["images"]

    assert isinstance(images, list)
    assert [image["folder"] for image in images] == [
        f"images/{TARGET}/linux-amd64",
        f"images/{TARGET}/linux-arm64",
    ]


def test_without_docker_nothing_is_fetched_or_built(space: Workspace) -> None:
    cell = (space.matrix.target(TARGET), AMD64)
    with pytest.raises(RunnerError, match="no `docker` on PATH"):
        build_all_docker(space, [cell], DockerRequest(), QUIET)

    assert not space.store.root.exists()


def image_in(space: Workspace, engine: str, tag: str, *members: Raw) -> None:
    """A layout in dist/ that says it is of that plan."""
    where = space.project.dist(TARGET, AMD64, engine=engine)
    config = {"Labels": {"org.opencontainers.image.version": tag}, "User": "1000:0"}
    raw_layout(where, [layer(members)], config=config)
    index = json.loads((where / "index.json").read_text())
    index["manifests"][0]["mediaType"] = "application/vnd.oci.image.manifest.v1+json"
    (where / "index.json").write_text(json.dumps(index))


def test_parity_compares_the_two_layouts_in_dist(space: Workspace) -> None:
    target = space.matrix.target(TARGET)
    tag = space.plan(target, AMD64).tag
    image_in(space, "oci", tag, folder("etc"), Raw(name="etc/x", data=b"1"))
    image_in(space, "docker", tag, folder("etc"), Raw(name="etc/x", data=b"2"))

    result = compare_engines(space, [(target, AMD64)], QUIET)[0]
    assert result.compared == 2
    assert len(result.differences) == 1
    assert result.differences[0].startswith("/etc/x: sha256 ")


def test_parity_s_document_counts_what_is_explained_by_its_reason(space: Workspace) -> None:
    target = space.matrix.target(TARGET)
    tag = space.plan(target, AMD64).tag
    notes = [f"opt/venv/lib/python3.13/site-packages/{name}-1.dist-info/INSTALLER" for name in ("a", "b")]
    image_in(space, "oci", tag, *(Raw(name=name, data=b"x") for name in notes))
    image_in(space, "docker", tag, Raw(name="etc/x"))

    document = compare_engines(space, [(target, AMD64)], QUIET)[0].document()
    assert document["compared"] == 3
    assert document["explained"] == [
        {"reason": next(known.reason for known in KNOWN if "INSTALLER" in known.path), "count": 2}
    ]
    assert document["unexplained"] == ["/etc/x: only in Docker's image"]


@pytest.mark.parametrize(("there", "command"), [((), "--no-smoke"), (("oci",), "--engine docker")])
def test_what_is_not_built_yet_is_named_by_the_command_that_builds_it(
    space: Workspace, there: tuple[str, ...], command: str
) -> None:
    target = space.matrix.target(TARGET)
    for engine in there:
        image_in(space, engine, space.plan(target, AMD64).tag)
    with pytest.raises(TrainyardError, match="no image in") as caught:
        compare_engines(space, [(target, AMD64)], QUIET)

    assert command in caught.value.hint


def test_an_image_of_another_plan_is_not_compared(space: Workspace) -> None:
    target = space.matrix.target(TARGET)
    image_in(space, "oci", "an older tag")
    with pytest.raises(InputError, match="holds an older tag"):
        compare_engines(space, [(target, AMD64)], QUIET)
