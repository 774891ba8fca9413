"""`invoke verify`: a second build elsewhere. The real one needs Debian's packages, not gigabytes of wheels."""

from __future__ import annotations

import io
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.support.locks import AMD64, deb, deb_lock, wheel_lock
from tests.support.plans import Yard
from tests.support.project import ROOT, Invoke, copy_project, workspace_of, write_matrix
from tests.support.wheels import build_wheel, locked
from trainyard.commands.display import Display
from trainyard.commands.verify import (
    OTHER_ENVIRONMENT,
    OTHER_UID,
    Verified,
    _copy_project,
    _differences,
    _link_inputs,
    _other_environment,
    _verdict,
    verify_all,
)
from trainyard.errors import InputError, ReproducibilityError
from trainyard.lock.debian import deb_inputs, render_deb_lock
from trainyard.lock.environment import wheel_inputs
from trainyard.lock.model import LockedDeb, LockedWheel, parse_deb_lock, parse_wheel_lock
from trainyard.lock.render import render_wheel_lock
from trainyard.paths import Project
from trainyard.platforms import Platform
from trainyard.settings import settings_from
from trainyard.store import Store
from trainyard.workspace import Workspace

HOST = Platform.of_machine(platform.system(), platform.machine()) or AMD64
STORE = Store(settings_from(os.environ, home=Path.home(), cores=2).cache)
SAME = Verified(
    target="tiny",
    platform="linux/amd64",
    digest="sha256:a",
    rebuilt="sha256:a",
    layers=3,
    environment=("uid 54321",),
    differences=(),
    seconds=1.5,
)


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    """A project with one locked target, and nothing built."""
    root = tmp_path / "project"
    write_matrix(root, targets=["tiny"])
    (root / "templates").symlink_to(ROOT / "templates")
    made = workspace_of(root, cache=tmp_path / "cache")
    target = made.matrix.target("tiny")
    base = made.matrix.bases["trixie"]
    wheel = locked(build_wheel(tmp_path, name="torch"))
    debs = replace(deb_lock(deb("tini")), inputs=deb_inputs("trixie", base, "amd64"))
    wheels = replace(wheel_lock(wheel), target="tiny", inputs=wheel_inputs(target, AMD64))
    for path, text in (
        (made.project.deb_lock("trixie", "amd64"), render_deb_lock(made.project, debs)),
        (made.project.wheel_lock("tiny", AMD64), render_wheel_lock(made.project, wheels)),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    made.store.input(wheel.sha256).parent.mkdir(parents=True)
    shutil.copy(tmp_path / wheel.filename, made.store.input(wheel.sha256))
    return made


def test_an_image_that_was_never_recorded_cannot_be_verified_and_the_hint_records_it(
    space: Workspace,
) -> None:
    display = Display(Console(file=io.StringIO()))

    with pytest.raises(ReproducibilityError, match="never recorded") as caught:
        verify_all(space, [(space.matrix.target("tiny"), AMD64)], display)
    assert "invoke build --target tiny --platform linux/amd64 --record" in caught.value.hint


def test_the_copy_has_what_a_build_reads_and_nothing_that_was_built(tmp_path: Path) -> None:
    root = tmp_path / "project"
    for name in (
        "matrix.yaml",
        "dist/tiny/x",
        "lockfiles/a.txt",
        "trainyard/a.py",
        "trainyard/__pycache__/a.pyc",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name, "utf-8")

    copy = _copy_project(root, tmp_path)

    files = {str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file()}
    assert files == {"matrix.yaml", "lockfiles/a.txt", "trainyard/a.py"}


def test_the_environment_differs_in_everything_that_it_says(space: Workspace, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    made = _other_environment(space, tmp_path / "other", Store(tmp_path / "other" / "store"))

    assert OTHER_ENVIRONMENT.items() <= made.variables.items()
    assert made.variables["TRAINYARD_CACHE"] == str(tmp_path / "other" / "store")
    assert all(f"{name}={value}" in made.said for name, value in OTHER_ENVIRONMENT.items())
    assert made.cwd.is_dir()


def test_another_user_is_claimed_only_where_the_kernel_gives_one(space: Workspace, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    made = _other_environment(space, tmp_path / "other", Store(tmp_path / "other" / "store"))
    seen = subprocess.run([*made.prefix, "id", "-u"], capture_output=True, text=True, check=True).stdout

    assert (made.said[0] == f"uid {OTHER_UID}") == (int(seen) == OTHER_UID)


def test_inputs_are_linked_not_copied_and_the_layers_are_not_taken(space: Workspace, tmp_path: Path) -> None:
    plan = space.plan(space.matrix.target("tiny"), AMD64)
    other = Store(space.store.root / "other")

    _link_inputs(space, plan, other)

    (wheel,) = plan.wheels.wheels
    assert other.input(wheel.sha256).stat().st_ino == space.store.input(wheel.sha256).stat().st_ino
    assert [path.name for path in other.root.iterdir()] == ["inputs"]


def test_an_input_that_rotted_in_the_cache_is_found_before_the_second_build(space: Workspace) -> None:
    plan = space.plan(space.matrix.target("tiny"), AMD64)
    (wheel,) = plan.wheels.wheels
    space.store.input(wheel.sha256).write_bytes(b"rotten")

    with pytest.raises(InputError, match=r"torch.*damaged in the cache"):
        _link_inputs(space, plan, Store(space.store.root / "other"))


def test_a_verdict_says_same_again_only_without_a_difference() -> None:
    assert "same again, 3 layers, sha256:a" in _verdict(SAME)
    assert _verdict(replace(SAME, differences=("x: mode",))) == (
        "tiny linux/amd64: NOT REPRODUCIBLE\n  x: mode"
    )


def test_differences_name_the_layer_and_the_member(tmp_path: Path) -> None:
    """The same key in two stores, of bytes that differ in one file."""
    ours, theirs = Yard(tmp_path / "ours"), Yard(tmp_path / "theirs")
    one = ours.plan(files={"etc/x": b"one", "etc/y": b"y"})
    two = theirs.plan(files={"etc/x": b"two", "etc/y": b"y"})
    ours.build(one)
    theirs.build(two)
    record = theirs.store.root / "layers" / f"{two.layers[0].key}-zstd.json"
    record.rename(record.with_name(f"{one.layers[0].key}-zstd.json"))
    space = workspace_of(tmp_path, cache=ours.store.root)

    found = _differences(space, one, theirs.store, {"digest": "sha256:b"}, "", "sha256:a")

    assert found[0] == "manifest sha256:b, recorded sha256:a"
    assert [line.partition(": content ")[0] for line in found[1:]] == ["our files: etc/x"]


@pytest.mark.parametrize(
    ("document", "error", "found"),
    [
        ({"digest": "sha256:a"}, "", ()),
        (None, "error: no\nhint: yes", ("error: no", "hint: yes")),
        ({"digest": "sha256:b"}, "", ("manifest sha256:b, recorded sha256:a",)),
    ],
    ids=["the same", "a build that failed", "another digest"],
)
def test_what_counts_as_a_difference(
    tmp_path: Path, document: dict[str, object] | None, error: str, found: tuple[str, ...]
) -> None:
    yard = Yard(tmp_path)
    space = workspace_of(tmp_path, cache=yard.store.root)

    assert _differences(space, yard.plan(), yard.store, document, error, "sha256:a") == found


# The real thing: Debian's packages and one small wheel, through the command line


def tiny_matrix(root: Path) -> None:
    """This project's base, with one target of one small wheel."""
    head, _, _ = (root / "matrix.yaml").read_text("utf-8").partition("sets:\n")
    head = head.replace("  target: cuda13.2", "  target: tiny")
    body = [
        "sets:",
        "  small: [typing-extensions]",
        "targets:",
        "  tiny:",
        "    title: one small wheel",
        "    accelerator: cpu",
        '    toolkit: "0"',
        "    base: trixie",
        f"    platforms: [{HOST}]",
        "    sets: [small]",
    ]
    (root / "matrix.yaml").write_text(head + "\n".join(body) + "\n", "utf-8")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Invoke:
    """The tiny project, its inputs linked from the host's cache, recorded."""
    folder = tmp_path_factory.mktemp("verify")
    root = copy_project(folder / "project")
    project = Project(root)
    old = project.wheel_lock("cuda13.2", HOST)
    wheel = parse_wheel_lock(old.read_text("utf-8"), source=str(old)).wheel("typing-extensions")
    debs = parse_deb_lock(project.deb_lock("trixie", HOST.arch).read_text("utf-8"), source="debs").debs
    assert wheel is not None
    tiny_matrix(root)
    space = workspace_of(root, cache=root / "cache", host=HOST)
    lock = replace(
        wheel_lock(wheel, platform=HOST),
        target="tiny",
        inputs=wheel_inputs(space.matrix.target("tiny"), HOST),
    )
    path = project.wheel_lock("tiny", HOST)
    path.parent.mkdir(parents=True)
    path.write_text(render_wheel_lock(project, lock), "utf-8")
    (root / "cache" / "inputs").mkdir(parents=True)
    inputs: list[LockedWheel | LockedDeb] = [wheel, *debs]
    for item in inputs:
        if not STORE.input(item.sha256).is_file():
            pytest.skip(f"{item.name} is not in the store: `invoke build` fetches it")
        shutil.copy(STORE.input(item.sha256), space.store.input(item.sha256))
    invoke = Invoke(root)
    done = invoke("build", "--record", "--no-smoke")
    assert done.returncode == 0, done.stderr
    return invoke


def verified(done: subprocess.CompletedProcess[str]) -> Mapping[str, object]:
    (image,) = json.loads(done.stdout)["images"]
    assert isinstance(image, dict)
    return image


@pytest.mark.real
def test_a_real_base_and_wheel_are_the_same_again_elsewhere(built: Invoke) -> None:
    done = built("verify", "--json")

    assert done.returncode == 0, done.stderr
    image = verified(done)
    assert image["differences"] == []
    assert image["rebuilt"] == image["digest"]
    assert "same again" in done.stderr
    assert list((built.folder / "cache" / "tmp").iterdir()) == []


@pytest.mark.real
def test_code_that_makes_other_bytes_of_the_same_inputs_is_caught_and_the_file_is_named(
    built: Invoke, tmp_path: Path
) -> None:
    """What a change of an installer without a new format number would be."""
    archive = built.folder / "trainyard" / "wheels" / "archive.py"
    text = archive.read_text("utf-8")
    changed = text.replace('INSTALLER = b"trainyard\\n"', 'INSTALLER = b"somebody\\n"')
    assert changed != text
    archive.write_text(changed, "utf-8")
    try:
        done = built("verify", "--json")
    finally:
        archive.write_text(text, "utf-8")

    differences = "\n".join(map(str, verified(done)["differences"]))  # type: ignore[call-overload]
    assert done.returncode == 1
    assert done.stderr.rstrip().splitlines()[-2].startswith("error: NOT REPRODUCIBLE")
    assert re.search(r"wheels: .*typing_extensions-4\S+/INSTALLER: (size|content) ", differences)
    assert "usr/" not in differences


@pytest.mark.real
def test_a_second_real_build_does_nothing(built: Invoke) -> None:
    document = built.json("build", "--no-smoke")["images"]

    assert isinstance(document, list)
    assert all(layer["cached"] for layer in document[0]["layers"])
