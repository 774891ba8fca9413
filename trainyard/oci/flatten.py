"""The file tree that an image's layers add up to, streamed: nothing is unpacked to disk.

OCI image-spec, layer.md: a later layer's member replaces an earlier one's, a directory keeps its children, and
whiteouts remove. A hard link counts as the file that it leads to.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import IO, cast

from trainyard.digest import CHUNK
from trainyard.errors import InputError
from trainyard.oci.codec import decompressed
from trainyard.oci.layout import LayoutImage, LayoutLayer

_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_KEPT_MOST = 16 << 20
_KINDS = {
    tarfile.REGTYPE: "file",
    tarfile.AREGTYPE: "file",
    tarfile.LNKTYPE: "file",
    tarfile.SYMTYPE: "symlink",
    tarfile.DIRTYPE: "directory",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatMember:
    """One path of the tree: what it is, permission bits, numeric owner, a symlink's text, a file's sha256 hex.

    `attributes` are extended ones (security.capability and the like), as (name, value).
    """

    kind: str
    mode: int
    uid: int
    gid: int
    link: str = ""
    sha256: str = ""
    attributes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatImage:
    """The tree by path (no leading slash, the root left out), and the content of files that were asked for."""

    members: dict[str, FlatMember]
    contents: dict[str, bytes]


@dataclass(slots=True)
class _Layer:
    """One layer's members and orders to remove, in the layer's own paths."""

    members: dict[str, FlatMember] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    emptied: list[str] = field(default_factory=list)


def flatten(image: LayoutImage, *, keep: Callable[[str], bool], workers: int = 2) -> FlatImage:
    """The tree of `image`; `keep` says which files' content (small ones) comes along.

    Each layer is held against its diff id. Errors: InputError naming the layer that is damaged.
    """
    with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="flatten") as pool:
        layers = list(pool.map(lambda layer: _read_layer(layer, keep), image.layers))
    return _merged(layers)


def _merged(layers: Sequence[_Layer]) -> FlatImage:
    members: dict[str, FlatMember] = {}
    contents: dict[str, bytes] = {}
    for layer in layers:
        for path in layer.removed:
            members.pop(path, None)
        gone = [*layer.removed, *layer.emptied]
        # A file or link where a directory was takes the directory's children with it.
        gone += [
            path
            for path, member in layer.members.items()
            if member.kind != "directory" and path in members and members[path].kind == "directory"
        ]
        if gone:
            below = tuple(f"{path}/" for path in gone)
            members = {path: member for path, member in members.items() if not path.startswith(below)}
        members |= layer.members
        contents |= layer.contents
    return FlatImage(
        members=members, contents={path: data for path, data in contents.items() if path in members}
    )


def _read_layer(layer: LayoutLayer, keep: Callable[[str], bool]) -> _Layer:
    found = _Layer()
    with layer.path.open("rb") as blob:
        stream = _Stream(decompressed(blob, layer.media_type))
        try:
            # "r|" reads forward only; the stream has nothing but `read`.
            with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|", bufsize=CHUNK) as tar:
                for member in tar:
                    _add(found, tar, member, keep)
                    tar.members = []  # type: ignore[attr-defined]  # it would keep all of them
        except tarfile.TarError as error:
            raise InputError(f"layer {layer.digest} is no sound tar: {error}") from None
        stream.drain()
    if (diff_id := f"sha256:{stream.hasher.hexdigest()}") != layer.diff_id:
        raise InputError(f"layer {layer.digest} has diff id {diff_id}, its config says {layer.diff_id}")
    return found


def _add(layer: _Layer, tar: tarfile.TarFile, member: tarfile.TarInfo, keep: Callable[[str], bool]) -> None:
    path = member.name.removeprefix("./").strip("/")
    if path in ("", "."):
        return
    folder, _, name = path.rpartition("/")
    if name == _OPAQUE:
        layer.emptied.append(folder)
        return
    if name.startswith(_WHITEOUT):
        layer.removed.append(f"{folder}/{name[len(_WHITEOUT) :]}".lstrip("/"))
        return
    if member.type == tarfile.LNKTYPE:
        target = member.linkname.removeprefix("./").strip("/")
        if target not in layer.members:
            raise InputError(f"{path}: a hard link to {target!r}, which is no earlier member of its layer")
        layer.members[path] = layer.members[target]
        if target in layer.contents and keep(path):
            layer.contents[path] = layer.contents[target]
        return
    sha256 = ""
    if member.isreg():
        sha256, content = _content(tar, member, kept=keep(path) and member.size <= _KEPT_MOST)
        if content is not None:
            layer.contents[path] = content
    layer.members[path] = FlatMember(
        kind=_KINDS.get(member.type, f"type {member.type!r}"),
        mode=member.mode & 0o7777,
        uid=member.uid,
        gid=member.gid,
        link=member.linkname if member.issym() else "",
        sha256=sha256,
        attributes=tuple(
            sorted(pair for pair in member.pax_headers.items() if pair[0].startswith("SCHILY.xattr."))
        ),
    )


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo, *, kept: bool) -> tuple[str, bytes | None]:
    """sha256 hex of a member's content, and the content if it is to be kept."""
    stream = tar.extractfile(member)
    assert stream is not None
    hasher, parts = hashlib.sha256(), []
    while data := stream.read(CHUNK):
        hasher.update(data)
        if kept:
            parts.append(data)
    return hasher.hexdigest(), b"".join(parts) if kept else None


class _Stream:
    """Chunks as a file that can only be read, hashed on the way."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self.hasher = hashlib.sha256()
        self._chunks = chunks
        self._rest = b""

    def read(self, size: int) -> bytes:
        """At most `size` bytes, empty at the end."""
        if not self._rest:
            self._rest = next(self._chunks, b"")
            self.hasher.update(self._rest)
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    def drain(self) -> None:
        """What tarfile left unread belongs to the diff id too."""
        while self.read(CHUNK):
            pass
