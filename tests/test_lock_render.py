"""The text of a wheel lock: read back as the same lock, taken by pip and by uv as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from uv import find_uv_bin

from tests.support.locks import AMD64, ARM64, wheel, wheel_lock
from tests.support.wheels import build_wheel, locked
from trainyard.errors import LockError
from trainyard.lock.model import WheelLock, parse_wheel_lock
from trainyard.lock.render import render_wheel_lock
from trainyard.paths import Project

PROJECT = Project(Path(__file__).parents[1])


def text_of(lock: WheelLock) -> str:
    return render_wheel_lock(PROJECT, lock)


@pytest.fixture
def tiny(tmp_path: Path) -> WheelLock:
    """A lock of real wheels that lie in `wheels`, one with an odd version."""
    folder = tmp_path / "wheels"
    paths = [
        build_wheel(folder, name="demo", requires=["helper-lib>=2"]),
        build_wheel(folder, name="helper-lib", version="2.0+cu134"),
    ]
    return wheel_lock(*(locked(path) for path in paths))


def install(tmp_path: Path, text: str, *command: str) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "linux-amd64.txt"
    path.write_text(text, "utf-8")
    options = (
        "--require-hashes",
        "--no-index",
        "--find-links",
        str(tmp_path / "wheels"),
        "-r",
        str(path),
    )
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PIP_CONFIG_FILE": os.devnull,
        "UV_NO_CONFIG": "1",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    return subprocess.run([*command, *options], env=environ, capture_output=True, text=True, check=False)


PIP = (sys.executable, "-m", "pip", "install", "--disable-pip-version-check")
DRY = "--dry-run"
UV = (find_uv_bin(), "pip", "install", "--python", sys.executable)


@pytest.mark.parametrize("command", [(*PIP, DRY), (*UV, DRY)], ids=["pip", "uv"])
def test_an_installer_takes_the_file(tmp_path: Path, tiny: WheelLock, command: tuple[str, ...]) -> None:
    done = install(tmp_path, text_of(tiny), *command)

    assert done.returncode == 0, done.stderr
    assert "helper-lib" in (done.stdout + done.stderr).replace("_", "-")


@pytest.mark.parametrize("command", [PIP, UV], ids=["pip", "uv"])
def test_an_installer_refuses_other_bytes(tmp_path: Path, tiny: WheelLock, command: tuple[str, ...]) -> None:
    broken = replace(tiny.wheels[0], sha256="0" * 64)
    text = text_of(replace(tiny, wheels=(broken, *tiny.wheels[1:])))
    done = install(tmp_path, text, *command, "--target", str(tmp_path / "target"))

    assert done.returncode != 0
    assert "demo" in done.stderr


def test_the_text_reads_back_as_the_same_lock(tiny: WheelLock) -> None:
    other = wheel_lock(wheel("a"), wheel("b-c", "1!2.0rc1"), platform=ARM64, until="2026-01-02T03:04:05Z")

    for lock in (tiny, other, wheel_lock()):
        assert parse_wheel_lock(text_of(lock), source="x") == lock


def test_every_line_but_the_header_is_one_wheel_with_its_size_and_file(tiny: WheelLock) -> None:
    header, _, body = text_of(tiny).partition("\n\n")

    assert all(line.startswith("# ") for line in header.splitlines())
    assert body == "".join(
        f"{one.name}=={one.version} --hash=sha256:{one.sha256}  # {one.size} {one.filename}\n"
        for one in tiny.wheels
    )


def test_the_text_names_no_host(tiny: WheelLock) -> None:
    assert "://" not in text_of(tiny)


def test_a_lock_that_is_not_sorted_does_not_read_back() -> None:
    lock = replace(wheel_lock(), platform=AMD64, wheels=(wheel("b"), wheel("a")))

    with pytest.raises(LockError, match="a is not sorted after b"):
        parse_wheel_lock(text_of(lock), source="x")


@pytest.mark.parametrize("platform", [AMD64, ARM64], ids=str)
def test_the_committed_locks_are_what_render_writes(platform: object) -> None:
    path = PROJECT.root / "lockfiles/cuda13.2" / f"{str(platform).replace('/', '-')}.txt"
    text = path.read_text("utf-8")

    assert text_of(parse_wheel_lock(text, source=path.name)) == text
