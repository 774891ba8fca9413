"""Which inputs share a layer; pure, a function of the lock alone (docs/adr/0002-layers-from-the-lock.md).

A large wheel has a layer of its own, a very large one several; small ones share two layers: the pure-Python
ones, which change often, and the compiled ones, which do not. Debs likewise. So a change to one small package
moves a few megabytes, and targets share what they have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainyard.lock.model import LockedDeb, LockedWheel

MiB = 1 << 20
OWN_LAYER = 4 * MiB  # a wheel file of this size has its own layer
SPLIT = 256 * MiB  # and one more part for each of these; about 512 MiB of content
DEB_OWN_LAYER = 8 * MiB
MAX_LAYERS = 60  # BuildKit and the classic graph drivers stop near 70 and 127


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelGroup:
    """The wheels of one layer; part `part` of `parts` when a single wheel is split."""

    title: str
    wheels: tuple[LockedWheel, ...]
    part: int = 0
    parts: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DebGroup:
    """The debs of one layer."""

    title: str
    debs: tuple[LockedDeb, ...]


def group_debs(debs: Sequence[LockedDeb]) -> tuple[DebGroup, ...]:
    """The base's layers, the shared one first: it brings the usrmerge links that the others unpack through."""
    shared = tuple(deb for deb in debs if deb.size < DEB_OWN_LAYER)
    large = [deb for deb in debs if deb.size >= DEB_OWN_LAYER]
    groups = [DebGroup(title=f"debian: {len(shared)} packages", debs=shared)] if shared else []
    return (*groups, *(DebGroup(title=f"debian: {deb.name}={deb.version}", debs=(deb,)) for deb in large))


def group_wheels(wheels: Sequence[LockedWheel]) -> tuple[WheelGroup, ...]:
    """The wheel layers, largest first, so that what changes least is lowest; the shared small ones last."""
    groups = []
    for wheel in sorted(large_wheels(wheels), key=lambda wheel: (-wheel.size, wheel.name)):
        parts = -(-wheel.size // SPLIT)
        for part in range(parts):
            suffix = f" ({part + 1}/{parts})" if parts > 1 else ""
            title = f"wheel: {wheel.requirement}{suffix}"
            groups.append(WheelGroup(title=title, wheels=(wheel,), part=part, parts=parts))
    small = small_wheels(wheels)
    for kind, members in (
        ("compiled", tuple(wheel for wheel in small if not wheel.is_pure)),
        ("pure Python", tuple(wheel for wheel in small if wheel.is_pure)),
    ):
        if members:
            groups.append(WheelGroup(title=f"wheels: {len(members)} small, {kind}", wheels=members))
    return tuple(groups)


def large_wheels(wheels: Sequence[LockedWheel]) -> tuple[LockedWheel, ...]:
    """The wheels that have a layer of their own."""
    return tuple(wheel for wheel in wheels if wheel.size >= OWN_LAYER)


def small_wheels(wheels: Sequence[LockedWheel]) -> tuple[LockedWheel, ...]:
    """The wheels that share a layer."""
    return tuple(wheel for wheel in wheels if wheel.size < OWN_LAYER)
