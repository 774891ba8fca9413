"""Just enough of ELF to name a shared library: its DT_SONAME (System V ABI, chapters 4 and 5)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_MACHINES = {62: "amd64", 183: "arm64"}
_ET_DYN = 3
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NULL, _DT_STRTAB, _DT_SONAME = 0, 5, 14


@dataclass(frozen=True, slots=True)
class SharedLibrary:
    """Debian's name of the architecture, and the soname ("" if it has none)."""

    arch: str
    soname: str


def shared_library(data: bytes) -> SharedLibrary | None:
    """What kind of library a whole file is; None for linker scripts, archives, and anything malformed.

    Only 64-bit little-endian files of our architectures count.
    """
    if data[:6] != b"\x7fELF\x02\x01" or len(data) < 64:
        return None
    kind, machine = struct.unpack_from("<HH", data, 16)
    if kind != _ET_DYN or machine not in _MACHINES:
        return None
    try:
        return SharedLibrary(_MACHINES[machine], _soname(data))
    except (struct.error, ValueError):
        return None


def _soname(data: bytes) -> str:
    segments = list(_segments(data))
    dynamic = next(((offset, size) for kind, offset, _, size in segments if kind == _PT_DYNAMIC), None)
    if dynamic is None:
        raise ValueError("no dynamic segment")
    tags: dict[int, int] = {}
    for position in range(dynamic[0], dynamic[0] + dynamic[1], 16):
        tag, value = struct.unpack_from("<qQ", data, position)
        if tag == _DT_NULL:
            break
        tags.setdefault(tag, value)
    if _DT_SONAME not in tags:
        return ""
    address = tags.get(_DT_STRTAB, -1)
    for kind, offset, start, size in segments:
        if kind == _PT_LOAD and start <= address < start + size:
            begin = offset + address - start + tags[_DT_SONAME]
            return data[begin : data.index(b"\0", begin)].decode("ascii")
    raise ValueError("the string table lies outside the file")


def _segments(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """(type, file offset, virtual address, size in the file) of the program headers."""
    table, entry_size, count = (*struct.unpack_from("<Q", data, 32), *struct.unpack_from("<HH", data, 54))
    for index in range(count):
        kind, _, offset, address, _, size = struct.unpack_from("<IIQQQQ", data, table + index * entry_size)
        yield kind, offset, address, size
