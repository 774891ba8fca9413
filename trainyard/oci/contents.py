"""What one layer holds so far, and which entries it may not hold.

OCI image-spec, layer.md: no path twice, no whiteout names for real files, hard links within the layer. The
rest is ours: engines disagree about an entry below a symlink, about parents that are missing, and about two
layers that give one directory two modes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainyard.errors import InputError
from trainyard.oci.directories import Attributes, attributes_of
from trainyard.oci.entry import Entry, Kind, directory_entry
from trainyard.oci.members import Member
from trainyard.oci.tar import refusal

# Linux: PATH_MAX counts the closing NUL; NAME_MAX holds on every file system that images live on.
MAX_PATH = 4095
MAX_NAME = 255
_WHITEOUT = ".wh."
# NUL ends a path; the others would reach terminals and line-based lists of files.
_CONTROL = re.compile(r"[\0-\x1f\x7f-\x9f]")


class LayerContents:
    """The members of one layer; `admit` says what must be written for an entry, or refuses it."""

    def __init__(self) -> None:
        self.content_size = 0
        self.files = 0
        self._given: dict[str, Member] = {}
        # Every directory that is written, with the origin of the entry that needed it first.
        self._directories: dict[str, str] = {}

    @property
    def members(self) -> tuple[Member, ...]:
        """The entries as given; a directory that was given again counts once."""
        return tuple(self._given.values())

    def admit(self, entry: Entry) -> Iterator[Entry]:
        """The parents that are still missing, then the entry; InputError if it may not be here."""
        parent, _, name = entry.path.rpartition("/")
        known = parent in self._directories
        _check_path(entry, [name] if known else entry.path.split("/"))
        _check_attributes(entry)
        if not known:
            yield from self._missing(parent, entry)
        if entry.kind is Kind.DIRECTORY:
            yield from self._missing(entry.path, entry)
            self._given.setdefault(entry.path, Member.of(entry))
            return
        self._check_free(entry)
        self._check_link(entry)
        self._given[entry.path] = Member.of(entry)
        self.files += 1
        self.content_size += entry.size if entry.kind is Kind.FILE else 0
        yield entry

    def _missing(self, path: str, entry: Entry) -> Iterator[Entry]:
        """The directories down to `path` that were not written yet, from the table, with the layer's time."""
        missing = []
        while path and path not in self._directories:
            if leaf := self._given.get(path):
                place = "is" if path == entry.path else "lies below"
                raise refusal(entry, f"{place} {leaf}")
            missing.append(path)
            path = path.rpartition("/")[0]
        for path in reversed(missing):
            self._directories[path] = entry.origin
            attributes = attributes_of(path)
            yield directory_entry(
                path, mode=attributes.mode, uid=attributes.uid, gid=attributes.gid, origin=entry.origin
            )

    def _check_free(self, entry: Entry) -> None:
        if other := self._given.get(entry.path):
            raise refusal(entry, f"is in this layer already, {other}")
        if entry.path in self._directories:
            raise refusal(entry, f"is a directory already, for {self._directories[entry.path]}")

    def _check_link(self, entry: Entry) -> None:
        if entry.kind is Kind.SYMLINK:
            if not entry.link or "\0" in entry.link or _bytes(entry.link) > MAX_PATH:
                raise refusal(entry, f"no symlink can hold {entry.link[:100]!r}")
        elif entry.kind is Kind.HARDLINK:
            target = self._given.get(entry.link)
            if target is None or target.kind is not Kind.FILE:
                raise refusal(entry, f"a hard link to {entry.link!r}, which is no earlier file of this layer")
            if (target.mode, target.uid, target.gid) != (entry.mode, entry.uid, entry.gid):
                raise refusal(entry, f"a hard link to {entry.link!r} with another mode or owner")


def _check_path(entry: Entry, names: list[str]) -> None:
    """Refuse a path that some file system or engine would not keep; `names` are its parts not yet checked."""
    problem = _path_problem(entry.path, names)
    if problem:
        raise InputError(
            f"{entry.origin or 'unknown origin'}: {entry.path[:300]!r}: {problem}",
            hint="leave the package out in matrix.yaml, then run `invoke lock`",
        )


def _path_problem(path: str, names: list[str]) -> str:
    if _CONTROL.search(path):
        return "a control character in a path"
    if _bytes(path) > MAX_PATH:
        return f"a path of more than {MAX_PATH} bytes"
    for name in names:
        if name in ("", ".", ".."):
            return "not a plain path below the root"
        if name.startswith(_WHITEOUT):
            return "engines would take this name as an order to delete"
        if _bytes(name) > MAX_NAME:
            return f"a name of more than {MAX_NAME} bytes"
    return ""


def _check_attributes(entry: Entry) -> None:
    if entry.kind is Kind.DIRECTORY:
        wanted = attributes_of(entry.path)
        if Attributes(entry.mode, entry.uid, entry.gid) != wanted:
            raise refusal(
                entry,
                f"a directory {entry.mode:o} {entry.uid}:{entry.gid}, where every layer must have "
                f"{wanted.mode:o} {wanted.uid}:{wanted.gid} (oci/directories.py)",
            )
    elif entry.kind is not Kind.SYMLINK and entry.mode & 0o7000:
        raise refusal(entry, f"setuid, setgid or sticky ({entry.mode:o})")


def _bytes(text: str) -> int:
    """Length in UTF-8; what is not UTF-8 is refused when it is written."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
