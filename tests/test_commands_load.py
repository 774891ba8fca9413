"""`invoke load`: what a person types to have an image of dist/ in the engine of this host, and what can go wrong.

docker needs an engine (`eval "$(.ci/engine start)"`), the old one `.ci/engine --old`; podman Debian's podman and runc.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import engines, runners
from tests.support.layouts import Layer, Raw, folder, layer, write_layout
from tests.support.project import Invoke, copy_project
from tests.support.runners import HOST
from trainyard.runner.engine import connect

TAG = "cuda13.2-of-a-test"
NAME = f"cuda13.2:{TAG}"
CONFIG = {"Labels": {"org.opencontainers.image.version": TAG}, "Entrypoint": ["/nothing"]}
DOCKER = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")


def content(compression: str = "zstd", data: bytes = b"of a test") -> Layer:
    return layer([folder("opt"), Raw(name="opt/it", data=data)], compression=compression)


@dataclass(frozen=True, slots=True)
class Here:
    """A project with a built image, and an engine: what says where it is, and what it has under a name."""

    project: Path
    digest: str
    environ: Mapping[str, str]
    into: str
    image_id: Callable[[], str]

    @property
    def layout(self) -> Path:
        assert HOST is not None
        return self.project / "dist" / "cuda13.2" / HOST.slug

    def invoke(self) -> Invoke:
        return Invoke(self.project, self.environ)


def write(project: Path, one: Layer, suffix: str = "") -> str:
    assert HOST is not None
    where = project / "dist" / "cuda13.2" / f"{HOST.slug}{suffix}"
    shutil.rmtree(where, ignore_errors=True)
    return write_layout(where, [one], config=CONFIG, architecture=HOST.arch)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_project(tmp_path_factory.mktemp("load") / "project")


@pytest.fixture(params=["docker", "podman"])
def here(request: pytest.FixtureRequest, project: Path) -> Iterator[Here]:
    digest = write(project, content())
    with contextlib.ExitStack() as stack:
        if request.param == "docker":
            engine = runners.docker_engine()
            environ = {name: value for name, value in engines.SETTINGS.environ.items() if name in DOCKER}
            stack.callback(forget, engine.client, NAME)
            yield Here(project, digest, environ, "docker", lambda: str(engine.client.images.get(NAME).id))
        else:
            environ = dict(stack.enter_context(runners.podman_environ()))
            podman = runners.podman(environ)
            asked = ("image", "inspect", "--format", "{{.Id}}", NAME)
            yield Here(project, digest, environ, "podman", lambda: f"sha256:{podman.must(*asked).strip()}")


def forget(client: object, name: str) -> None:
    """Remove an image that may not be there."""
    from docker.errors import ImageNotFound

    with contextlib.suppress(ImageNotFound):
        client.images.remove(name, force=True)  # type: ignore[attr-defined]


def test_name_and_digest_are_printed_and_the_engine_has_that_image_under_that_name(here: Here) -> None:
    done = here.invoke()("load", "--into", here.into)

    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{NAME} {here.digest}\n"
    config = json.loads((here.layout / "blobs/sha256" / here.digest.partition(":")[2]).read_text())["config"]
    assert here.image_id() in (here.digest, config["digest"])


def test_podman_has_it_under_one_name_which_is_of_no_registry(project: Path) -> None:
    write(project, content())
    with runners.podman_environ() as environ:
        podman = runners.podman(environ)
        for _ in range(2):
            Invoke(project, environ).json("load", "--into", "podman")

        listed = podman.must("images", "--format", "{{.Repository}}:{{.Tag}}").split()
        assert listed == [f"localhost/{NAME}"]


def test_what_is_there_is_not_streamed_again_and_json_says_so(here: Here) -> None:
    documents = [here.invoke().json("load", "--into", here.into)["images"] for _ in range(2)]

    assert [(one["streamed"], one["name"], one["digest"]) for (one,) in documents] == [  # type: ignore[misc, has-type]
        (True, NAME, here.digest),
        (False, NAME, here.digest),
    ]


def test_another_image_of_the_same_plan_takes_the_name_over(here: Here) -> None:
    here.invoke().json("load", "--into", here.into)
    before = here.image_id()
    write(here.project, content(data=b"another"))
    here.invoke().json("load", "--into", here.into)

    assert here.image_id() != before


def test_a_blob_that_was_damaged_is_refused_and_nothing_gets_the_name(here: Here) -> None:
    blob = here.layout / "blobs/sha256" / content().digest.partition(":")[2]
    blob.write_bytes(blob.read_bytes()[:-1] + b"\0")
    done = here.invoke()("load", "--into", here.into)

    assert done.returncode == 1
    assert done.stdout == ""
    assert f"error: {blob} is damaged: its sha256 is " in done.stderr
    assert "hint: `invoke clean --layers --dist`, then `invoke build`" in done.stderr
    with pytest.raises(Exception, match=r"(?i)no such image|not known"):
        here.image_id()


def test_an_old_engine_needs_the_gzip_image_and_is_given_it(project: Path) -> None:
    environ = {"DOCKER_HOST": engines.old_host()}
    write(project, content())
    shutil.rmtree(project / "dist/cuda13.2" / f"{HOST.slug if HOST else ''}.gzip", ignore_errors=True)
    refused = Invoke(project, environ)("load")

    assert refused.returncode == 1
    assert "cannot read layers compressed with zstd" in refused.stderr
    assert refused.stderr.rstrip().endswith(
        f"hint: invoke build --target cuda13.2 --platform {HOST} --compression gzip"
    )

    digest = write(project, content("gzip"), ".gzip")
    client = connect({**engines.SETTINGS.environ, **environ}).client
    try:
        done = Invoke(project, environ)("load")
        assert done.stdout == f"{NAME}.gzip {digest}\n", done.stderr
    finally:
        forget(client, f"{NAME}.gzip")


def test_an_engine_that_is_not_there_is_an_error_that_says_where_it_was_looked_for(project: Path) -> None:
    write(project, content())
    done = Invoke(project, {"DOCKER_HOST": "unix:///nowhere/docker.sock"})("load")

    assert done.returncode == 1
    assert "/nowhere/docker.sock: No such file or directory" in done.stderr
    assert "hint: " in done.stderr
    assert "invoke smoke" not in done.stderr, "that is no other way to load an image"


def test_a_podman_that_is_not_there_is_an_error_with_a_hint(project: Path, tmp_path: Path) -> None:
    write(project, content())
    done = Invoke(project, {"PATH": str(tmp_path)})("load", "--into", "podman")

    assert done.returncode == 1
    assert done.stderr.startswith("error: there is no `podman` on PATH\nhint: install podman")


def test_an_image_that_is_not_built_names_the_build(project: Path) -> None:
    environ = {name: value for name, value in engines.SETTINGS.environ.items() if name in DOCKER}
    runners.docker_engine()
    shutil.rmtree(project / "dist", ignore_errors=True)
    done = Invoke(project, environ)("load")

    assert done.returncode == 1
    assert f"hint: invoke build --target cuda13.2 --platform {HOST}" in done.stderr
