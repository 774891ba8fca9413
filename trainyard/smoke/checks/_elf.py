"""The soname of a shared library, from the file itself (System V ABI, chapters 4 and 5)."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NULL, _DT_STRTAB, _DT_SONAME = 0, 5, 14
_ET_DYN = 3


def soname(path: Path) -> str | None:
    """DT_SONAME of a 64-bit little-endian library; empty if it has none, None for what is no library."""
    try:
        with path.open("rb") as stream:
            if stream.read(6) != b"\x7fELF\x02\x01":
                return None
            with mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as data:
                return _soname(data)
    except (OSError, ValueError, struct.error, UnicodeDecodeError):
        return None


def _soname(data) -> str | None:
    if struct.unpack_from("<H", data, 16)[0] != _ET_DYN:
        return None
    table, size, count = (*struct.unpack_from("<Q", data, 32), *struct.unpack_from("<HH", data, 54))
    segments = [struct.unpack_from("<IIQQQQ", data, table + index * size) for index in range(count)]
    dynamic = next((segment for segment in segments if segment[0] == _PT_DYNAMIC), None)
    if dynamic is None:
        return None
    tags: dict[int, int] = {}
    for position in range(dynamic[2], dynamic[2] + dynamic[5], 16):
        tag, value = struct.unpack_from("<qQ", data, position)
        if tag == _DT_NULL:
            break
        tags.setdefault(tag, value)
    if _DT_SONAME not in tags:
        return ""
    address = tags[_DT_STRTAB]
    for kind, _, offset, start, _, length in segments:
        if kind == _PT_LOAD and start <= address < start + length:
            begin = offset + address - start + tags[_DT_SONAME]
            return data[begin : data.find(b"\0", begin)].decode("ascii")
    return None
