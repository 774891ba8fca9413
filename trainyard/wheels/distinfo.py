"""The .dist-info folder: that there is one, and that it describes the distribution which was locked."""

from __future__ import annotations

import email.parser
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from packaging.metadata import parse_email
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from trainyard.lock.model import LockedWheel
from trainyard.wheels.launchers import EntryPoint, parse_entry_points

_SUFFIX = ".dist-info"
_SPEC = re.compile(r"1\.\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """Of METADATA: name and version as written, SPDX expression, free-text licence, Requires-Dist lines."""

    name: str
    version: str
    license_expression: str
    license: str
    requires: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DistInfo:
    """What the folder `folder` (no slash) says."""

    folder: str
    metadata: Metadata
    commands: tuple[EntryPoint, ...]


Read = Callable[[str], bytes | None]


def find_folder(names: Iterable[str], wheel: LockedWheel) -> tuple[str, list[str]]:
    """The one .dist-info folder of the locked distribution, and what is wrong with it."""
    tops = {name.partition("/")[0] for name in names if "/" in name}
    folders = sorted(top for top in tops if top.endswith(_SUFFIX))
    if len(folders) != 1:
        return "", [f"has {len(folders)} .dist-info folders instead of one: {', '.join(folders) or 'none'}"]
    name, _, version = folders[0].removesuffix(_SUFFIX).rpartition("-")
    if not _is_locked(name, version, wheel):
        return "", [f"{folders[0]} is not of the locked {wheel.requirement}"]
    return folders[0], []


def read_dist_info(folder: str, read: Read, wheel: LockedWheel) -> tuple[DistInfo, list[str]]:
    """The folder's files through `read` (None where there is no such member), and what is wrong with them."""
    metadata, problems = _metadata(read(f"{folder}/METADATA"), wheel)
    problems += _wheel_problems(read(f"{folder}/WHEEL"))
    commands, wrong = parse_entry_points(read(f"{folder}/entry_points.txt") or b"")
    return DistInfo(folder=folder, metadata=metadata, commands=tuple(commands)), problems + wrong


def _metadata(data: bytes | None, wheel: LockedWheel) -> tuple[Metadata, list[str]]:
    raw, _ = parse_email(data or b"")
    name, version = raw.get("name", ""), raw.get("version", "")
    problems = []
    if data is None:
        problems.append("has no METADATA")
    elif not _is_locked(name, version, wheel):
        problems.append(f"METADATA says {name or '(no name)'} {version}, the lock {wheel.requirement}")
    metadata = Metadata(
        name=name,
        version=version,
        license_expression=raw.get("license_expression", ""),
        license=raw.get("license", ""),
        requires=tuple(raw.get("requires_dist", ())),
    )
    return metadata, problems


def _wheel_problems(data: bytes | None) -> Sequence[str]:
    if data is None:
        return ["has no WHEEL file"]
    headers = email.parser.BytesHeaderParser().parsebytes(data)
    version = str(headers.get("Wheel-Version", "")).strip()
    if not _SPEC.fullmatch(version):
        return [f"has Wheel-Version {version or '(none)'}; only 1.x is known"]
    return []


def _is_locked(name: str, version: str, wheel: LockedWheel) -> bool:
    try:
        same = Version(version) == Version(wheel.version)
    except InvalidVersion:
        same = version == wheel.version
    return same and canonicalize_name(name) == wheel.name
