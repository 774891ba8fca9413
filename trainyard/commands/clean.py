"""`invoke clean`: give disk back, and say how much."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainyard.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """A folder that was removed and the bytes that it held."""

    what: str
    path: Path
    bytes: int


def clean(workspace: Workspace, *, layers: bool, inputs: bool, dist: bool) -> tuple[Freed, ...]:
    """Remove what was asked for; without a choice, what can be made again without a download."""
    if not (layers or inputs or dist):
        layers = dist = True
    root = workspace.store.root
    chosen = []
    if dist:
        chosen += [("images", workspace.project.root / "dist")]
    if layers:
        chosen += [(name, root / name) for name in ("layers", "blobs", "facts", "trees")]
    if inputs:
        chosen += [("inputs", root / "inputs")]
    with workspace.store.exclusive():
        return tuple(_remove(chosen))


def _remove(chosen: list[tuple[str, Path]]) -> Iterator[Freed]:
    for what, path in chosen:
        if not path.is_dir():
            continue
        size = _bytes_only_here(path)
        shutil.rmtree(path)
        yield Freed(what=what, path=path, bytes=size)


def _bytes_only_here(folder: Path) -> int:
    """The bytes that go with a folder: a layer that has a link elsewhere goes with the last of its links."""
    found = [file.lstat() for file in folder.rglob("*") if file.is_symlink() or not file.is_dir()]
    links = Counter((one.st_dev, one.st_ino) for one in found)
    sizes = {
        (one.st_dev, one.st_ino): one.st_size
        for one in found
        if links[one.st_dev, one.st_ino] == one.st_nlink
    }
    return sum(sizes.values())
