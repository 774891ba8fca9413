"""Two layer blobs that should be one: which members differ, and in what."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO

import zstandard

from trainyard.digest import CHUNK

_MOST = 20


def explain_layer(ours: Path, theirs: Path) -> tuple[str, ...]:
    """Lines such as `opt/x: mode 644, here 664`; at most 20, then how many more. zstd layers only."""
    left, right = _members(ours), _members(theirs)
    lines = [f"{path}: only in the first build" for path in left if path not in right]
    lines += [f"{path}: only in the second build" for path in right if path not in left]
    for path in left:
        if path in right:
            pairs = zip(left[path], right[path], strict=True)
            lines += [f"{path}: {name} {one}, then {two}" for (name, one), (_, two) in pairs if one != two]
    if not lines and list(left) != list(right):
        lines = ["the same members in another order"]
    lines = lines or ["the same members, other tar bytes"]
    more = len(lines) - _MOST
    return (*lines[:_MOST], *((f"and {more} more",) if more > 0 else ()))


def _members(blob: Path) -> dict[str, tuple[tuple[str, object], ...]]:
    with blob.open("rb") as stream:
        return dict(_read(stream))


def _read(stream: BinaryIO) -> Iterator[tuple[str, tuple[tuple[str, object], ...]]]:
    reader = zstandard.ZstdDecompressor().stream_reader(stream)
    with tarfile.open(fileobj=reader, mode="r|") as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isreg() else None
            digest = _digest(content) if content else ""
            yield (
                member.name,
                (
                    ("type", member.type),
                    ("mode", oct(member.mode)),
                    ("owner", (member.uid, member.gid)),
                    ("mtime", member.mtime),
                    ("link", member.linkname),
                    ("size", member.size),
                    ("content", digest),
                ),
            )


def _digest(content: IO[bytes]) -> str:
    hasher = hashlib.sha256()
    while chunk := content.read(CHUNK):
        hasher.update(chunk)
    return hasher.hexdigest()[:16]
