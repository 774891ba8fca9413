"""Each reason why Docker cannot build, brought about for real, becomes an error with a hint.

The CLI with its buildx plugin is enough for the first ones; the others need an engine.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support import engines
from tests.support.elf import shared_object
from tests.support.layouts import Raw, folder, layer, write_layout
from tests.support.project import Invoke, copy_project
from tests.support.users import ORDINARY, as_ordinary_user
from trainyard.buildx import Docker, ImageBuild
from trainyard.errors import RunnerError, SpaceError, TrainyardError

ROOT = Path(__file__).parents[1]
BASE = "localhost/test/base:1"
pytestmark = pytest.mark.docker


@pytest.fixture
def environ() -> Iterator[Mapping[str, str]]:
    """The CLI and its plugin below a folder that any user may read."""
    where = Path(tempfile.mkdtemp(dir="/tmp"))
    where.chmod(0o755)
    yield engines.cli(where)
    shutil.rmtree(where)


@pytest.fixture
def docker() -> Docker:
    return engines.builder()


def refusal(environ: Mapping[str, str], builder: str = "") -> TrainyardError:
    with pytest.raises(RunnerError) as caught:
        Docker.find(environ).check(builder)
    return caught.value


def test_no_cli(environ: Mapping[str, str], tmp_path: Path) -> None:
    error = refusal({**environ, "PATH": str(tmp_path)})

    assert error.message == "there is no `docker` on PATH"
    assert "docker-buildx" in error.hint


def test_no_buildx_plugin(environ: Mapping[str, str], tmp_path: Path) -> None:
    elsewhere = {**environ, "DOCKER_CONFIG": str(tmp_path)}
    if not subprocess.run(
        ["docker", "buildx", "version"], env=elsewhere, capture_output=True, check=False
    ).returncode:
        pytest.skip("this machine has the plugin for every user")
    error = refusal(elsewhere)

    assert error.message.endswith("has no buildx plugin")
    assert "docker-buildx" in error.hint


def test_no_daemon(environ: Mapping[str, str], tmp_path: Path) -> None:
    error = refusal({**environ, "DOCKER_HOST": f"unix://{tmp_path}/docker.sock"})

    assert error.message.startswith("no Docker daemon answers: ")
    assert "DOCKER_HOST" in error.hint


def test_a_socket_of_somebody_else(environ: Mapping[str, str]) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    path = Path(environ["HOME"]) / "docker.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        path.chmod(0o660)
        os.chown(environ["DOCKER_CONFIG"], ORDINARY, ORDINARY)
        error = as_ordinary_user(lambda: refusal({**environ, "DOCKER_HOST": f"unix://{path}"}))

    assert error.message.startswith("no permission to talk to the Docker daemon: ")
    assert "usermod" in error.hint


def test_an_unknown_builder(environ: Mapping[str, str]) -> None:
    error = refusal({**environ, "DOCKER_HOST": "unix:///nowhere"}, "farm")

    assert error.message == "there is no builder 'farm'"
    assert "docker buildx ls" in error.hint


def test_an_old_engine(environ: Mapping[str, str]) -> None:
    error = refusal({**environ, "DOCKER_HOST": engines.old_host()})

    assert re.match(r"(BuildKit|Docker Engine) \S+ is too old: ", error.message)
    assert "--builder" in error.hint


def test_an_old_engine_ends_the_command_with_1_before_anything_is_fetched(
    environ: Mapping[str, str], tmp_path: Path
) -> None:
    root = copy_project(tmp_path)
    done = Invoke(root, {**environ, "DOCKER_HOST": engines.old_host()})("build", "--engine", "docker")

    assert done.returncode == 1
    assert "is too old" in done.stderr
    assert "hint: " in done.stderr
    assert not (root / "cache" / "inputs").exists()


def image_build(
    tmp_path: Path, dockerfile: str, *, layout: Path, arch: str = "amd64", size: int = 0
) -> ImageBuild:
    """A context with `size` random bytes in `file`, on a base of one file that is no program of this machine's."""
    context, base, wheels = (tmp_path / name for name in ("context", "base", "wheels"))
    context.mkdir()
    wheels.mkdir()
    (context / "Dockerfile").write_text(dockerfile)
    (context / "file").write_bytes(os.urandom(size))
    shell = Raw(name="bin/sh", data=shared_object(None, arch=arch), mode=0o755)
    digest = write_layout(base, [layer([folder("bin"), shell])], architecture=arch)
    return ImageBuild(
        context=context,
        platform=f"linux/{arch}",
        base=BASE,
        base_layout=base,
        base_digest=digest,
        wheels=wheels,
        created=0,
        layout=layout,
    )


def failure(docker: Docker, build: ImageBuild) -> TrainyardError:
    with pytest.raises(TrainyardError) as caught:
        docker.build(build, say=lambda _line: None)
    return caught.value


def test_another_architecture(docker: Docker, tmp_path: Path) -> None:
    """A program of arm64, where no emulator is registered."""
    emulators = Path("/proc/sys/fs/binfmt_misc")
    if any("aarch64" in path.name for path in emulators.glob("*")):
        pytest.skip("this machine runs arm64 programs by an emulator")
    build = image_build(tmp_path, f"FROM {BASE}\nRUN true\n", layout=tmp_path / "layout", arch="arm64")
    error = failure(docker, build)

    assert "exec format error" in error.message
    assert "of that architecture with --builder" in error.hint


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, with 8 MB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    where = tmp_path / "small"
    where.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", where], check=True)
    yield where
    subprocess.run(["umount", where], check=True)


def test_no_room_for_the_image(docker: Docker, tmp_path: Path, small_disk: Path) -> None:
    build = image_build(tmp_path, "FROM scratch\nCOPY file /\n", layout=small_disk / "layout", size=30 << 20)
    error = failure(docker, build)

    assert isinstance(error, SpaceError)
    assert f"make room in {small_disk}" in error.hint


@pytest.fixture
def small_engine(docker: Docker, tmp_path: Path) -> Iterator[Docker]:
    """A second engine of `.ci/engine`, whose data are on a disk of 96 MB."""
    installed = Path(
        docker.environ.get("DOCKER_HOST", "").removeprefix("unix://").removesuffix("/run/docker.sock")
    )
    if os.geteuid() != 0 or not (installed / "usr" / "sbin" / "dockerd").exists():
        pytest.skip("only root can start a second engine, and only beside one of .ci/engine")
    home = tmp_path / "engine"
    (home / "data").mkdir(parents=True)
    subprocess.run(["cp", "-al", installed, home / "root"], check=True)
    for leftover in (home / "root" / "run").iterdir():
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", home / "data"], check=True)
    script, variables = ROOT / ".ci" / "engine", {**os.environ, "TRAINYARD_ENGINE": str(home)}
    try:
        subprocess.run([script, "start"], env=variables, stdout=subprocess.DEVNULL, check=True)
        host = f"unix://{home}/root/run/docker.sock"
        yield Docker(program=docker.program, environ={**docker.environ, "DOCKER_HOST": host})
    finally:
        subprocess.run([script, "stop"], env=variables, check=True)
        subprocess.run(["umount", home / "data"], check=True)
        shutil.rmtree(home)


def test_no_room_where_the_builder_keeps_its_data(small_engine: Docker, tmp_path: Path) -> None:
    layout = tmp_path / "layout"
    build = image_build(tmp_path, "FROM scratch\nCOPY file /\n", layout=layout, size=120 << 20)
    error = failure(small_engine, build)

    assert isinstance(error, SpaceError)
    assert "docker buildx prune" in error.hint
