"""One layer's tar stream -> files below a root folder, each member looked at before it touches the disk.

Refused: absolute paths and `..`, anything below a symbolic link, devices and pipes, whiteouts, extended
attributes, and a path that is there already; no image of ours holds one, and refusing keeps layers
independent of each other, so that several can be applied at once.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from trainyard.digest import CHUNK
from trainyard.errors import InputError
from trainyard.oci.codec import Readable

_MAX_HEADER = 1 << 20
_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """Permission bits, numeric owner and mtime (seconds) of a directory, set when all layers are down."""

    mode: int
    uid: int
    gid: int
    mtime: int


@dataclass(slots=True)
class TarStream:
    """What tarfile reads from: forward only, with headers of bounded size; `feed` sees every byte once."""

    source: Readable
    feed: Callable[[bytes], object]
    position: int = 0
    last: bytes = b""

    def read(self, size: int) -> bytes:
        """A header block, or the body of an extended header."""
        if size > _MAX_HEADER:
            raise tarfile.ReadError(f"a header of {size} bytes")
        parts = []
        while size and (chunk := self.chunk(size)):
            parts.append(chunk)
            size -= len(chunk)
        self.last = b"".join(parts)
        return self.last

    def chunk(self, size: int) -> bytes:
        """At most `size` bytes of a member's content."""
        data = self.source.read(min(size, CHUNK))
        self.feed(data)
        self.position += len(data)
        return data

    def tell(self) -> int:
        """Bytes read so far."""
        return self.position

    def seek(self, position: int) -> None:
        """Forward only."""
        while self.position < position:
            if not self.chunk(position - self.position):
                raise tarfile.ReadError("unexpected end of data")

    def finish(self) -> None:
        """Read to the end; after the last member there may be nothing but zeros."""
        tail = self.last
        while tail:
            if tail.count(0) != len(tail):
                raise tarfile.ReadError("bytes after the last member")
            tail = self.chunk(CHUNK)


@dataclass(slots=True, kw_only=True)
class LayerWriter:
    """Applies one layer to `root`; with `owners` files get the tar's owners (needs root), else the caller.

    Without `owners` the caller can always read what it unpacked: u+r on files, u+rwx on directories.
    """

    root: Path
    owners: bool
    stop: Callable[[], bool]
    directories: dict[str, Attributes] = field(default_factory=dict)
    _known: set[str] = field(default_factory=lambda: {""})
    _files: set[str] = field(default_factory=set)

    def apply(self, stream: TarStream) -> None:
        """Write every member; InputError names the first one that is refused."""
        try:
            with tarfile.open(fileobj=stream, mode="r:", tarinfo=tarfile.TarInfo) as archive:  # type: ignore[call-overload]
                while member := archive.next():
                    if self.stop():
                        return
                    self._write(member, stream)
                    archive.members = []  # tarfile would keep all of them
            stream.finish()
        except tarfile.TarError as error:
            raise InputError(f"not a sound tar: {error}") from None

    def _write(self, member: tarfile.TarInfo, stream: TarStream) -> None:
        path = safe_path(member.name)
        if any(
            key.startswith(("SCHILY.xattr", "LIBARCHIVE.xattr", "GNU.sparse")) for key in member.pax_headers
        ):
            raise InputError(f"{member.name}: extended attributes and sparse files are refused")
        if member.type == tarfile.DIRTYPE:
            self._directory(path)
            self.directories[path] = Attributes(
                mode=member.mode & 0o7777, uid=member.uid, gid=member.gid, mtime=int(member.mtime)
            )
            return
        if not path:
            raise InputError("the root is not a directory")
        self._directory(path.rpartition("/")[0])
        try:
            if member.type in _FILES:
                self._file(path, member, stream)
            elif member.type == tarfile.SYMTYPE:
                self._symlink(path, member)
            elif member.type == tarfile.LNKTYPE:
                self._hardlink(path, member)
            else:
                raise InputError(f"{path}: devices, pipes and the like are refused (type {member.type!r})")
        except FileExistsError:
            raise InputError(f"{path} is in the image twice") from None

    def _directory(self, path: str) -> None:
        """Make sure that `path` is a real directory, and so are all above it."""
        if path in self._known:
            return
        self._directory(path.rpartition("/")[0])
        where = self.root / path
        # Nothing is ever removed or replaced here, so what is a directory now stays one.
        with contextlib.suppress(FileExistsError):
            where.mkdir(mode=0o700)
        if not stat.S_ISDIR(where.lstat().st_mode):
            raise InputError(f"{path} is a directory in one layer and a file or link in another")
        self._known.add(path)

    def _file(self, path: str, member: tarfile.TarInfo, stream: TarStream) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        if member.size < 0 or stream.position != member.offset_data:
            raise tarfile.ReadError(f"{path} has a size of {member.size}")
        handle = os.open(self.root / path, flags, 0o600)
        try:
            left = member.size
            while left:
                data = stream.chunk(left)
                if not data:
                    raise tarfile.ReadError("unexpected end of data")
                left -= len(data)
                while data:
                    data = data[os.write(handle, data) :]
            if self.owners:
                os.fchown(handle, member.uid, member.gid)
            os.fchmod(handle, (member.mode & 0o7777) | (0 if self.owners else stat.S_IRUSR))
            os.utime(handle, (int(member.mtime), int(member.mtime)))
        finally:
            os.close(handle)
        self._files.add(path)

    def _symlink(self, path: str, member: tarfile.TarInfo) -> None:
        where = self.root / path
        where.symlink_to(member.linkname)
        if self.owners:
            os.chown(where, member.uid, member.gid, follow_symlinks=False)
        os.utime(where, (int(member.mtime), int(member.mtime)), follow_symlinks=False)

    def _hardlink(self, path: str, member: tarfile.TarInfo) -> None:
        target = safe_path(member.linkname)
        if target not in self._files:
            raise InputError(f"{path}: a hard link to {target!r}, which is no earlier file of this layer")
        os.link(self.root / target, self.root / path, follow_symlinks=False)
        self._files.add(path)


def safe_path(name: str) -> str:
    """A member's name as a path below the root, empty for the root itself; InputError for anything else."""
    path = name.removeprefix("./").rstrip("/")
    if path in ("", "."):
        return ""
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\0" in path:
        raise InputError(f"{name!r} would leave the root folder")
    if parts[-1].startswith(".wh."):
        raise InputError(f"{name!r}: whiteouts are refused")
    return path
