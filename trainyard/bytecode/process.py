"""One compile server as a process of ours: started, asked, stopped and reaped."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from trainyard.bytecode.python import ImagePython
from trainyard.errors import TrainyardError

SCRIPT = Path(__file__).with_name("server.py")
# -S: no site-packages. -B and the prefix: bytecode is neither written nor read, so that the server always
# starts from the same sources. -X utf8: not what the host has for a locale. -W: a warning is no output.
_OPTIONS = ("-S", "-B", "-X", "pycache_prefix=/dev/null", "-X", "utf8=1", "-W", "ignore")
_COMPILED, _REFUSED = b"P", b"F"
_SHOWN = 4000  # bytes of a dead server's last words
_PATIENCE = 0.05  # seconds between two signals
_SIGNALS = 100


class CompileServer:
    """Answers one question at a time; a context, at whose end the process is gone."""

    def __init__(self, python: ImagePython) -> None:
        self._python = python
        self._last_words = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__
        try:
            self._process = subprocess.Popen(
                [*python.argv, *_OPTIONS, str(SCRIPT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._last_words,
                env=dict(python.env),
                cwd="/",
                umask=0o022,
                process_group=0,
            )
        except OSError as error:
            self._last_words.close()
            raise TrainyardError(
                f"the image's own Python does not start here: {error}",
                hint="is the cache on a disk mounted noexec? Try TRAINYARD_CACHE=DIR invoke build",
            ) from None

    def compile(self, path: str, source: bytes) -> tuple[bytes | None, str]:
        """The .pyc of a source whose path in the image is `path`, or None and why it does not compile.

        TrainyardError, with what the server said last, if it died.
        """
        name = f"/{path}".encode("utf-8", "surrogateescape")
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(len(name).to_bytes(4, "big") + len(source).to_bytes(4, "big") + name)
            self._process.stdin.write(source)
            self._process.stdin.flush()
            kind = self._read(1)
            body = self._read(int.from_bytes(self._read(4), "big"))
        except (BrokenPipeError, EOFError):
            raise self._death(path) from None
        if kind == _COMPILED:
            return body, ""
        assert kind == _REFUSED, f"a compile server answered {kind!r}"
        return None, body.decode("utf-8", "replace")

    def kill(self) -> None:
        """End the process and the child that compiles, and wait until both are gone; may be called twice.

        The server ignores SIGTERM, sees its child die of it, reaps it and ends. A signal that falls between
        two children is lost, hence the repetition.
        """
        for number in (*[signal.SIGTERM] * _SIGNALS, signal.SIGKILL):
            if self._process.poll() is not None:
                return
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE)
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for stream in (self._process.stdin, self._process.stdout, self._last_words):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):  # a request that nobody read
                stream.close()

    def _read(self, size: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(size)
        if len(data) != size:
            raise EOFError
        return data

    def _death(self, path: str) -> TrainyardError:
        self.kill()
        self._last_words.seek(0)
        words = self._last_words.read()[-_SHOWN:].decode("utf-8", "replace").strip()
        return TrainyardError(
            f"{path}: the image's own Python ended with status {self._process.returncode} while compiling it"
            + (f":\n{words}" if words else ""),
            hint="is there enough memory? Run `invoke build` again; finished layers are kept",
        )
