"""(Target, locks) -> Plan: the ordered layers and the image config. Pure: no I/O, no clock.

The Plan is the seam: the assembled image and the Dockerfile both come from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from trainyard.bytecode.python import python_key
from trainyard.digest import canonical_json, sha256_hex
from trainyard.errors import TrainyardError
from trainyard.layering import MAX_LAYERS, group_debs, group_wheels, large_wheels, small_wheels
from trainyard.layers import CONSTANT_MTIME, FORMAT, LayerKind, LayerSpec
from trainyard.lock.model import DebLock, LockedWheel, WheelLock
from trainyard.matrix.model import Target
from trainyard.oci.image import ImageConfig
from trainyard.platforms import Platform
from trainyard.runtime import apt_sources, image_environment, runtime_files


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an image will be: layers from the bottom up, and its config."""

    target: str
    platform: Platform
    layers: tuple[LayerSpec, ...]
    config: ImageConfig
    tag: str
    wheels: WheelLock
    debs: DebLock

    @property
    def key(self) -> str:
        """sha256 hex over everything that decides the image's digest."""
        return sha256_hex(canonical_json([_identity(self.layers, self.config), self.config.labels]))


def make_plan(
    target: Target,
    platform: Platform,
    *,
    wheels: WheelLock,
    debs: DebLock,
    payload: Mapping[str, bytes],
    reviewed: str,
) -> Plan:
    """The Plan of one (target, platform).

    `payload` maps image paths to the files of ours that every image carries; `reviewed` is the sha256 hex of the
    table that says what maintainer scripts do.
    """
    created = max(wheels.until, debs.snapshot)
    layers = (
        *base_layers(target, platform, debs, reviewed),
        *_venv_layers(target, platform, wheels, debs, created, payload),
    )
    if len(layers) > MAX_LAYERS:
        raise TrainyardError(
            f"{target.name} {platform}: {len(layers)} layers, more than the {MAX_LAYERS} that every runtime takes",
            hint="leave out a package set in matrix.yaml, then run `invoke lock`",
        )
    config = ImageConfig(
        os=platform.os,
        architecture=platform.arch,
        created=created,
        env=image_environment(target),
        entrypoint=("/usr/bin/tini", "-g", "--", "/usr/local/bin/trainyard-entrypoint"),
        cmd=("/bin/bash",),
        user="1000:0",
        working_dir="/home/trainyard",
        labels=(),
        stop_signal="SIGTERM",
    )
    plan8 = sha256_hex(canonical_json(_identity(layers, config)))[:8]
    tag = _tag(target, wheels, plan8)
    return Plan(
        target=target.name,
        platform=platform,
        layers=layers,
        config=config.with_labels(_labels(target, platform, wheels, debs, tag)),
        tag=tag,
        wheels=wheels,
        debs=debs,
    )


def base_layers(target: Target, platform: Platform, debs: DebLock, reviewed: str) -> tuple[LayerSpec, ...]:
    """The Debian layers: the debs, what their scripts would have made, and the standard library's bytecode."""
    unpacked = [
        LayerSpec(kind=LayerKind.DEBS, title=group.title, mtime=CONSTANT_MTIME, debs=group.debs)
        for group in group_debs(debs.debs)
    ]
    state = LayerSpec(
        kind=LayerKind.STATE,
        title=f"debian: configured, snapshot {debs.snapshot}",
        mtime=seconds(debs.snapshot),
        debs=debs.debs,
        parameters=(
            ("arch", platform.arch),
            ("reviewed", reviewed),
            ("sources", apt_sources(target.debian[1], debs.snapshot)),
        ),
    )
    python = target.python
    stdlib = LayerSpec(
        kind=LayerKind.STDLIB,
        title=f"bytecode: Python {python} standard library",
        mtime=CONSTANT_MTIME,
        debs=tuple(
            deb for deb in debs.debs if deb.name.startswith((f"python{python}", f"libpython{python}"))
        ),
        parameters=(("python", python_key(debs)),),
    )
    return (*unpacked, state, stdlib)


def _venv_layers(
    target: Target,
    platform: Platform,
    wheels: WheelLock,
    debs: DebLock,
    created: str,
    payload: Mapping[str, bytes],
) -> tuple[LayerSpec, ...]:
    python = (("python", target.python),)
    installed = [
        LayerSpec(
            kind=LayerKind.WHEELS,
            title=group.title,
            mtime=CONSTANT_MTIME,
            wheels=group.wheels,
            part=group.part,
            parts=group.parts,
            parameters=python,
        )
        for group in group_wheels(wheels.wheels)
    ]
    compiled = [
        _bytecode(f"bytecode: {len(members)} {size} wheels", members, python_key(debs))
        for size, members in (("large", large_wheels(wheels.wheels)), ("small", small_wheels(wheels.wheels)))
        if members
    ]
    top = LayerSpec(
        kind=LayerKind.FILES,
        title=f"trainyard: venv, entrypoint and checks of {target.name}",
        mtime=seconds(created),
        files=runtime_files(target, platform, wheels=wheels, debs=debs, payload=payload),
    )
    return (*installed, *compiled, top)


def _bytecode(title: str, wheels: Sequence[LockedWheel], key: str) -> LayerSpec:
    parameters = (("python", key),)
    return LayerSpec(
        kind=LayerKind.BYTECODE,
        title=title,
        mtime=CONSTANT_MTIME,
        wheels=tuple(wheels),
        parameters=parameters,
    )


def seconds(instant: str) -> int:
    """An RFC 3339 UTC instant as seconds since the epoch."""
    return int(datetime.fromisoformat(instant).timestamp())


def _identity(layers: Sequence[LayerSpec], config: ImageConfig) -> object:
    """The plan without its labels, which name the plan themselves."""
    return [FORMAT, [spec.key for spec in layers], config.with_labels(()).to_config()]


def _tag(target: Target, wheels: WheelLock, plan8: str) -> str:
    """The immutable tag, e.g. `cuda13.2-torch2.15.0-py313-20261201-0a1b2c3d`."""
    torch = wheels.wheel("torch")
    version = f"torch{torch.version.replace('+', '-')}-" if torch else ""
    date = wheels.until[:10].replace("-", "")
    return f"{target.name}-{version}py{target.python.replace('.', '')}-{date}-{plan8}"


def _labels(
    target: Target, platform: Platform, wheels: WheelLock, debs: DebLock, tag: str
) -> tuple[tuple[str, str], ...]:
    """Labels that a check holds against the image's content."""
    torch = wheels.wheel("torch")
    labels = {
        "org.opencontainers.image.title": target.title,
        "org.opencontainers.image.version": tag,
        "org.opencontainers.image.created": max(wheels.until, debs.snapshot),
        "org.opencontainers.image.licenses": "NOASSERTION",
        "dev.trainyard.format": str(FORMAT),
        "dev.trainyard.target": target.name,
        "dev.trainyard.platform": str(platform),
        "dev.trainyard.accelerator": target.accelerator,
        "dev.trainyard.toolkit": target.toolkit,
        "dev.trainyard.python": target.python,
        "dev.trainyard.debian": f"{target.debian[1].suite} {debs.snapshot}",
        "dev.trainyard.until": wheels.until,
    }
    if torch is not None:
        labels["dev.trainyard.torch"] = torch.version
    for name, wanted in target.requires.model_dump(exclude_none=True).items():
        text = wanted if isinstance(wanted, str) else " or ".join(wanted)
        labels[f"dev.trainyard.requires.{name.replace('_', '-')}"] = text
    return tuple(sorted(labels.items()))
