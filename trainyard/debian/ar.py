"""ar(5), as far as deb(5) uses it: short names, no symbol table."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainyard.errors import InputError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_MAGIC = b"!<arch>\n"
_HEADER = re.compile(rb"([^ /]{1,16})/? *(\d+) +(\d+) +(\d+) +([0-7]+) +(\d+) *`\n")
_MAX_MEMBERS = 16  # a .deb has three


@dataclass(frozen=True, slots=True, kw_only=True)
class ArMember:
    """Where a member's bytes are: offset and size within the file."""

    name: str
    offset: int
    size: int


def ar_members(path: Path) -> Iterator[ArMember]:
    """The members of an ar archive in order; InputError says what is malformed (without naming the file)."""
    end = path.stat().st_size
    with path.open("rb") as stream:
        if stream.read(len(_MAGIC)) != _MAGIC:
            raise InputError("not a .deb: no ar magic")
        offset = len(_MAGIC)
        for _ in range(_MAX_MEMBERS):
            stream.seek(offset)
            header = stream.read(60)
            if not header:
                return
            match = _HEADER.fullmatch(header)
            if match is None:
                raise InputError(f"bad ar header at byte {offset}")
            size = int(match[6])
            if offset + 60 + size > end:
                raise InputError(f"cut short: member {match[1]!r} ends after the file")
            yield ArMember(name=match[1].decode("ascii", "replace"), offset=offset + 60, size=size)
            offset += 60 + size + size % 2
    raise InputError(f"more than {_MAX_MEMBERS} ar members")


class Window(io.RawIOBase):
    """A read-only view of `size` bytes of a file from `offset`."""

    def __init__(self, path: Path, member: ArMember) -> None:
        self._stream = path.open("rb", buffering=0)
        self._stream.seek(member.offset)
        self._left = member.size

    def readable(self) -> bool:
        """True: that is all it can."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill `buffer` from the window; 0 at its end."""
        view = memoryview(buffer)[: self._left]
        count = self._stream.readinto(view) if view else 0
        self._left -= count
        return count

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        super().close()
