"""Entries -> the bytes of a tar file, with nothing in them that this host decides (POSIX.1, pax).

A member is one ustar header block and its content. What ustar's plain fields cannot hold (a path or link over
100 bytes or outside ASCII, a size of 8 GiB and up) goes into a pax extended header before it. Times are whole
seconds, user and group names are empty, owners are numbers. The archive ends with exactly two zero blocks;
padding to the 20 blocks that tape drives wanted is left out, since every reader takes either. These bytes are
frozen: a change needs a new format number.
"""

from __future__ import annotations

from collections.abc import Callable

from trainyard.errors import InputError
from trainyard.oci.entry import Entry, Kind

BLOCK = 512
_MAX_NAME = 100
_MAX_ID = 0o7777777
_MAX_SIZE = _MAX_TIME = 0o77777777777
_TYPES = {Kind.FILE: b"0", Kind.HARDLINK: b"1", Kind.SYMLINK: b"2", Kind.DIRECTORY: b"5"}
_LINKS = (Kind.HARDLINK, Kind.SYMLINK)
_PAX_TYPE = b"x"
# Readers skip the pax header's own name; a fixed one keeps the process id of POSIX's suggestion out of it.
_PAX_NAME = b"PaxHeaders/member"
# Magic and version; no user or group name; device 0, 0; no prefix (a long path has a pax record); padding.
_TAIL = b"ustar\x0000" + bytes(64) + b"0000000\x00" * 2 + bytes(155 + 12)
_FIXED_SUM = sum(b" " * 8) + sum(_TAIL)
_END = bytes(2 * BLOCK)
_HINT = "the file may be damaged: `invoke clean --inputs`, then `invoke build` fetches it again"


class TarWriter:
    """Streams entries as tar members to `write`; a content chunk is passed on as it came, never copied."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write

    def add(self, entry: Entry, *, mtime: int) -> None:
        """Write one member; `mtime` (seconds) is for an entry without its own.

        Errors: InputError naming path and origin, when the content is not `entry.size` bytes or a number does
        not fit a tar header.
        """
        self._write(_headers(entry, mtime if entry.mtime is None else entry.mtime))
        if entry.kind is Kind.FILE:
            self._content(entry)

    def close(self) -> None:
        """Write the end of the archive."""
        self._write(_END)

    def _content(self, entry: Entry) -> None:
        left = entry.size
        for chunk in entry.content:
            left -= len(chunk)
            if left < 0:
                raise refusal(entry, f"more content than its {entry.size} bytes")
            self._write(chunk)
        if left:
            raise refusal(entry, f"{entry.size - left} bytes of content, {left} fewer than announced")
        if padding := -entry.size % BLOCK:
            self._write(_END[:padding])


def refusal(entry: Entry, problem: str) -> InputError:
    """The error that says what is wrong with an entry, and whose it is."""
    return InputError(f"{entry.origin or 'unknown origin'}: {entry.path!r}: {problem}", hint=_HINT)


def _headers(entry: Entry, mtime: int) -> bytes:
    """The member's ustar header, after its pax header if it needs one."""
    size = entry.size if entry.kind is Kind.FILE else 0
    _check_numbers(entry, size, mtime)
    records: list[bytes] = []
    path = _text(entry, f"{entry.path}/" if entry.kind is Kind.DIRECTORY else entry.path, b"path", records)
    link = _text(entry, entry.link, b"linkpath", records) if entry.kind in _LINKS else b""
    if size > _MAX_SIZE:
        records.append(_record(b"size", b"%d" % size))
        size = 0  # readers take the record's; POSIX leaves open what stands here
    header = _block(path, _TYPES[entry.kind], (entry.mode, entry.uid, entry.gid, size, mtime), link)
    return _pax(records) + header if records else header


def _check_numbers(entry: Entry, size: int, mtime: int) -> None:
    for name, value, most in (
        ("mode", entry.mode, 0o7777),
        ("uid", entry.uid, _MAX_ID),
        ("gid", entry.gid, _MAX_ID),
        ("size", size, 1 << 62),
        ("mtime", mtime, _MAX_TIME),
    ):
        if not 0 <= value <= most:
            raise refusal(entry, f"{name} {value} is not in 0..{most}")


def _text(entry: Entry, text: str, keyword: bytes, records: list[bytes]) -> bytes:
    """What the ustar field holds of `text`; a pax record too, where the field cannot hold all of it."""
    try:
        whole = text.encode()
    except UnicodeEncodeError:
        raise refusal(entry, f"its {keyword.decode()} is not UTF-8") from None
    if len(whole) <= _MAX_NAME and text.isascii():
        return whole
    records.append(_record(keyword, whole))
    return text.encode("ascii", "replace")[:_MAX_NAME]


def _record(keyword: bytes, value: bytes) -> bytes:
    """A pax record: `LENGTH KEYWORD=VALUE` and a newline, where LENGTH counts its own digits too."""
    rest = b" %b=%b\n" % (keyword, value)
    length = len(rest)
    while length != len(rest) + len(b"%d" % length):
        length = len(rest) + len(b"%d" % length)
    return b"%d%b" % (length, rest)


def _pax(records: list[bytes]) -> bytes:
    """An extended header member that holds `records` for the member after it."""
    body = b"".join(records)
    header = _block(_PAX_NAME, _PAX_TYPE, (0o644, 0, 0, len(body), 0), b"")
    return header + body + bytes(-len(body) % BLOCK)


def _block(name: bytes, kind: bytes, numbers: tuple[int, int, int, int, int], link: bytes) -> bytes:
    """One ustar header block, fields in the order of POSIX's table; numbers: mode, uid, gid, size, mtime."""
    octal = b"%07o\0%07o\0%07o\0%011o\0%011o\0" % numbers
    # The checksum counts itself as spaces, and the zeros of the padding not at all.
    checksum = sum(name) + sum(octal) + sum(kind) + sum(link) + _FIXED_SUM
    return b"%b%b%06o\0 %b%b%b" % (
        name.ljust(_MAX_NAME, b"\0"),
        octal,
        checksum,
        kind,
        link.ljust(_MAX_NAME, b"\0"),
        _TAIL,
    )
