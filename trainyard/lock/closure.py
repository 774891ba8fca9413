"""Whether a lock is closed: every dependency that applies is locked, and nothing is locked that nobody wants.

Read from the wheels' own metadata with packaging, for any platform on any host.
"""

from __future__ import annotations

import zipfile
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.parser import BytesHeaderParser

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from trainyard.errors import InputError
from trainyard.lock.environment import environment_of
from trainyard.lock.model import LockedWheel, WheelLock
from trainyard.matrix.model import Target
from trainyard.store import Store

_LARGEST = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelNeeds:
    """Requires-Dist and Requires-Python of one wheel (core metadata specification)."""

    requires: tuple[Requirement, ...]
    python: SpecifierSet


Needs = Callable[[LockedWheel], WheelNeeds]


def needs_in(store: Store) -> Needs:
    """Reads the metadata of wheels in the store; InputError naming the wheel that has none that is right."""

    def needs(wheel: LockedWheel) -> WheelNeeds:
        try:
            with zipfile.ZipFile(store.input(wheel.sha256)) as archive:
                return parse_needs(_metadata(archive))
        except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError) as error:
            raise InputError(
                f"{wheel.name} {wheel.version}: {wheel.filename} has no readable METADATA: {error}",
                hint="`invoke clean --inputs` and run it again; if it stays so, the wheel is broken",
            ) from None

    return needs


def parse_needs(metadata: bytes) -> WheelNeeds:
    """What a METADATA file asks for; ValueError when that is not readable."""
    headers = BytesHeaderParser().parsebytes(metadata)
    try:
        return WheelNeeds(
            requires=tuple(Requirement(str(text)) for text in headers.get_all("Requires-Dist", [])),
            python=SpecifierSet(str(headers.get("Requires-Python", ""))),
        )
    except (InvalidRequirement, InvalidSpecifier) as error:
        raise ValueError(str(error)) from None


def closure_problems(target: Target, lock: WheelLock, needs: Needs) -> tuple[str, ...]:
    """Every way in which the lock is not exactly what its requirements and its wheels' metadata ask for."""
    environment = environment_of(target, lock.platform)
    overrides = {canonicalize_name(one.name): one for one in map(Requirement, target.overrides)}
    problems: dict[str, None] = {}
    reached: dict[tuple[str, str], None] = {}
    waiting: deque[tuple[str, Requirement, str]] = deque(
        ("matrix.yaml", Requirement(text), "") for text in target.requirements
    )
    while waiting:
        origin, requirement, extra = waiting.popleft()
        if not environment.holds(requirement.marker, extra=extra):
            continue
        requirement = overrides.get(canonicalize_name(requirement.name), requirement)
        wheel = lock.wheel(requirement.name)
        if wheel is None:
            problems[f"{origin} needs {requirement}, and it is not locked"] = None
            continue
        if not requirement.specifier.contains(wheel.version, prereleases=True):
            problems[f"{origin} needs {requirement}, and {wheel.version} is locked"] = None
        # "" stands for the package itself: what it needs without any extra.
        for wanted in ("", *sorted(requirement.extras)):
            if (wheel.name, wanted) not in reached:
                reached[wheel.name, wanted] = None
                waiting.extend((wheel.name, one, wanted) for one in needs(wheel).requires)
    names = {name for name, _ in reached}
    problems |= dict.fromkeys(_python_problems(lock, needs, environment.markers()["python_full_version"]))
    return (*problems, *(f"nothing needs {wheel.name}" for wheel in lock.wheels if wheel.name not in names))


def _python_problems(lock: WheelLock, needs: Needs, python: str) -> Sequence[str]:
    return [
        f"{wheel.name} {wheel.version} needs Python {wanted}, and the image has {lock.python}"
        for wheel in lock.wheels
        if not (wanted := needs(wheel).python).contains(python)
    ]


def _metadata(archive: zipfile.ZipFile) -> bytes:
    """METADATA of the one .dist-info folder."""
    names = [
        name for name in archive.namelist() if name.endswith(".dist-info/METADATA") and name.count("/") == 1
    ]
    if len(names) != 1:
        raise ValueError(f"{len(names)} .dist-info folders with METADATA")
    if archive.getinfo(names[0]).file_size > _LARGEST:
        raise ValueError(f"METADATA of more than {_LARGEST} bytes")
    return archive.read(names[0])
