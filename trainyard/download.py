"""URLs to verified files: resumed, retried, hashed on the way, and never half there."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, TypeVar

import urllib3

from trainyard.connection import Connections, PassingError, passing_errors, shown
from trainyard.digest import CHUNK, read_chunks
from trainyard.errors import FetchError, InputError, SpaceError

ATTEMPTS = 6
LONGEST_WAIT = 60.0
T = TypeVar("T")


class Downloader:
    """HTTP GET for as long as a failure may pass; safe to use from several threads.

    `environ` says which proxies and CA certificates to use, `logins` whom to be (see Connections). `stop` is
    asked between chunks and while waiting; `on_bytes` is told the size of every chunk that arrives. `backoff` is
    the first wait between attempts, in seconds; it doubles.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        stop: Callable[[], bool] | None = None,
        on_bytes: Callable[[int], object] | None = None,
        backoff: float = 0.5,
        attempts: int = ATTEMPTS,
        logins: Iterable[str] = (),
    ) -> None:
        self._connections = Connections(environ, logins=logins)
        self._stop = stop or (lambda: False)
        self._on_bytes = on_bytes or (lambda _count: None)
        self._backoff = backoff
        self._attempts = attempts

    def read(self, url: str, *, limit: int) -> bytes:
        """The body of a small document; InputError above `limit` bytes, GoneError for 404 and 410."""

        def attempt() -> bytes:
            body = bytearray()
            with self._connections.get(url) as response:
                for chunk in self._chunks(response, url):
                    body += chunk
                    if len(body) > limit:
                        raise InputError(f"{shown(url)} is larger than the {limit} bytes that it may have")
            return bytes(body)

        return self._persist(url, attempt, have=lambda: "")

    def fetch(self, url: str, target: Path, *, sha256: str, size: int) -> None:
        """Bring `url` to `target`, read-only, when it has that hash and size; goes on from `<target>.part`.

        InputError for other bytes (the part file is removed), GoneError for 404 and 410, FetchError when the
        network did not deliver (the part file stays), SpaceError on a full disk.
        """
        target.parent.mkdir(parents=True, exist_ok=True)
        path = target.with_name(f"{target.name}.part")
        try:
            with path.open("a+b") as stream:
                part = _Part(path, stream)
                self._persist(
                    url,
                    lambda: self._fill(url, part, sha256=sha256, size=size),
                    have=lambda: f"; {part.size} of {size} bytes are here already",
                )
                stream.flush()
                os.fsync(stream.fileno())
            path.chmod(0o444)
            path.replace(target)
        except InputError:
            path.unlink(missing_ok=True)
            raise
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise SpaceError(
                f"the disk is full: {target.parent} has no room for {shown(url)} ({size} bytes)",
                hint="free some space (`invoke clean`), or use another disk: TRAINYARD_CACHE=DIR invoke ...",
            ) from None

    def measure(self, url: str) -> tuple[str, int]:
        """Bare hex sha256 and size of what `url` serves, for an index that says neither; nothing is kept."""

        def attempt() -> tuple[str, int]:
            hasher, size = hashlib.sha256(), 0
            with self._connections.get(url) as response:
                for chunk in self._chunks(response, url):
                    hasher.update(chunk)
                    size += len(chunk)
            return hasher.hexdigest(), size

        return self._persist(url, attempt, have=lambda: "")

    def _fill(self, url: str, part: _Part, *, sha256: str, size: int) -> None:
        """One attempt to bring `part` to its full size, and the comparison of its hash."""
        if part.size > size:
            part.restart()
        if part.size < size:
            with self._connections.get(url, offset=part.size) as response:
                if response.status == 200:
                    part.restart()
                for chunk in self._chunks(response, url):
                    if part.size + len(chunk) > size:
                        raise InputError(f"{shown(url)} is larger than the {size} bytes that it must have")
                    part.write(chunk)
                is_whole = response.status == 200 and "Content-Length" in response.headers
            if part.size < size and not is_whole:
                raise PassingError("the connection was cut")
        if part.size == size and part.hasher.hexdigest() == sha256:
            return
        if part.is_resumed:
            # The first bytes are from an earlier run, perhaps damaged since: they get no second chance.
            part.restart()
            raise PassingError("what an earlier run left was damaged")
        raise InputError(
            f"{shown(url)} has {part.size} bytes with sha256 {part.hasher.hexdigest()}; "
            f"it must have {size} bytes with {sha256}",
            hint="a mirror or proxy served another file: try again; if it stays so, do not use that server",
        )

    def _persist(self, url: str, attempt: Callable[[], T], *, have: Callable[[], str]) -> T:
        """The result of `attempt`, repeated with growing waits while the failure may pass."""
        cause = ""
        for number in range(self._attempts):
            self._check_stop(url)
            try:
                return attempt()
            except PassingError as failure:
                cause = str(failure)
                if number + 1 < self._attempts:
                    self._pause(max(failure.wait, self._backoff * 2**number), url)
        raise FetchError(
            f"could not fetch {shown(url)}: {cause} ({self._attempts} attempts{have()})",
            hint="check the network (http_proxy, https_proxy, no_proxy, SSL_CERT_FILE are obeyed), then run "
            "the same command again: it goes on where it stopped; what is in the cache needs no network",
        )

    def _pause(self, seconds: float, url: str) -> None:
        until = time.monotonic() + min(seconds, LONGEST_WAIT)
        while (left := until - time.monotonic()) > 0:
            self._check_stop(url)
            time.sleep(min(left, 0.2))

    def _check_stop(self, url: str) -> None:
        if self._stop():
            raise FetchError(
                f"stopped while fetching {shown(url)}", hint="run the same command again to go on"
            )

    def _chunks(self, response: urllib3.BaseHTTPResponse, url: str) -> Iterator[bytes]:
        """The body as it arrives, at most 1 MiB at a time."""
        with passing_errors(url):
            for chunk in response.stream(CHUNK, decode_content=False):
                self._check_stop(url)
                self._on_bytes(len(chunk))
                yield chunk


class _Part:
    """The `.part` file being written: how many bytes it has, and their running hash."""

    def __init__(self, path: Path, stream: BinaryIO) -> None:
        """Take up what an earlier run left at `path`; `stream` appends to that file."""
        self.stream = stream
        self.size = 0
        self.hasher = hashlib.sha256()
        for chunk in read_chunks(path):
            self.hasher.update(chunk)
            self.size += len(chunk)
        self.is_resumed = self.size > 0

    def write(self, chunk: bytes) -> None:
        self.stream.write(chunk)
        self.hasher.update(chunk)
        self.size += len(chunk)

    def restart(self) -> None:
        self.stream.truncate(0)
        self.size = 0
        self.hasher = hashlib.sha256()
        self.is_resumed = False
