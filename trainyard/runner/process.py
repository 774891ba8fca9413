"""A child process with bounded output and an end: both pipes are drained, only so much is kept."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO

from trainyard.runner.base import MAX_OUTPUT, Completed

_GRACE = 10.0
_MAX_LINE = 4096


@dataclass(slots=True, kw_only=True)
class _Drain:
    """Reads a pipe to its end on a thread of its own, keeps its first bytes, tells of each line."""

    stream: IO[bytes]
    on_line: Callable[[str], object] = lambda _line: None
    kept: bytearray = field(default_factory=bytearray)
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        with self.stream:
            while line := self.stream.readline(_MAX_LINE):
                self.kept += line[: max(0, MAX_OUTPUT - len(self.kept))]
                self.on_line(line.decode("utf-8", "replace").rstrip("\n"))


def drive(
    process: subprocess.Popen[bytes], *, stdin: bytes, timeout: float, on_line: Callable[[str], object]
) -> Completed:
    """Feed a started child, drain it, and end it when its time is up or when we are interrupted.

    SIGTERM first: what we start is a supervisor that takes all its processes along.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    start = time.monotonic()
    out = _Drain(stream=process.stdout)
    err = _Drain(stream=process.stderr, on_line=on_line)
    timed_out = False
    try:
        with process.stdin as pipe:
            pipe.write(stdin)
        process.wait(timeout)
    except BrokenPipeError:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:
        _end(process)
        out.thread.join(_GRACE)
        err.thread.join(_GRACE)
    return Completed(
        rc=process.returncode if process.returncode >= 0 else 128 - process.returncode,
        stdout=bytes(out.kept),
        stderr=bytes(err.kept),
        seconds=time.monotonic() - start,
        timed_out=timed_out,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
