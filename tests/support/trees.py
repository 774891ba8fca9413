"""File trees for tests: entries written to a folder as root, and folders read back for comparison."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trainyard.oci.directories import attributes_of
from trainyard.oci.entry import Entry, Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What two trees are compared by; `content` is a link's text, or the sha256 of a file."""

    kind: str
    mode: int
    uid: int
    gid: int
    content: str = ""


def write_tree(root: Path, entries: Iterable[Entry]) -> None:
    """Write entries below `root` with modes and owners, parents from the plan-wide table; needs root."""
    for entry in entries:
        target = root / entry.path
        _make_parents(root, entry.path)
        match entry.kind:
            case Kind.DIRECTORY:
                target.mkdir(exist_ok=True)
            case Kind.SYMLINK:
                target.symlink_to(entry.link)
            case Kind.HARDLINK:
                target.hardlink_to(root / entry.link)
            case Kind.FILE:
                with target.open("xb") as stream:
                    written = sum(stream.write(chunk) for chunk in entry.content)
                assert written == entry.size, entry.path
        if entry.kind is not Kind.HARDLINK:
            os.chown(target, entry.uid, entry.gid, follow_symlinks=False)
        if entry.kind in (Kind.FILE, Kind.DIRECTORY):
            target.chmod(entry.mode)


def _make_parents(root: Path, path: str) -> None:
    for parent in reversed(Path(path).parents[:-1]):
        folder = root / parent
        if not folder.exists():
            attributes = attributes_of(str(parent))
            folder.mkdir()
            folder.chmod(attributes.mode)
            os.chown(folder, attributes.uid, attributes.gid)


def read_tree(root: Path) -> dict[str, Node]:
    """Every path below `root` but `root` itself, relative, with what it is."""
    return dict(_nodes(root, root))


def _nodes(root: Path, folder: Path) -> Iterator[tuple[str, Node]]:
    for path in sorted(folder.iterdir()):
        info = path.lstat()
        kind = stat.filemode(info.st_mode)[0]
        content = ""
        if stat.S_ISLNK(info.st_mode):
            content = str(path.readlink())
        elif stat.S_ISREG(info.st_mode):
            with path.open("rb") as stream:
                content = hashlib.file_digest(stream, "sha256").hexdigest()
        mode = 0o777 if kind == "l" else stat.S_IMODE(info.st_mode)
        yield (
            str(path.relative_to(root)),
            Node(kind=kind, mode=mode, uid=info.st_uid, gid=info.st_gid, content=content),
        )
        if stat.S_ISDIR(info.st_mode):
            yield from _nodes(root, path)
