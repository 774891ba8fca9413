"""What moved between two locks of one thing, as data and as lines for a person. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trainyard.lock.model import DebLock, LockedDeb, LockedWheel, WheelLock


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A package that came (`old` is None), went (`new` is None), or moved; equal versions are another file."""

    name: str
    old: str | None
    new: str | None

    def line(self) -> str:
        """`+ name 2.0`, `- name 1.0`, `name 1.0 -> 2.0`."""
        if self.old is None:
            return f"+ {self.name} {self.new}"
        if self.new is None:
            return f"- {self.name} {self.old}"
        same = " (another file of the same version)" if self.old == self.new else ""
        return f"{self.name} {self.old} -> {self.new}{same}"


def changes(
    old: WheelLock | DebLock | None, new: Sequence[LockedWheel] | Sequence[LockedDeb]
) -> tuple[Change, ...]:
    """Gone ones first, then new ones, then moved ones; nothing for a first lock."""
    if old is None:
        return ()
    items = old.wheels if isinstance(old, WheelLock) else old.debs
    before = {item.name: item for item in items}
    after = {item.name: item for item in new}
    gone = [Change(name=name, old=before[name].version, new=None) for name in before if name not in after]
    came = [Change(name=name, old=None, new=after[name].version) for name in after if name not in before]
    moved = [
        Change(name=name, old=before[name].version, new=after[name].version)
        for name in before
        if name in after and after[name].sha256 != before[name].sha256
    ]
    return (*gone, *came, *moved)


def summary(locks: Iterable[Sequence[Change]]) -> str:
    """One line over several locks, e.g. `2 of 3 locks moved: 12 packages moved, 1 added, 0 removed`."""
    every = list(locks)
    flat = [change for one in every for change in one]
    added = sum(change.old is None for change in flat)
    removed = sum(change.new is None for change in flat)
    return (
        f"{sum(bool(one) for one in every)} of {len(every)} locks moved: "
        f"{len(flat) - added - removed} packages moved, {added} added, {removed} removed"
    )
