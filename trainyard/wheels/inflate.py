"""Raw deflate (RFC 1951) as a stream, by isal where it is installed and by zlib otherwise: the same bytes."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from trainyard.digest import CHUNK

_ERRORS: tuple[type[Exception], ...] = (zlib.error,)
try:
    from isal.igzip_lib import IsalError
    from isal.isal_zlib import decompressobj

    _ERRORS = (zlib.error, IsalError)  # type: ignore[assignment]  # isal's stub declares an instance
except ImportError:  # no build of isal for this machine
    from zlib import decompressobj  # type: ignore[assignment]

_RAW = -15  # no header, no checksum, the largest window: what a zip member holds


class CorruptStreamError(ValueError):
    """The compressed bytes are not one complete deflate stream."""


def inflate(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The content of one deflate stream, at most CHUNK bytes at a time, however much it grows."""
    engine = decompressobj(_RAW)
    try:
        for piece in pieces:
            pending = piece
            while pending and not engine.eof:
                if data := engine.decompress(pending, CHUNK):
                    yield data
                pending = engine.unconsumed_tail
        # The input is used up, but output beyond the last full chunk may still be inside.
        while not engine.eof and (data := engine.decompress(b"", CHUNK)):
            yield data
    except _ERRORS as error:
        raise CorruptStreamError(str(error)) from None
    if not engine.eof:
        raise CorruptStreamError("the compressed data ends too early")
    if engine.unused_data:
        raise CorruptStreamError("there is more compressed data than the content needs")
