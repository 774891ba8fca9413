"""How a layer's tar is compressed: zstd by default, gzip for runtimes that cannot read zstd; and back.

Compressed bytes depend on the library's version and on every parameter, so both are pinned here. They do not
depend on how the input is cut into chunks.
"""

from __future__ import annotations

import contextlib
import gzip
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Protocol, cast

import zstandard

from trainyard.digest import CHUNK
from trainyard.errors import InputError, TrainyardError, UsageError

ZSTANDARD = "0.25.0"
LIBZSTD = (1, 5, 7)
LAYER = "application/vnd.oci.image.layer.v1.tar"
_ZSTD_LEVEL = 3
# Workers >= 1 give the same frames for any number of them, and other ones than 0 workers. One is a thread of
# libzstd's own, so hashing and compressing overlap.
_ZSTD_WORKERS = 1
_ZSTD_JOB = 4 << 20
_GZIP_LEVEL = 6
# RFC 1952: deflate, no flags, mtime 0, no extra flags, OS 255 (unknown): the same on every host.
_GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
# A frame may ask its reader for this much memory; level 3 asks for 2 MiB.
_MAX_WINDOW = 128 << 20


class Readable(Protocol):
    """A stream that is read forwards."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes, empty at the end."""


class Compressor(Protocol):
    """One compressed stream in the making."""

    def compress(self, data: bytes | memoryview, /) -> bytes:
        """Take some input, give out what is ready."""

    def flush(self) -> bytes:
        """End the stream and give out the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec:
    """A compressed form of layers: name, OCI media type, pinned parameters, and a maker of compressors."""

    name: str
    media_type: str
    parameters: tuple[tuple[str, str | int], ...]
    compressor: Callable[[], Compressor]


def codec(name: str) -> Codec:
    """`zstd` or `gzip`; UsageError for another name, TrainyardError when the pinned library is not here."""
    if name == "zstd":
        return _zstd()
    if name == "gzip":
        return _gzip()
    raise UsageError(f"unknown compression {name!r}", hint="--compression zstd or --compression gzip")


@contextlib.contextmanager
def opened(blob: Readable, media_type: str) -> Iterator[Readable]:
    """The tar inside a layer blob of that OCI media type, to be read forwards.

    Errors: InputError for an unknown media type or a damaged stream, also while it is read.
    """
    stream = cast("IO[bytes]", blob)  # both decompressors only ever call `read`
    try:
        if media_type == f"{LAYER}+zstd":
            decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
            with decompressor.stream_reader(
                stream, read_size=CHUNK, read_across_frames=True, closefd=False
            ) as content:
                yield content
        elif media_type == f"{LAYER}+gzip":
            with gzip.GzipFile(fileobj=stream, mode="rb") as content:
                yield content
        elif media_type == LAYER:
            yield blob
        else:
            raise InputError(f"no OCI layer has the media type {media_type!r}")
    except (zstandard.ZstdError, zlib.error, gzip.BadGzipFile, EOFError) as error:
        raise InputError(f"damaged {media_type.rpartition('+')[2]} stream: {error}") from None


def decompressed(blob: Readable, media_type: str) -> Iterator[bytes]:
    """The same in chunks of at most 1 MiB."""
    with opened(blob, media_type) as content:
        yield from iter(lambda: content.read(CHUNK), b"")


def require_zstd(version: str, library: tuple[int, ...]) -> None:
    """Refuse a zstandard package or a libzstd inside it that would give other bytes."""
    if version != ZSTANDARD or library != LIBZSTD:
        found = f"zstandard {version} with libzstd {'.'.join(map(str, library))}"
        raise TrainyardError(
            f"{found} is installed; recorded digests are made by zstandard {ZSTANDARD} "
            f"with libzstd {'.'.join(map(str, LIBZSTD))}",
            hint=f"pip install --only-binary :all: zstandard=={ZSTANDARD} (a wheel brings its own libzstd)",
        )


def _zstd() -> Codec:
    require_zstd(zstandard.__version__, zstandard.ZSTD_VERSION)
    options = {
        "compression_level": _ZSTD_LEVEL,
        "threads": _ZSTD_WORKERS,
        "job_size": _ZSTD_JOB,
        # The blob's sha256 says more than a frame checksum; the size is not known before the last byte.
        "write_checksum": 0,
        "write_content_size": 0,
        "write_dict_id": 0,
    }
    return Codec(
        name="zstd",
        media_type=f"{LAYER}+zstd",
        parameters=(("libzstd", ".".join(map(str, LIBZSTD))), *sorted(options.items())),
        compressor=lambda: zstandard.ZstdCompressor(
            compression_params=zstandard.ZstdCompressionParameters(**options)
        ).compressobj(),
    )


def _gzip() -> Codec:
    return Codec(
        name="gzip",
        media_type=f"{LAYER}+gzip",
        parameters=(("level", _GZIP_LEVEL), ("zlib", zlib.ZLIB_RUNTIME_VERSION)),
        compressor=_Gzip,
    )


class _Gzip:
    """A gzip member with a header of our own (RFC 1952): zlib's names the host's system."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        self._head = _GZIP_HEADER
        self._crc = 0
        self._size = 0

    def compress(self, data: bytes | memoryview, /) -> bytes:
        head, self._head = self._head, b""
        self._crc = zlib.crc32(data, self._crc)
        self._size += len(data)
        return head + self._deflate.compress(data)

    def flush(self) -> bytes:
        trailer = self._crc.to_bytes(4, "little") + (self._size & 0xFFFFFFFF).to_bytes(4, "little")
        return self._head + self._deflate.flush() + trailer
