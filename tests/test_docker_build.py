"""A real BuildKit builds the rendered Dockerfile of a small target twice, and its tree is the assembler's.

Needs an engine (DOCKER_HOST, or the default socket), and in the store the debs and the wheels of numpy, pip, uv.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from trainyard.buildx import Docker
from trainyard.commands.build import BuildRequest, build
from trainyard.commands.display import Display
from trainyard.commands.docker import DockerOutcome, DockerRequest, build_all_docker
from trainyard.commands.parity import compare_engines
from trainyard.commands.render import render_all
from trainyard.errors import ReproducibilityError, TrainyardError
from trainyard.lock.environment import wheel_inputs
from trainyard.lock.render import render_wheel_lock
from trainyard.paths import Project
from trainyard.platforms import Platform
from trainyard.settings import Settings, settings_from
from trainyard.workspace import Workspace

ROOT = Path(__file__).parents[1]
# Read before the tests' own environment is cleaned.
SETTINGS = settings_from(os.environ, home=Path.home(), cores=2)
HOST = Platform.of_machine(platform.system(), platform.machine()) or Platform("linux", "amd64")
QUIET = Display(Console(stderr=True), quiet=True)
TARGET = "cuda13.2"
pytestmark = [pytest.mark.docker, pytest.mark.real]


@pytest.fixture(scope="module")
def engine() -> Settings:
    """How to reach an engine; where CI runs there must be one."""
    try:
        Docker.find(SETTINGS.environ).check()
    except TrainyardError as error:
        assert not SETTINGS.ci, f"CI must have an engine: {error.message}"
        pytest.skip(f"no engine: {error.message}")
    return SETTINGS


@pytest.fixture(scope="module")
def space(engine: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """A project whose only target has three wheels, assembled and rendered, with a store of its own."""
    root = tmp_path_factory.mktemp("project")
    for name in ("templates", "lockfiles"):
        shutil.copytree(ROOT / name, root / name)
    matrix = (ROOT / "matrix.yaml").read_text()
    (root / "matrix.yaml").write_text(re.sub(r"sets: \[torch, tools.*\]", "sets: [tools]", matrix))
    cache = root / "cache"
    (cache / "inputs").mkdir(parents=True)
    workspace = Workspace(
        project=Project(root),
        settings=replace(engine, cache=cache),
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
        source, copy = SETTINGS.cache / "inputs" / sha256, workspace.store.input(sha256)
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


def test_two_builds_without_a_cache_give_one_digest(space: Workspace, built: DockerOutcome) -> None:
    assert docker_build(space).image.digest == built.image.digest


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
