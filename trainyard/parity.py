"""Two images that should be one: the assembler's and Docker's, path by path. Pure.

Held are type, permission bits, numeric owner, extended attributes, a symlink's text and a file's bytes, and in
the config how a container starts. Not held: times (BuildKit sets its own), layer boundaries, history. What may
differ is in KNOWN, with the reason; anything else is a difference and is named.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from enum import Enum

from trainyard.oci.flatten import FlatImage, FlatMember

PROCESS = ("Env", "Entrypoint", "Cmd", "User", "WorkingDir", "Labels", "StopSignal")


class Allowed(Enum):
    """What a known difference may be."""

    MISSING = "not in Docker's image"
    EXTRA = "only in Docker's image"
    LAUNCHER = "a launcher that calls the same function, in other words"
    RECORD = "a RECORD whose other rows are the same; it may be executable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Paths (a full match) that may differ in one way, and why."""

    path: str
    allowed: Allowed
    reason: str


_DIST_INFO = r"opt/venv/lib/python3\.\d+/site-packages/[^/]+\.dist-info"
KNOWN = (
    Known(
        path=rf"{_DIST_INFO}/INSTALLER",
        allowed=Allowed.MISSING,
        reason="uv is told to leave no notes: with them it also writes the times of the wheel files",
    ),
    Known(
        path=r"opt/venv/bin/[A-Za-z0-9_][A-Za-z0-9_.+-]*",
        allowed=Allowed.LAUNCHER,
        reason="every installer has its own text for the launcher of an entry point",
    ),
    Known(
        path=r"opt/venv/bin/pip3\.\d+",
        allowed=Allowed.EXTRA,
        reason="uv makes this launcher for pip whether or not the wheel lists it; ours are the wheel's",
    ),
    Known(
        path=rf"{_DIST_INFO}/RECORD",
        allowed=Allowed.RECORD,
        reason="lists INSTALLER and the launchers, which differ as said above; uv keeps the mode that the wheel's own "
        "RECORD has (protobuf's is executable), ours is always 0664",
    ),
)
_EXECUTABLE = 0o111
# Of RECORD, the rows of what is allowed to differ.
_ROWS = re.compile(r"[^/]+\.dist-info/INSTALLER|\.\./\.\./\.\./bin/[^/]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """What came of a comparison: how many paths, how often each known reason, and every other difference."""

    compared: int
    known: tuple[tuple[str, int], ...]
    differences: tuple[str, ...]


def contents_needed(path: str) -> bool:
    """Whether the comparison reads a file's text: launchers and RECORDs."""
    return any(
        re.fullmatch(known.path, path)
        for known in KNOWN
        if known.allowed in (Allowed.LAUNCHER, Allowed.RECORD)
    )


def compare_images(ours: FlatImage, theirs: FlatImage, *, our_config: bytes, their_config: bytes) -> Parity:
    """Hold Docker's tree and config against the assembler's."""
    paths = sorted({*ours.members, *theirs.members})
    reasons: Counter[str] = Counter()
    differences = list(_config_differences(our_config, their_config))
    for path in paths:
        if ours.members.get(path) == theirs.members.get(path):
            continue
        known = next((known for known in KNOWN if _is_known(known, path, ours, theirs)), None)
        if known is not None:
            reasons[known.reason] += 1
        else:
            differences.append(_described(path, ours.members.get(path), theirs.members.get(path)))
    return Parity(compared=len(paths), known=tuple(sorted(reasons.items())), differences=tuple(differences))


def _is_known(known: Known, path: str, ours: FlatImage, theirs: FlatImage) -> bool:
    if not re.fullmatch(known.path, path):
        return False
    our, their = ours.members.get(path), theirs.members.get(path)
    match known.allowed:
        case Allowed.MISSING:
            return our is not None and their is None
        case Allowed.EXTRA:
            return our is None and their is not None
    if our is None or their is None:
        return False
    if known.allowed is Allowed.RECORD:
        our = replace(our, mode=our.mode | _EXECUTABLE & their.mode)
    if _differing(our, their) != ["sha256"]:
        return False
    texts = ours.contents.get(path), theirs.contents.get(path)
    if texts[0] is None or texts[1] is None:
        return False
    read = _call if known.allowed is Allowed.LAUNCHER else _rows
    facts = read(texts[0]), read(texts[1])
    return facts[0] is not None and facts[0] == facts[1]


def _call(text: bytes) -> list[str] | None:
    """What a launcher runs, by which interpreter: its `#!` line, its one import and its call; None for others."""
    lines = [line.strip() for line in text.decode("utf-8", "replace").splitlines()]
    telling = [line for line in lines if line.startswith(("#!", "from ", "sys.exit("))]
    shape = [line.split(maxsplit=1)[0][:2] for line in telling]
    return telling if shape == ["#!", "fr", "sy"] else None


def _rows(text: bytes) -> list[list[str]]:
    """RECORD's rows in order of their paths, but for those of what may differ."""
    rows = csv.reader(io.StringIO(text.decode("utf-8", "replace")))
    return sorted(row for row in rows if row and not _ROWS.fullmatch(row[0]))


def _differing(ours: FlatMember, theirs: FlatMember) -> list[str]:
    return [
        each.name for each in fields(FlatMember) if getattr(ours, each.name) != getattr(theirs, each.name)
    ]


def _described(path: str, ours: FlatMember | None, theirs: FlatMember | None) -> str:
    """A difference in one line."""
    if ours is None or theirs is None:
        return f"/{path}: {'only in' if ours is None else 'not in'} Docker's image"
    changes = [
        f"{name} {_shown(name, ours)}, in Docker's image {_shown(name, theirs)}"
        for name in _differing(ours, theirs)
    ]
    return f"/{path}: {'; '.join(changes)}"


def _shown(name: str, member: FlatMember) -> str:
    value = getattr(member, name)
    return f"{value:04o}" if name == "mode" else str(value)


def _config_differences(ours: bytes, theirs: bytes) -> Iterator[str]:
    """How the two start a container: the same variables, words, user and labels, in whatever order."""
    one, other = json.loads(ours), json.loads(theirs)
    for name in ("os", "architecture"):
        if one.get(name) != other.get(name):
            yield f"config: {name} {one.get(name)}, in Docker's image {other.get(name)}"
    for name in PROCESS:
        left, right = one.get("config", {}).get(name), other.get("config", {}).get(name)
        if name == "Env":
            left, right = sorted(left or []), sorted(right or [])
        if left != right:
            yield f"config: {name} {left}, in Docker's image {right}"
