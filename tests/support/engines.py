"""The Docker that the tests may use; without one they are skipped, with the reason."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

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
        pytest.skip(f'no engine: {error.message}; eval "$(.ci/engine start)"')
    return docker


def old_host() -> str:
    """DOCKER_HOST of an engine from before zstd layers."""
    if not OLD_HOST:
        pytest.skip('no OLD_DOCKER_HOST: eval "$(.ci/engine --old start)"')
    return OLD_HOST


def cli(folder: Path) -> Mapping[str, str]:
    """An environment with the CLI and its buildx plugin in a DOCKER_CONFIG that is the test's own; no engine."""
    docker = shutil.which("docker")
    if docker is None:
        pytest.skip("no docker CLI: apt-get install docker-cli")
    config = folder / "docker-config"
    config.mkdir()
    plugin = Path(SETTINGS.environ.get("DOCKER_CONFIG", Path.home() / ".docker")) / "cli-plugins"
    if plugin.is_dir():
        shutil.copytree(plugin, config / "cli-plugins")
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "DOCKER_CONFIG": str(config)}
    if subprocess.run(
        [str(docker), "buildx", "version"], env=environ, capture_output=True, check=False
    ).returncode:
        pytest.skip('no buildx plugin: eval "$(.ci/engine start)"')
    return environ
