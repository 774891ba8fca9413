"""The Docker that the tests may use: skipped with the reason where there is none, a failure where CI runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from trainyard.buildx import Docker
from trainyard.errors import TrainyardError
from trainyard.settings import settings_from

# Read before the tests' own environment is cleaned.
SETTINGS = settings_from(os.environ, home=Path.home(), cores=2)
OLD_HOST = os.environ.get("OLD_DOCKER_HOST", "")


def builder() -> Docker:
    """The CLI with an engine behind it that can build."""
    try:
        docker = Docker.find(SETTINGS.environ)
        docker.check()
    except TrainyardError as error:
        absent(f"no engine: {error.message}", how='eval "$(.ci/engine start)"')
    return docker


def old_host() -> str:
    """DOCKER_HOST of an engine from before zstd layers."""
    if not OLD_HOST:
        absent("no OLD_DOCKER_HOST", how='eval "$(.ci/engine --old start)"')
    return OLD_HOST


def cli(folder: Path) -> Mapping[str, str]:
    """An environment with the CLI and its buildx plugin in a DOCKER_CONFIG that is the test's own; no engine."""
    docker = shutil.which("docker")
    if docker is None:
        absent("no docker CLI", how="apt-get install docker-cli")
    config = folder / "docker-config"
    config.mkdir()
    plugin = Path(SETTINGS.environ.get("DOCKER_CONFIG", Path.home() / ".docker")) / "cli-plugins"
    if plugin.is_dir():
        shutil.copytree(plugin, config / "cli-plugins")
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "DOCKER_CONFIG": str(config)}
    if subprocess.run(
        [str(docker), "buildx", "version"], env=environ, capture_output=True, check=False
    ).returncode:
        absent("no buildx plugin", how='eval "$(.ci/engine start)"')
    return environ


def absent(what: str, *, how: str) -> NoReturn:
    """Skip for want of something, or fail where it must be there."""
    assert not SETTINGS.ci, f"CI must have it: {what}; {how}"
    pytest.skip(f"{what}: {how}")
