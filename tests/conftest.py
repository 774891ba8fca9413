"""What every test gets: an environment that this machine does not decide, and a store of its own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from trainyard.store import Store

_SCRUBBED = ("PIP_", "UV_", "DOCKER_", "TRAINYARD_")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's settings change no result, here and in child processes."""
    for name in list(os.environ):
        if name.startswith(_SCRUBBED) or name == "SOURCE_DATE_EPOCH":
            monkeypatch.delenv(name)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "store")


@pytest.fixture
def skopeo() -> str:
    """An independent reader of OCI layouts; where CI runs it must be there."""
    found = shutil.which("skopeo")
    if found is None:
        assert os.environ.get("CI") != "true", "CI must install skopeo"
        pytest.skip("skopeo is not installed")
    return found
