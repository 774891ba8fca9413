"""Minimal 64-bit ELF shared libraries, with or without a soname."""

from __future__ import annotations

import struct

MACHINES = {"amd64": 62, "arm64": 183}


def shared_object(soname: str | None, *, arch: str = "amd64") -> bytes:
    """A file with one PT_LOAD and one PT_DYNAMIC segment, mapped at 0x10000; no code."""
    base, header_size, program_size = 0x10000, 64, 56
    strings = b"\0" + (soname or "").encode() + b"\0"
    tags = [(5, base + header_size + 2 * program_size)]
    if soname is not None:
        tags.append((14, 1))
    dynamic = b"".join(struct.pack("<qQ", *tag) for tag in [*tags, (0, 0)])
    strings_at = header_size + 2 * program_size
    dynamic_at = strings_at + len(strings)
    size = dynamic_at + len(dynamic)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01",
        3,
        MACHINES[arch],
        1,
        0,
        header_size,
        0,
        0,
        header_size,
        program_size,
        2,
        0,
        0,
        0,
    )
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 0x1000)
    dynamic_header = struct.pack(
        "<IIQQQQQQ", 2, 4, dynamic_at, base + dynamic_at, base + dynamic_at, len(dynamic), len(dynamic), 8
    )
    return header + load + dynamic_header + strings + dynamic
