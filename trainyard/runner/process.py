"""A child process with bounded output and an end: both pipes are drained, only so much is kept."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO

from trainyard.runner.base import MAX_OUTPUT, Completed

GRACE = 10.0  # seconds for what is being ended to be gone
_MAX_LINE = 4096
_CHUNK = 1 << 16


@dataclass(slots=True, kw_only=True)
class Capture:
    """What a stream said: its first bytes are kept, each line is told as it comes, a long one in pieces."""

    on_line: Callable[[str], object] = lambda _line: None
    kept: bytearray = field(default_factory=bytearray)
    _line: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self.kept += data[: max(0, MAX_OUTPUT - len(self.kept))]
        for piece in data.splitlines(keepends=True) if b"\n" in data else [data]:
            self._line += piece
            if piece.endswith(b"\n") or len(self._line) >= _MAX_LINE:
                self.close()

    def close(self) -> None:
        """Tell of a last line without an end."""
        if self._line:
            self.on_line(self._line.decode("utf-8", "replace").rstrip("\r\n"))
            self._line.clear()


@dataclass(slots=True, kw_only=True)
class _Drain:
    """Reads a pipe to its end on a thread of its own."""

    stream: IO[bytes]
    capture: Capture
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        with self.stream:
            while data := os.read(self.stream.fileno(), _CHUNK):
                self.capture.feed(data)
        self.capture.close()


def drive(
    process: subprocess.Popen[bytes],
    *,
    stdin: bytes,
    timeout: float,
    on_line: Callable[[str], object],
    end: Callable[[], object] | None = None,
) -> Completed:
    """Feed a started child, drain it, and end it when its time is up or when we are interrupted.

    `end` asks it to go, by SIGTERM unless said otherwise: what we start is a supervisor that takes all its
    processes along.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    start = time.monotonic()
    out = _Drain(stream=process.stdout, capture=Capture())
    err = _Drain(stream=process.stderr, capture=Capture(on_line=on_line))
    timed_out = False
    try:
        with process.stdin as pipe:
            pipe.write(stdin)
        process.wait(timeout)
    except BrokenPipeError:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:
        _end(process, end or process.terminate)
        out.thread.join(GRACE)
        err.thread.join(GRACE)
    return Completed(
        rc=process.returncode if process.returncode >= 0 else 128 - process.returncode,
        stdout=bytes(out.capture.kept),
        stderr=bytes(err.capture.kept),
        seconds=time.monotonic() - start,
        timed_out=timed_out,
    )


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """What would end us waits until this is done: a second Ctrl-C must not leave what the first one ended.

    Signals interrupt the main thread only; in another one this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []
    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda number, _frame: heard.append(number)) for number in ends}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if heard:
            signal.raise_signal(heard[0])


def _end(process: subprocess.Popen[bytes], end: Callable[[], object]) -> None:
    if process.poll() is not None:
        return
    end()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
