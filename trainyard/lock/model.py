"""The two locks as values: parsed from the text in lockfiles/, with every problem at once.

A wheel lock is a hash-checked requirements file that pip and uv accept as it is; a deb lock is one package a
line. Both begin with `# key: value` lines.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from packaging.utils import canonicalize_name

from trainyard.digest import is_sha256
from trainyard.errors import LockError
from trainyard.platforms import Platform

FORMAT = "1"
_HEADER = re.compile(r"# ([a-z-]+): (.*)")
_WHEEL = re.compile(r"(\S+)==(\S+) --hash=sha256:([0-9a-f]{64})  # (\d+) (\S+\.whl)")
_DEB = re.compile(r"(\S+)=(\S+) ([0-9a-f]{64}) (\d+) (\S+\.deb)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedWheel:
    """One wheel: normalised name, version, bare sha256 hex, size in bytes, file name (PEP 427)."""

    name: str
    version: str
    sha256: str
    size: int
    filename: str

    @property
    def is_pure(self) -> bool:
        """Whether the wheel's platform tag is `any`."""
        return self.filename.endswith("-any.whl")

    @property
    def requirement(self) -> str:
        """`name==version`."""
        return f"{self.name}=={self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelLock:
    """Every wheel of one (target, platform).

    `until` is the cut-off instant, RFC 3339 UTC; `inputs` the sha256 hex of what the lock was resolved from.
    """

    target: str
    platform: Platform
    python: str
    index: str
    until: str
    inputs: str
    wheels: tuple[LockedWheel, ...]

    def wheel(self, name: str) -> LockedWheel | None:
        """The locked wheel of that name, if any."""
        wanted = canonicalize_name(name)
        return next((wheel for wheel in self.wheels if wheel.name == wanted), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedDeb:
    """One Debian package: name, version, architecture's file: sha256 hex, size, path below the mirror's parent.

    `path` starts with the archive, e.g. `debian/pool/main/t/tini/tini_0.19.0-3_amd64.deb`.
    """

    name: str
    version: str
    sha256: str
    size: int
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A signed Release file that a deb lock was made from; `signers` are primary key fingerprints.

    `expired` is the instant that it was good until, RFC 3339, if that had passed when the lock was made.
    """

    archive: str
    suite: str
    sha256: str
    date: str
    signers: tuple[str, ...]
    expired: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DebLock:
    """Every .deb of one (base, architecture); `snapshot` is the newest Release date, RFC 3339 UTC."""

    base: str
    arch: str
    snapshot: str
    inputs: str
    releases: tuple[Release, ...]
    debs: tuple[LockedDeb, ...]

    @property
    def expired(self) -> tuple[Release, ...]:
        """The Releases that had expired, by matrix.yaml's leave."""
        return tuple(release for release in self.releases if release.expired)

    def deb(self, name: str) -> LockedDeb | None:
        """The locked package of that name, if any."""
        return next((deb for deb in self.debs if deb.name == name), None)


def parse_wheel_lock(text: str, *, source: str) -> WheelLock:
    """A wheel lock from its text; LockError lists every bad line as `source:line: what`."""
    header, body, problems = _split(
        text, source, ("target", "platform", "python", "index", "until", "inputs")
    )
    wheels = []
    for number, line in body:
        match = _WHEEL.fullmatch(line)
        if match is None:
            problems.append(f"{source}:{number}: not a locked wheel: {line[:100]!r}")
            continue
        name, version, sha256, size, filename = match.groups()
        wheels.append(
            LockedWheel(name=name, version=version, sha256=sha256, size=int(size), filename=filename)
        )
    problems += _order_problems(source, [wheel.name for wheel in wheels])
    problems += [
        f"{source}: {w.name}: not a normalised name" for w in wheels if canonicalize_name(w.name) != w.name
    ]
    platform = _platform(header.get("platform", ""), source, problems)
    _raise(problems, source)
    return WheelLock(
        target=header["target"],
        platform=platform,
        python=header["python"],
        index=header["index"],
        until=header["until"],
        inputs=header["inputs"],
        wheels=tuple(wheels),
    )


def parse_deb_lock(text: str, *, source: str) -> DebLock:
    """A deb lock from its text; LockError lists every bad line as `source:line: what`."""
    header, body, problems = _split(text, source, ("base", "architecture", "snapshot", "inputs"))
    debs = []
    for number, line in body:
        match = _DEB.fullmatch(line)
        if match is None:
            problems.append(f"{source}:{number}: not a locked package: {line[:100]!r}")
            continue
        name, version, sha256, size, path = match.groups()
        debs.append(LockedDeb(name=name, version=version, sha256=sha256, size=int(size), path=path))
    problems += _order_problems(source, [deb.name for deb in debs])
    _raise(problems, source)
    return DebLock(
        base=header["base"],
        arch=header["architecture"],
        snapshot=header["snapshot"],
        inputs=header["inputs"],
        releases=tuple(_releases(text)),
        debs=tuple(debs),
    )


def _releases(text: str) -> Iterator[Release]:
    """The header's `release` lines, with what its `expired` lines say of them."""
    rows = [line.removeprefix("# ").split() for line in text.splitlines() if line.startswith("# ")]
    expired = {(row[1], row[2]): row[3] for row in rows if row[0] == "expired:"}
    for archive, suite, sha256, date, *signers in (row[1:] for row in rows if row[0] == "release:"):
        yield Release(
            archive=archive,
            suite=suite,
            sha256=sha256,
            date=date,
            signers=tuple(signers),
            expired=expired.get((archive, suite), ""),
        )


def _split(
    text: str, source: str, required: tuple[str, ...]
) -> tuple[dict[str, str], list[tuple[int, str]], list[str]]:
    """Header, numbered body lines, and the problems of the header."""
    header: dict[str, str] = {}
    body = []
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _HEADER.fullmatch(line):
            header.setdefault(match[1], match[2])
        elif line and not line.startswith("#"):
            body.append((number, line))
    problems = [f"{source}: header has no `{key}`" for key in ("format", *required) if key not in header]
    if header.get("format", FORMAT) != FORMAT:
        problems.append(f"{source}: format {header['format']} is not {FORMAT}, the one this version reads")
    if "inputs" in header and not is_sha256(header["inputs"]):
        problems.append(f"{source}: `inputs` is not a sha256")
    return header, body, problems


def _order_problems(source: str, names: list[str]) -> list[str]:
    pairs = itertools.pairwise(names)
    return [
        f"{source}: {after} {'appears twice' if before == after else f'is not sorted after {before}'}"
        for before, after in pairs
        if before >= after
    ]


def _platform(text: str, source: str, problems: list[str]) -> Platform:
    try:
        return Platform.parse(text)
    except ValueError as error:
        problems.append(f"{source}: {error}")
        return Platform("linux", "amd64")


def _raise(problems: list[str], source: str) -> None:
    if problems:
        raise LockError(
            "\n".join(problems), hint=f"restore {source} from git, or delete it and run `invoke lock`"
        )
