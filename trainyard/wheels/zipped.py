"""Reading a zip file (APPNOTE): its central directory once, then any member as a stream, from any thread."""

from __future__ import annotations

import os
import stat
import struct
import weakref
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from zipfile import ZipInfo

from trainyard.lock.model import LockedWheel
from trainyard.wheels.inflate import CorruptStreamError, inflate
from trainyard.wheels.paths import path_problem
from trainyard.wheels.refusal import refusal

MAX_MEMBERS = 200_000  # torch has 13,187
MAX_CONTENT = 32 << 30  # bytes after inflating; torch has 1.1 GB
# Bytes of the file at a time: with 1 MiB, torch in 2 threads peaks at 174 MiB instead of 90, at no gain.
_READ = 256 << 10
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, lengths of name and extra field
_ENCRYPTED = 0x2041  # encrypted, strongly encrypted, central directory masked
_UTF8 = 0x800


class ZipReader:
    """The members of one zip file; InputError names the wheel for a file that is no zip or has been cut off.

    Members are read by position on one descriptor, which is closed when the last reader of it is gone.
    """

    def __init__(self, path: Path, wheel: LockedWheel) -> None:
        self._wheel = wheel
        size = path.stat().st_size
        if size != wheel.size:
            raise refusal(wheel, [f"is {size} bytes long, the lock says {wheel.size}"], damaged=True)
        try:
            with zipfile.ZipFile(path) as archive:
                self.members: Sequence[ZipInfo] = archive.infolist()
                self._end = archive.start_dir
        except (
            zipfile.BadZipFile,
            OSError,
            ValueError,
            NotImplementedError,
            EOFError,
            struct.error,
        ) as error:
            raise refusal(wheel, [f"is not a readable zip file: {error}"]) from None
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._descriptor)

    def problems(self) -> list[str]:
        """What the central directory claims and no wheel may: links, escapes, encryption, bombs, overlaps."""
        problems = []
        if len(self.members) > MAX_MEMBERS:
            problems.append(f"has {len(self.members)} members, more than {MAX_MEMBERS}")
        content = sum(info.file_size for info in self.members)
        if content > MAX_CONTENT:
            problems.append(f"claims to hold {content} bytes, more than {MAX_CONTENT}")
        seen = set()
        for info in self.members:
            name = info.orig_filename
            problems += (f"{name!r} {problem}" for problem in _member_problems(info))
            if name in seen:
                problems.append(f"{name!r} is in the zip file twice")
            seen.add(name)
        return problems + self._overlaps()

    def stream(self, info: ZipInfo) -> Iterator[bytes]:
        """The content of a member as it is in the file, at most 1 MiB at a time."""
        offset = self._data_offset(info)
        pieces = self._read(offset, info.compress_size, info.orig_filename)
        if info.compress_type == zipfile.ZIP_STORED:
            yield from pieces
            return
        try:
            yield from inflate(pieces)
        except CorruptStreamError as error:
            raise refusal(self._wheel, [f"{info.orig_filename!r}: {error}"]) from None

    def _data_offset(self, info: ZipInfo) -> int:
        """Where a member's bytes start; the name in front of them must be the central directory's own."""
        inside = 0 <= info.header_offset < self._end
        header = os.pread(self._descriptor, _LOCAL_HEADER.size, info.header_offset) if inside else b""
        if len(header) == _LOCAL_HEADER.size:
            signature, name_length, extra_length = _LOCAL_HEADER.unpack(header)
            start = info.header_offset + _LOCAL_HEADER.size
            if signature == b"PK\3\4" and os.pread(self._descriptor, name_length, start) == _raw_name(info):
                return start + int(name_length) + int(extra_length)
        raise refusal(
            self._wheel, [f"{info.orig_filename!r}: its local header is missing or names another file"]
        )

    def _read(self, offset: int, size: int, name: str) -> Iterator[bytes]:
        end = offset + size
        while offset < end:
            piece = os.pread(self._descriptor, min(_READ, end - offset), offset)
            if not piece:
                raise refusal(self._wheel, [f"{name!r}: the zip file ends in the middle of it"], damaged=True)
            offset += len(piece)
            yield piece

    def _overlaps(self) -> list[str]:
        """Members that share bytes: how a small file claims an enormous content."""
        problems = []
        previous, reached = "", 0
        for info in sorted(self.members, key=lambda info: info.header_offset):
            if info.header_offset < reached:
                what = f"overlaps {previous!r}" if previous else "lies before the start of the file"
                problems.append(f"{info.orig_filename!r} {what}")
            previous = info.orig_filename
            reached = info.header_offset + _LOCAL_HEADER.size + len(_raw_name(info)) + info.compress_size
        if reached > self._end:
            problems.append(f"{previous!r} overlaps the central directory")
        return problems


def executable(info: ZipInfo) -> bool:
    """Whether the member has any of the three execute bits."""
    return bool(info.external_attr >> 16 & 0o111)


def _member_problems(info: ZipInfo) -> Iterator[str]:
    name = info.orig_filename
    folder = name.endswith("/")
    if problem := path_problem(name.removesuffix("/")):
        yield problem
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFDIR if folder else stat.S_IFREG):
        yield f"is {_KINDS.get(kind, 'a special file')}; a wheel may hold only plain files"
    if info.flag_bits & _ENCRYPTED:
        yield "is encrypted"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        yield f"is compressed by method {info.compress_type}; a wheel uses stored or deflate"
    if info.compress_type == zipfile.ZIP_STORED and info.compress_size != info.file_size:
        yield f"is stored, and claims {info.file_size} bytes of {info.compress_size}"
    if folder and info.file_size:
        yield "is a folder with content"


_KINDS = {stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a folder by its mode and a file by its name"}


def _raw_name(info: ZipInfo) -> bytes:
    name = info.orig_filename
    return name.encode("utf-8" if name.isascii() or info.flag_bits & _UTF8 else "cp437")
