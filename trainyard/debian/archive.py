"""One locked .deb: read front to back, checked, and given out as the entries of a layer (deb(5))."""

from __future__ import annotations

import contextlib
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, cast

from trainyard.debian.ar import ArMember, ar_members
from trainyard.debian.compressed import Bounded, tar_stream
from trainyard.debian.control import Control
from trainyard.debian.filters import excluded
from trainyard.debian.review import privileged
from trainyard.digest import CHUNK
from trainyard.errors import InputError
from trainyard.oci.directories import DEFAULT, Attributes, attributes_of
from trainyard.oci.entry import Entry, Kind

# The oldest time that zip and some file servers can hold: 1980-01-01T00:00:00Z.
_OLDEST = 315_532_800
_MAX_CONTROL = 16 << 20
_MAX_DATA = 8 << 30
_ALIASES = ("bin/", "sbin/", "lib/", "lib32/", "lib64/", "libo32/", "libx32/")
# base-files ships these as directories, and its postinst replaces them by links.
_BECOME_LINKS = ("var/run", "var/lock")
_KINDS = {
    tarfile.REGTYPE: Kind.FILE,
    tarfile.AREGTYPE: Kind.FILE,
    tarfile.DIRTYPE: Kind.DIRECTORY,
    tarfile.SYMTYPE: Kind.SYMLINK,
    tarfile.LNKTYPE: Kind.HARDLINK,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """A member of data.tar: its name as dpkg lists it (`/usr/bin/x`, `/.`), and what of it the image gets.

    `is_replaced` says that the image has a link there, made by the state layer.
    """

    listed: str
    entry: Entry | None
    is_replaced: bool = False


def merged(path: str) -> str:
    """Where a path lies once /bin, /lib and the like are links into /usr; the links themselves stay."""
    return f"usr/{path}" if path.startswith(_ALIASES) else path


class DebArchive:
    """A .deb of the lock; nothing is opened before the first question, and nothing is kept of its content."""

    def __init__(self, path: Path, *, name: str, version: str) -> None:
        self._path = path
        self._name = name
        self._version = version

    @property
    def origin(self) -> str:
        """`name=version`, as messages say it."""
        return f"{self._name}={self._version}"

    @cached_property
    def control(self) -> Control:
        """Its control.tar; InputError if name or version are not the lock's."""
        files: dict[str, str] = {}
        with self._named_errors(), self._tar("control.tar", _MAX_CONTROL) as archive:
            for member in archive:
                if member.isreg() and (stream := archive.extractfile(member)):
                    name = member.name.removeprefix("./")
                    files[name] = stream.read(_MAX_CONTROL).decode("utf-8", "surrogateescape")
            if "control" not in files:
                raise InputError("control.tar has no control file")
        control = Control(stanza=files.pop("control").strip("\n") + "\n", files=files)
        found = f"{control.fields.get('Package')}={control.fields.get('Version')}"
        if found != self.origin:
            raise self._refusal(f"the file says that it is {found}")
        return control

    def entries(self) -> Iterator[Entry]:
        """What the image gets, in the archive's order, with its own times.

        Directories have the attributes of the plan-wide table. Read an entry's content before the next entry.
        """
        return (member.entry for member in self.unpacked() if member.entry is not None)

    def unpacked(self) -> Iterator[Unpacked]:
        """Every member, also the ones that the image leaves out."""
        _ = self.control
        with self._named_errors(), self._tar("data.tar", _MAX_DATA) as archive:
            for member in archive:
                path = _clean(member.name)
                entry = self._entry(archive, member, path) if path else None
                yield Unpacked(listed=f"/{path or '.'}", entry=entry, is_replaced=path in _BECOME_LINKS)

    def _entry(self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> Entry | None:
        kind = _KINDS.get(member.type)
        if kind is None or member.issparse() or any("xattr" in key for key in member.pax_headers):
            raise InputError(f"{path}: not a plain file, directory or link")
        path = merged(path)
        if excluded(path, kind) or path in _BECOME_LINKS or _is_alias(path, kind):
            return None
        attributes = _attributes(path, kind, Attributes(member.mode & 0o7777, member.uid, member.gid))
        link = member.linkname if kind is Kind.SYMLINK else ""
        if kind is Kind.HARDLINK:
            link = merged(_clean(member.linkname))
        return Entry(
            path=path,
            kind=kind,
            mode=attributes.mode,
            uid=attributes.uid,
            gid=attributes.gid,
            mtime=max(_OLDEST, int(member.mtime)),
            size=member.size if kind is Kind.FILE else 0,
            content=self._content(archive, member) if kind is Kind.FILE else (),
            link=link,
            origin=self.origin,
        )

    def _content(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
        with self._named_errors():
            stream = archive.extractfile(member)
            assert stream is not None
            while chunk := stream.read(CHUNK):
                yield chunk

    @contextlib.contextmanager
    def _tar(self, name: str, limit: int) -> Iterator[tarfile.TarFile]:
        with tar_stream(self._path, self._member(name), limit=limit) as stream:
            yield _open_tar(stream)

    def _member(self, name: str) -> ArMember:
        members = [member for member in ar_members(self._path) if member.name.startswith(name)]
        if len(members) != 1:
            raise InputError(f"has {len(members)} members {name}*, and needs one")
        return members[0]

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Errors from below get the package's name and a hint."""
        try:
            yield
        except tarfile.TarError as error:
            raise self._refusal(f"damaged tar: {error}") from None
        except InputError as error:
            raise (error if error.hint else self._refusal(error.message)) from None

    def _refusal(self, problem: str) -> InputError:
        return InputError(
            f"{self.origin}: {problem}",
            hint="`invoke clean --inputs` and build again if it is damaged; else leave the package out, "
            "or review it in trainyard/debian/reviewed*.toml",
        )


def _open_tar(stream: Bounded) -> tarfile.TarFile:
    # Stream mode: tarfile reads forward only, so memory does not grow with the archive.
    return tarfile.open(fileobj=cast("BinaryIO", stream), mode="r|", bufsize=1 << 18, errorlevel=2)


def _is_alias(path: str, kind: Kind) -> bool:
    """Whether a member is the directory `/lib` or the like, which is a link in the image."""
    return kind is Kind.DIRECTORY and f"{path}/" in _ALIASES


def _clean(name: str) -> str:
    """A member's name as a path below the root, "" for the root; InputError for one that escapes or hides."""
    path = name.removeprefix("./").rstrip("/")
    if path in ("", "."):
        return ""
    parts = path.split("/")
    if any(part in ("", ".", "..") or part.startswith(".wh.") for part in parts):
        raise InputError(f"{name!r}: a path that escapes, or that a container engine would take as a command")
    if not path.isprintable():
        raise InputError(f"{name!r}: a path with control characters, or not in UTF-8")
    return path


def _attributes(path: str, kind: Kind, own: Attributes) -> Attributes:
    """The permissions and owner that the member has in the image."""
    if kind is Kind.SYMLINK:
        return Attributes(0o777, own.uid, own.gid)
    if kind is Kind.DIRECTORY:
        wanted = attributes_of(path)
        if own not in (DEFAULT, wanted):
            raise InputError(
                f"{path}: directory {own.mode:o} {own.uid}:{own.gid} is not in oci/directories.py"
            )
        return wanted
    if own.mode & 0o6000 and kind is Kind.FILE:
        privilege = privileged().get(path)
        if privilege is None:
            raise InputError(f"{path}: setuid or setgid ({own.mode:o}), and not reviewed")
        return own if privilege.keep else Attributes(own.mode & 0o777, own.uid, own.gid)
    return own
