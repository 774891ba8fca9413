"""The Python environment of an image as packaging sees it: which wheels fit it, which markers hold in it.

Computed, never asked of the host: an amd64 host with Python 3.11 locks for arm64 and 3.13.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from packaging.markers import Environment, Marker
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags, mac_platforms
from packaging.version import Version

from trainyard.digest import canonical_json, sha256_hex
from trainyard.lock.model import FORMAT, WheelLock
from trainyard.matrix.model import Target
from trainyard.platforms import Platform

DEFAULT_INDEX = "default"
# glibc of Debian's suites; a suite that is not named is newer than the last.
_GLIBC = {"bookworm": (2, 36), "trixie": (2, 41), "forky": (2, 43)}
_NEWEST_GLIBC = (2, 43)
_NEWEST_MACOS = (26, 0)
_OLDEST_MACOS = (15, 0)
_UV_NEWEST_MANYLINUX = 40  # `uv pip compile --help`, --python-platform
_OLDEST_MANYLINUX = {"amd64": 5, "arm64": 17}
# PEP 600: the names that manylinux had before it was numbered by glibc.
_LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelEnvironment:
    """`python` is `3.13`; `system` the (major, minor) of glibc on Linux, of macOS on darwin."""

    python: str
    platform: Platform
    system: tuple[int, int]

    @property
    def is_linux(self) -> bool:
        """Linux, or else macOS."""
        return self.platform.os == "linux"

    @property
    def uv_platform(self) -> str:
        """What `uv pip compile --python-platform` calls it."""
        if not self.is_linux:
            return "aarch64-apple-darwin"
        return f"{self.platform.machine}-manylinux_2_{min(self.system[1], _UV_NEWEST_MANYLINUX)}"

    @property
    def macos(self) -> str | None:
        """`15.0` on macOS: MACOSX_DEPLOYMENT_TARGET."""
        return None if self.is_linux else f"{self.system[0]}.{self.system[1]}"

    def tags(self) -> tuple[Tag, ...]:
        """All tags of wheels that fit, best first, in the order that pip prefers them."""
        major, minor = map(int, self.python.split("."))
        interpreter = f"cp{major}{minor}"
        platforms = list(self._platform_tags())
        return (
            *cpython_tags((major, minor), abis=[interpreter], platforms=platforms),
            *compatible_tags((major, minor), interpreter=interpreter, platforms=platforms),
        )

    def markers(self) -> Environment:
        """The marker variables (PEP 508), with x.y.0 as the full version, as uv has it."""
        return Environment(
            implementation_name="cpython",
            implementation_version=f"{self.python}.0",
            os_name="posix",
            platform_machine=self.platform.machine if self.is_linux else self.platform.arch,
            platform_python_implementation="CPython",
            platform_release="",
            platform_system="Linux" if self.is_linux else "Darwin",
            platform_version="",
            python_full_version=f"{self.python}.0",
            python_version=self.python,
            sys_platform=self.platform.os,
        )

    def holds(self, marker: Marker | None, *, extra: str = "") -> bool:
        """Whether a requirement with that marker applies here, asked for through `extra` or directly."""
        variables = {name: str(value) for name, value in self.markers().items()}
        return marker is None or marker.evaluate({**variables, "extra": extra})

    def _platform_tags(self) -> Iterator[str]:
        if not self.is_linux:
            yield from mac_platforms(self.system, self.platform.arch)
            return
        for minor in range(self.system[1], _OLDEST_MANYLINUX[self.platform.arch] - 1, -1):
            yield f"manylinux_2_{minor}_{self.platform.machine}"
            if minor in _LEGACY:
                yield f"{_LEGACY[minor]}_{self.platform.machine}"
        yield f"linux_{self.platform.machine}"


def environment_of(target: Target, platform: Platform) -> WheelEnvironment:
    """The environment of a target's image: its base's Python and glibc, or the oldest macOS it allows."""
    if platform.os == "linux":
        system = _GLIBC.get(target.debian[1].suite, _NEWEST_GLIBC)
    else:
        system = _oldest_macos(target.requires.macos)
    return WheelEnvironment(python=target.python, platform=platform, system=system)


def widest_environment(lock: WheelLock) -> WheelEnvironment:
    """An environment that every wheel of this lock fits: to find locked wheels, not to choose wheels."""
    system = _NEWEST_GLIBC if lock.platform.os == "linux" else _NEWEST_MACOS
    return WheelEnvironment(python=lock.python, platform=lock.platform, system=system)


def index_label(target: Target) -> str:
    """`default`, or `default, cu134`: the indexes that a target's lock is made from, never their URLs."""
    return DEFAULT_INDEX if target.index_name is None else f"{DEFAULT_INDEX}, {target.index_name}"


def wheel_inputs(target: Target, platform: Platform) -> str:
    """sha256 hex over everything in matrix.yaml that a wheel lock is resolved from."""
    environment = environment_of(target, platform)
    inputs: dict[str, object] = {
        "format": FORMAT,
        "index": index_label(target),
        "platform": str(platform),
        "python": environment.python,
        "requirements": sorted(set(target.requirements)),
        "system": list(environment.system),
    }
    # Only where there are some: a target without them keeps the digest that it had before they existed.
    if target.companions:
        inputs["companions"] = sorted(set(target.companions))
    if target.overrides:
        inputs["overrides"] = sorted(set(target.overrides))
    return sha256_hex(canonical_json(inputs))


def _oldest_macos(requires: str | None) -> tuple[int, int]:
    """The lower bound of a specifier such as `>=15`."""
    floors = [
        Version(spec.version) for spec in SpecifierSet(requires or "") if spec.operator in (">=", "~=", "==")
    ]
    if not floors:
        return _OLDEST_MACOS
    return max(floors).major, max(floors).minor
