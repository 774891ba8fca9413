"""One member of a layer, before it is written: what it is, whose it is, and where its bytes come from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """The member types that our layers may hold; no devices, no sparse files, no whiteouts."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    HARDLINK = "hardlink"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A member: path relative to the root without a leading slash, permission bits, numeric owner.

    `mtime` is seconds since the epoch, None for the layer's own. `content` is read once, front to back, and
    must yield exactly `size` bytes. `link` is a symlink's text or the path of a hard link's earlier member.
    `origin` names the wheel or package that the member came from, for messages.
    """

    path: str
    kind: Kind = Kind.FILE
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    mtime: int | None = None
    size: int = 0
    content: Iterable[bytes] = ()
    link: str = ""
    origin: str = ""


def file_entry(
    path: str, data: bytes, *, mode: int = 0o644, uid: int = 0, gid: int = 0, origin: str = ""
) -> Entry:
    """A regular file whose bytes are at hand."""
    content = (data,) if data else ()
    return Entry(path=path, mode=mode, uid=uid, gid=gid, size=len(data), content=content, origin=origin)


def symlink_entry(path: str, link: str, *, origin: str = "") -> Entry:
    """A symbolic link, 0777 as Linux shows them."""
    return Entry(path=path, kind=Kind.SYMLINK, mode=0o777, link=link, origin=origin)


def directory_entry(path: str, *, mode: int = 0o755, uid: int = 0, gid: int = 0, origin: str = "") -> Entry:
    """A directory; its attributes must be those of the plan-wide table."""
    return Entry(path=path, kind=Kind.DIRECTORY, mode=mode, uid=uid, gid=gid, origin=origin)
