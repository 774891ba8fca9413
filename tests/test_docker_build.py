"""A real BuildKit builds the rendered Dockerfile of a small target, by our hand and by a person's: one digest.

Needs an engine (DOCKER_HOST, or the default socket), and in the store the debs and the wheels of numpy, pip, uv.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from tests.support import engines
from tests.support.dockerfiles import header_command
from trainyard.commands.build import BuildRequest, build
from trainyard.commands.contexts import write_all_contexts
from trainyard.commands.display import Display
from trainyard.commands.docker import DockerOutcome, DockerRequest, build_all_docker
from trainyard.commands.parity import compare_engines
from trainyard.commands.render import render_all
from trainyard.errors import ReproducibilityError
from trainyard.lock.environment import wheel_inputs
from trainyard.lock.render import render_wheel_lock
from trainyard.oci.layout import read_layout
from trainyard.paths import Project
from trainyard.platforms import Platform
from trainyard.workspace import Workspace

ROOT = Path(__file__).parents[1]
HOST = Platform.of_machine(platform.system(), platform.machine()) or Platform("linux", "amd64")
QUIET = Display(Console(stderr=True), quiet=True)
TARGET = "cuda13.2"
pytestmark = [pytest.mark.docker, pytest.mark.real]


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """A project whose only target has three wheels, assembled and rendered, with a store of its own."""
    engines.builder()
    root = tmp_path_factory.mktemp("project")
    for name in ("templates", "lockfiles"):
        shutil.copytree(ROOT / name, root / name)
    matrix = (ROOT / "matrix.yaml").read_text()
    (root / "matrix.yaml").write_text(re.sub(r"sets: \[torch, tools.*\]", "sets: [tools]", matrix))
    cache = root / "cache"
    (cache / "inputs").mkdir(parents=True)
    workspace = Workspace(
        project=Project(root),
        settings=replace(engines.SETTINGS, cache=cache),
        host=HOST,
        clock=lambda: 0.0,
        now=lambda: datetime(2026, 12, 1, tzinfo=UTC),
        apt_sources=dict,
    )
    _lock(workspace)
    cell = (workspace.matrix.target(TARGET), HOST)
    build(workspace, *cell, BuildRequest(record=True, smoke=False), QUIET)
    render_all(workspace, [cell], check=False)
    yield workspace
    shutil.rmtree(root)


def _lock(workspace: Workspace) -> None:
    """The lock without the wheels that nobody asks for now; what is left is linked into the store."""
    target = workspace.matrix.target(TARGET)
    path = workspace.project.wheel_lock(TARGET, HOST)
    full, debs = workspace.read_wheel_lock(target, HOST), workspace.read_deb_lock(target.debian[0], HOST.arch)
    assert full is not None
    assert debs is not None
    wheels = tuple(wheel for wheel in full.wheels if wheel.name in ("numpy", "pip", "uv"))
    lock = replace(full, wheels=wheels, inputs=wheel_inputs(target, HOST))
    path.write_text(render_wheel_lock(workspace.project, lock))
    for sha256 in (*(wheel.sha256 for wheel in wheels), *(deb.sha256 for deb in debs.debs)):
        source, copy = engines.SETTINGS.cache / "inputs" / sha256, workspace.store.input(sha256)
        if not source.exists():
            pytest.skip(f"input {sha256} is not in the store: `invoke build` fetches it")
        try:
            os.link(source, copy)
        except OSError:  # another disk
            shutil.copy(source, copy)


def docker_build(space: Workspace) -> DockerOutcome:
    cell = (space.matrix.target(TARGET), HOST)
    return build_all_docker(space, [cell], DockerRequest(use_cache=False), QUIET)[0]


@pytest.fixture(scope="module")
def built(space: Workspace) -> DockerOutcome:
    return docker_build(space)


def test_a_person_with_nothing_but_docker_gets_the_same_digest(
    space: Workspace, built: DockerOutcome, tmp_path: Path
) -> None:
    """The header's command, where there is no trainyard: images/ and the contexts in other hands, nothing cached."""
    cell = (space.matrix.target(TARGET), HOST)
    write_all_contexts(space, [cell], tmp_path / "written", QUIET)
    # Copies, with the times of today and the modes of a careful person.
    shutil.copytree(tmp_path / "written", tmp_path / "contexts", copy_function=shutil.copyfile)
    shutil.copytree(space.project.root / "images", tmp_path / "images", copy_function=shutil.copyfile)
    for path in [*(tmp_path / "contexts").rglob("*"), *(tmp_path / "images").rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)

    dockerfile = tmp_path / "images" / TARGET / HOST.slug / "Dockerfile"
    command = header_command(dockerfile, contexts="contexts", layout="layout", extra="--no-cache")
    environ = {name: value for name, value in engines.SETTINGS.environ.items() if name.startswith("DOCKER_")}
    environ |= {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert read_layout(tmp_path / "layout").images[0].digest == built.image.digest


def test_contexts_are_replaced_by_newer_ones_and_nothing_else_is_touched(
    space: Workspace, tmp_path: Path
) -> None:
    cell = (space.matrix.target(TARGET), HOST)
    place = tmp_path / TARGET / HOST.slug
    (place / "wheels").mkdir(parents=True)
    (place / "wheels" / "old.whl").touch()
    (place / "notes").touch()
    contexts = write_all_contexts(space, [cell], tmp_path, QUIET)[0]

    assert sorted(path.name for path in place.iterdir()) == ["base", "notes", "wheels"]
    assert {path.name for path in contexts.wheels.iterdir()} == {
        wheel.filename for wheel in contexts.plan.wheels.wheels
    }
    assert read_layout(contexts.base).images[0].digest == contexts.base_digest
    assert [path for path in (tmp_path / TARGET).iterdir() if path != place] == []


def test_the_tree_and_the_config_are_the_assembler_s(space: Workspace, built: DockerOutcome) -> None:
    compared = compare_engines(space, [(space.matrix.target(TARGET), HOST)], QUIET)[0]

    assert compared.differences == ()
    assert compared.docker_digest == built.image.digest
    assert compared.compared > 10_000


def test_a_context_that_is_not_as_rendered_is_not_built(space: Workspace) -> None:
    doctor = space.project.docker_context(TARGET, HOST) / "rootfs" / "opt" / "trainyard" / "doctor.py"
    before = doctor.read_bytes()
    doctor.write_bytes(before + b"# one more line\n")
    try:
        with pytest.raises(ReproducibilityError, match="nobody has reviewed it"):
            docker_build(space)
    finally:
        doctor.write_bytes(before)
