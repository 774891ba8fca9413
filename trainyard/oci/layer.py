"""Entries -> one layer blob and both of its digests, in one pass and in constant memory."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import BinaryIO

from trainyard.digest import CHUNK
from trainyard.errors import SpaceError, TrainyardError
from trainyard.oci.codec import Codec, Compressor
from trainyard.oci.contents import LayerContents
from trainyard.oci.entry import Entry
from trainyard.oci.members import Member
from trainyard.oci.tar import TarWriter

# Smaller pieces (headers, padding, small files) are gathered: each call of a hash or a compressor costs.
_LARGE = CHUNK // 4


class StoppedError(TrainyardError):
    """The caller's `stop` said so; the blob is unfinished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenLayer:
    """A finished layer: diff id of its tar and digest of its blob (`sha256:<hex>`), the blob's size in bytes.

    `content_size` sums the sizes of regular files; `files` counts all members but directories; `members` are
    the entries as they were given, without the parents that were added.
    """

    diff_id: str
    digest: str
    size: int
    content_size: int
    files: int
    media_type: str
    members: tuple[Member, ...]


def write_layer(
    entries: Iterable[Entry],
    *,
    mtime: int,
    codec: Codec,
    sink: BinaryIO,
    stop: Callable[[], bool] | None = None,
    on_bytes: Callable[[int], object] | None = None,
) -> WrittenLayer:
    """Write entries, in their order and each below its parent directories, as a compressed tar to `sink`.

    `mtime` (seconds) is that of directories and of entries without one. `on_bytes` hears how many tar bytes
    went by. Errors: InputError naming origin and path of an entry that no layer may hold (see contents.py) or
    whose content is not its size; StoppedError when `stop` returns true; SpaceError when the disk is full.
    """
    contents = LayerContents()
    stream = _Stream(compressor=codec.compressor(), sink=sink, stop=stop, on_bytes=on_bytes)
    tar = TarWriter(stream.write)
    for entry in entries:
        for member in contents.admit(entry):
            tar.add(member, mtime=mtime)
    tar.close()
    stream.finish()
    return WrittenLayer(
        diff_id=f"sha256:{stream.tar_hash.hexdigest()}",
        digest=f"sha256:{stream.blob_hash.hexdigest()}",
        size=stream.size,
        content_size=contents.content_size,
        files=contents.files,
        media_type=codec.media_type,
        members=contents.members,
    )


@dataclass(slots=True, kw_only=True)
class _Stream:
    """Tar bytes in; hashed, compressed, hashed again and written, about 1 MiB at a time."""

    compressor: Compressor
    sink: BinaryIO
    stop: Callable[[], bool] | None
    on_bytes: Callable[[int], object] | None
    tar_hash: hashlib._Hash = field(default_factory=hashlib.sha256)
    blob_hash: hashlib._Hash = field(default_factory=hashlib.sha256)
    size: int = 0
    _small: list[bytes] = field(default_factory=list)
    _held: int = 0

    def write(self, data: bytes) -> None:
        if len(data) < _LARGE:
            self._small.append(data)
            self._held += len(data)
            if self._held >= CHUNK:
                self._drain()
            return
        self._drain()
        view = memoryview(data)
        for start in range(0, len(data), CHUNK):
            self._process(view[start : start + CHUNK])

    def finish(self) -> None:
        self._drain()
        self._emit(self.compressor.flush())

    def _drain(self) -> None:
        if self._small:
            data = b"".join(self._small)
            self._small, self._held = [], 0
            self._process(data)

    def _process(self, data: bytes | memoryview) -> None:
        if self.stop is not None and self.stop():
            raise StoppedError("stopped before the layer was whole")
        # With zstd this starts the codec's own thread, which works while we hash.
        ready = self.compressor.compress(data)
        self.tar_hash.update(data)
        self._emit(ready)
        if self.on_bytes is not None:
            self.on_bytes(len(data))

    def _emit(self, data: bytes) -> None:
        self.blob_hash.update(data)
        self.size += len(data)
        view = memoryview(data)
        try:
            while view:
                view = view[self.sink.write(view) :]  # an unbuffered file may take a part
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise SpaceError(
                f"the disk was full after {self.size / 1e9:.1f} GB of a layer",
                hint="make room with `invoke clean --dist --layers`, or set TRAINYARD_CACHE to a larger disk",
            ) from None
