"""What every test gets: an environment that this machine does not decide, and a store of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest

from trainyard.store import Store

_SCRUBBED = ("PIP_", "UV_", "DOCKER_", "TRAINYARD_")

# How a reason begins that CI cannot mend by installing or building something first.
_OF_THE_MACHINE = ("this machine", "this host", "this Python", "there is a GPU", "older parsers")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With CI=true a test that is skipped for want of something has failed."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not reason.startswith(_OF_THE_MACHINE):
            report.outcome = "failed"
            report.longrepr = f"CI must not skip this: {reason}"
    return report


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
    """An independent reader of OCI layouts."""
    found = shutil.which("skopeo")
    if found is None:
        pytest.skip("skopeo is not installed")
    return found
