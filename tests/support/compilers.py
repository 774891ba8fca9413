"""Pythons that compile: the one that runs the tests, in the place of an image's own; and who still runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from trainyard.bytecode.python import ImagePython

STDLIB = Path(sys.modules["os"].__file__ or "").parent
TAG = sys.implementation.cache_tag
_MARKER = "TRAINYARD_TEST_RUN"


def host_python(marker: str = "", *, wrapped: Sequence[str] = ()) -> ImagePython:
    """The tests' own Python; `marker` is put into the environment of its processes, `wrapped` before it."""
    return ImagePython(
        root=Path(sys.prefix),
        version=f"{sys.version_info.major}.{sys.version_info.minor}",
        argv=(*wrapped, sys.executable),
        env={"PYTHONHASHSEED": "0", _MARKER: marker},
    )


def running(marker: str) -> list[int]:
    """Processes with that marker in their environment, zombies included if they are ours to reap."""
    wanted = f"{_MARKER}={marker}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return sorted(found)


def children(pid: int) -> list[int]:
    """The processes that `pid` forked and has not reaped."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def child_of(pid: int, *, after: int = 0) -> int:
    """The one child of a server, another one than `after`, waiting for it to be forked."""
    for _ in range(500):
        if (found := children(pid)) and found[0] != after:
            return found[0]
        time.sleep(0.01)
    raise AssertionError(f"{pid} forked nothing")


def gone(marker: str) -> bool:
    """Whether no process with that marker runs, at the latest after five seconds."""
    for _ in range(100):
        if not running(marker):
            return True
        time.sleep(0.05)
    return False


def some_sources(count: int) -> list[tuple[str, bytes]]:
    """Real sources that every Python compiles: `count` modules of the tests' own standard library."""
    paths = sorted(STDLIB.glob("*.py"))[:count]
    return [(f"usr/lib/python3.13/{path.name}", path.read_bytes()) for path in paths]
