"""LayerSpec: what one layer is made from, and the key that names it before it is built."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from trainyard.digest import canonical_json, sha256_hex
from trainyard.lock.model import LockedDeb, LockedWheel

# Pins everything that decides a byte of a layer: the tar writer, modes, launchers, the bytecode protocol. A
# change to any of these needs a new number, since a recorded key can never give other bytes.
FORMAT = 1
# Layers of debs and wheels carry this instead of a date, so that an unchanged input keeps its layer for ever:
# 2000-01-01T00:00:00Z. Later than 1980, which zip and some file servers cannot go below.
CONSTANT_MTIME = 946_684_800


class LayerKind(Enum):
    """How the entries of a layer come about."""

    DEBS = "debs"  # unpacked .debs
    STATE = "state"  # what Debian's maintainer scripts would have made
    STDLIB = "stdlib"  # bytecode of the standard library
    WHEELS = "wheels"  # installed wheels
    BYTECODE = "bytecode"  # bytecode of installed wheels
    FILES = "files"  # files that the plan holds


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFile:
    """A file or symbolic link that the plan itself holds; path without a leading slash."""

    path: str
    data: bytes = b""
    mode: int = 0o644
    link: str = ""

    def identity(self) -> list[object]:
        """What of it decides bytes, JSON-able."""
        return [self.path, self.mode, self.link, sha256_hex(self.data)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSpec:
    """One layer: kind, inputs in order, and the parameters that decide its bytes.

    `parameters` are (name, value) pairs; `mtime` is seconds since the epoch for every member without its own.
    """

    kind: LayerKind
    title: str
    mtime: int
    debs: tuple[LockedDeb, ...] = ()
    wheels: tuple[LockedWheel, ...] = ()
    files: tuple[ImageFile, ...] = ()
    part: int = 0
    parts: int = 1
    parameters: tuple[tuple[str, str], ...] = ()

    @property
    def inputs(self) -> tuple[LockedDeb | LockedWheel, ...]:
        """What is read to make the layer, in order."""
        return (*self.debs, *self.wheels)

    @property
    def input_size(self) -> int:
        """Bytes of the inputs that this layer takes, roughly: a split wheel counts in equal parts."""
        return sum(item.size for item in self.inputs) // self.parts

    @property
    def key(self) -> str:
        """sha256 hex over everything that decides the layer's uncompressed bytes."""
        return sha256_hex(
            canonical_json(
                {
                    "format": FORMAT,
                    "kind": self.kind.value,
                    "mtime": self.mtime,
                    "inputs": [item.sha256 for item in self.inputs],
                    "files": [file.identity() for file in self.files],
                    "part": [self.part, self.parts],
                    "parameters": [list(pair) for pair in self.parameters],
                }
            )
        )
