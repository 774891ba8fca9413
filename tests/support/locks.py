"""Locks and targets as values, for tests of pure modules."""

from __future__ import annotations

import hashlib

from trainyard.lock.model import DebLock, LockedDeb, LockedWheel, WheelLock
from trainyard.matrix.model import Base, Requires, Target
from trainyard.platforms import Platform

AMD64 = Platform("linux", "amd64")
ARM64 = Platform("linux", "arm64")
MiB = 1 << 20


def fake_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def wheel(name: str, version: str = "1.0", *, size: int = 1000, tag: str = "py3-none-any") -> LockedWheel:
    filename = f"{name.replace('-', '_')}-{version}-{tag}.whl"
    return LockedWheel(name=name, version=version, sha256=fake_hash(filename), size=size, filename=filename)


def deb(name: str, version: str = "1.0-1", *, size: int = 1000) -> LockedDeb:
    path = f"debian/pool/main/{name[0]}/{name}/{name}_{version}_amd64.deb"
    return LockedDeb(name=name, version=version, sha256=fake_hash(path), size=size, path=path)


def wheel_lock(
    *wheels: LockedWheel, platform: Platform = AMD64, until: str = "2026-12-01T00:00:00Z"
) -> WheelLock:
    return WheelLock(
        target="cuda13.2",
        platform=platform,
        python="3.13",
        index="default",
        until=until,
        inputs=fake_hash("inputs"),
        wheels=tuple(sorted(wheels, key=lambda item: item.name)),
    )


def deb_lock(
    *debs: LockedDeb,
    arch: str = "amd64",
    snapshot: str = "2026-11-30T20:15:00Z",
    version: str = "3.13",
) -> DebLock:
    """Those packages, and the ones that bring a Python of that version."""
    name = f"python{version}"
    parts = (name, f"{name}-minimal", f"lib{name}-minimal", f"lib{name}-stdlib")
    python = [deb(part, f"{version}.5-2") for part in parts]
    members = sorted(
        [*debs, *(one for one in python if one.name not in {item.name for item in debs})],
        key=lambda item: item.name,
    )
    return DebLock(
        base="trixie",
        arch=arch,
        snapshot=snapshot,
        inputs=fake_hash("deb inputs"),
        releases=(),
        debs=tuple(members),
    )


def target(**changes: object) -> Target:
    base = Base(
        suite="trixie",
        python="3.13",
        snapshot="https://snapshot.example.com/archive",
        packages=["python3.13"],
    )
    fields: dict[str, object] = {
        "name": "cuda13.2",
        "title": "a test target",
        "accelerator": "cuda",
        "toolkit": "13.2",
        "base_name": "trixie",
        "base": base,
        "platforms": (AMD64, ARM64),
        "requirements": ("torch==2.15.0",),
        "requires": Requires(driver=">=580"),
        "env": (),
    }
    return Target.model_validate(fields | changes)
