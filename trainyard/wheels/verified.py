"""Content checked while it flows: nobody sees the last chunk of a file whose hash or size is wrong."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator
from zipfile import ZipInfo

from trainyard.errors import InputError
from trainyard.wheels.record import Row, encoded


def verified(
    chunks: Iterable[bytes], info: ZipInfo, row: Row | None, *, fail: Callable[[str], InputError]
) -> Iterator[bytes]:
    """`chunks`, one behind, checked by the zip's size and RECORD's hash (the zip's CRC-32 where it has none).

    `fail` makes the error from what is wrong.
    """
    hasher = hashlib.new(row.algorithm) if row and row.algorithm else None
    size, checksum, held = 0, 0, b""
    for chunk in chunks:
        size += len(chunk)
        if size > info.file_size:
            raise fail(f"{info.orig_filename!r} holds more than the {info.file_size} bytes that it claims")
        if hasher:
            hasher.update(chunk)
        else:
            checksum = zlib.crc32(chunk, checksum)
        if held:
            yield held
        held = chunk
    if size != info.file_size:
        raise fail(f"{info.orig_filename!r} holds {size} bytes, and claims {info.file_size}")
    if hasher and row and encoded(hasher.digest()) != row.value:
        raise fail(f"{info.orig_filename!r} does not have the {row.algorithm} that RECORD gives")
    if not hasher and checksum != info.CRC:
        raise fail(f"{info.orig_filename!r} does not have the CRC-32 that the zip file gives")
    if held:
        yield held
