"""How an inventory looks at a machine: files below a root, and programs with a time limit."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PATIENCE = 20.0  # seconds; nvidia-smi takes several where the driver has to be woken
_MOST = 1 << 20  # bytes of a file or of a program's output


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a program printed, and how it ended; `rc` is None for one that is not here or did not end in time."""

    rc: int | None
    out: str = ""
    err: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine to look at: tests give another one. `system`, `machine` and `kernel` as uname says them."""

    environ: Mapping[str, str]
    root: Path
    system: str
    machine: str
    kernel: str
    ask: Callable[[Sequence[str], Mapping[str, str]], Said]

    def run(self, *argv: str) -> Said:
        """A program of PATH, in the C locale."""
        return self.ask(argv, {**self.environ, "LC_ALL": "C"})

    def text(self, path: str) -> str:
        """A file's text, empty where there is none or it cannot be read."""
        try:
            with (self.root / path).open("rb") as stream:
                return stream.read(_MOST).decode("utf-8", "replace").strip()
        except OSError:
            return ""

    def paths(self, pattern: str) -> list[Path]:
        """What matches below the root, sorted."""
        return sorted(self.root.glob(pattern))

    def has(self, path: str) -> bool:
        """Whether there is such a path."""
        return (self.root / path).exists()

    def opens(self, path: Path) -> bool:
        """Whether this user may read and write it."""
        return os.access(path, os.R_OK | os.W_OK)


def this_machine(environ: Mapping[str, str]) -> Machine:
    """The one that we run on."""
    return Machine(
        environ=environ,
        root=Path("/"),
        system=platform.system(),
        machine=platform.machine(),
        kernel=platform.release(),
        ask=ask,
    )


def ask(argv: Sequence[str], environ: Mapping[str, str]) -> Said:
    """Run a program that is found on PATH; what it is asked must change nothing."""
    program = shutil.which(argv[0], path=environ.get("PATH"))
    if program is None:
        return Said(rc=None)
    try:
        done = subprocess.run(
            [program, *argv[1:]],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return Said(rc=None)
    out, err = (stream[:_MOST].decode("utf-8", "replace") for stream in (done.stdout, done.stderr))
    return Said(rc=done.returncode, out=out, err=err)
