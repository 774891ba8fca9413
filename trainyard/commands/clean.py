"""`invoke clean`: give disk back, and say how much."""

from __future__ import annotations

import shutil
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
        chosen += [(name, root / name) for name in ("layers", "blobs", "facts", "trees", "tmp")]
    if inputs:
        chosen += [("inputs", root / "inputs")]
    with workspace.store.exclusive():
        return tuple(_remove(chosen))


def _remove(chosen: list[tuple[str, Path]]) -> Iterator[Freed]:
    for what, path in chosen:
        if not path.is_dir():
            continue
        # A layer that dist/ links to is freed with the last of its links, and counted there.
        size = sum(
            found.st_size
            for file in path.rglob("*")
            if (found := file.lstat()).st_nlink == 1 and not file.is_dir()
        )
        shutil.rmtree(path)
        yield Freed(what=what, path=path, bytes=size)
