"""The nouns of matrix.yaml. Frozen; unknown keys are refused; cross-references are checked by `load`."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from trainyard.platforms import Platform

Accelerator = Literal["cuda", "rocm", "xpu", "mps", "cpu"]
PythonVersion = Annotated[str, StringConstraints(pattern=r"^3\.(1[1-9]|[2-9]\d)$")]
DebianName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.+-]+$")]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
# Normalised as PEP 503 has it.
PackageName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]


def _requirement(text: str) -> str:
    try:
        Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(f"not a requirement (PEP 508): {error}") from None
    if re.search(r"\s@\s", text):
        raise ValueError("a direct URL cannot be locked; name a version")
    return text


def _platform(text: str) -> str:
    try:
        Platform.parse(text)
    except ValueError as error:
        raise ValueError(f"{error}; known are linux/amd64, linux/arm64, darwin/arm64") from None
    return text


def _index_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.username or parts.password:
        raise ValueError("a password here would end in git; put it in netrc")
    loopback = parts.hostname in ("127.0.0.1", "::1", "localhost")
    if not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and loopback)):
        raise ValueError("an index is an https:// URL")
    return text


IndexUrl = Annotated[str, AfterValidator(_index_url)]
RequirementText = Annotated[str, AfterValidator(_requirement)]
PlatformText = Annotated[str, AfterValidator(_platform)]


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Base(_Frozen):
    """A Debian suite, the Python that it brings, and the packages that are asked for."""

    suite: Name
    python: PythonVersion
    packages: list[DebianName] = Field(min_length=1)
    # Parent of `debian/` and `debian-security/`; by default what the host's own apt sources name.
    mirror: str | None = None
    # Parent of `debian/<time>/`: what apt inside the image uses, and where vanished debs are found.
    snapshot: str
    allow_expired: bool = Field(
        default=False,
        description=(
            "Lock the base although its Release files are past their Valid-Until. That date keeps a mirror from "
            "holding back updates for ever, so say true only for a suite whose mirror lags for a known reason: "
            "the Release files of a testing suite are good for a week. The signature is checked all the same, a "
            "Release older than the locked one is refused, and the lock's header records what was accepted."
        ),
    )


class Index(_Frozen):
    """A package index beside the default one (PEP 503 or 691); only the packages that a target names come from it."""

    url: IndexUrl
    # Whether its pages say when a file was uploaded (PEP 700): without, a cut-off date cannot hold it.
    dated: bool = True


class Requires(_Frozen):
    """What the host must have: version specifiers (PEP 440), and kernel modules."""

    driver: str | None = None
    kernel: str | None = None
    glibc: str | None = None
    macos: str | None = None
    # NVIDIA's: what the kernels of the wheels are compiled for.
    compute_capability: str | None = None
    # Kernel modules, any one of which drives the accelerator.
    modules: list[Name] | None = Field(default=None, min_length=1)


class TargetSpec(_Frozen):
    """One accelerator choice as written in matrix.yaml."""

    title: str
    accelerator: Accelerator
    toolkit: str
    # A target on Linux has a base, which brings its Python; one on macOS says its Python itself.
    base: Name | None = None
    python: PythonVersion | None = None
    platforms: list[PlatformText] = Field(min_length=1)
    sets: list[Name] = Field(min_length=1)
    # Where `companions` come from, and from nowhere else; all other packages are the default index's.
    index: Name | None = None
    companions: list[PackageName] = []
    # ROCm: the GPU families whose libraries are in the image, e.g. gfx942.
    families: list[Name] = []
    requires: Requires = Requires()
    env: dict[str, str] = {}


class Defaults(_Frozen):
    """What a command means when it is not told."""

    target: Name


class Matrix(_Frozen):
    """The whole file."""

    format: Literal[1]
    defaults: Defaults
    bases: dict[Name, Base] = Field(min_length=1)
    indexes: dict[Name, Index] = {}
    sets: dict[Name, list[RequirementText]] = Field(min_length=1)
    targets: dict[Name, TargetSpec] = Field(min_length=1)

    def target(self, name: str) -> Target:
        """The target with its base and requirements filled in; KeyError if there is none."""
        spec = self.targets[name]
        lines = [line for name in spec.sets for line in self.sets[name]]
        return Target(
            name=name,
            title=spec.title,
            accelerator=spec.accelerator,
            toolkit=spec.toolkit,
            base_name=spec.base,
            base=self.bases[spec.base] if spec.base is not None else None,
            stated_python=spec.python,
            platforms=tuple(Platform.parse(text) for text in spec.platforms),
            requirements=tuple(dict.fromkeys([*lines, *_rocm(spec)])),
            overrides=_rocm(spec),
            index_name=spec.index,
            index=self.indexes[spec.index] if spec.index is not None else None,
            companions=(*spec.companions, *(f"rocm-sdk-device-{family}" for family in spec.families)),
            families=tuple(spec.families),
            requires=spec.requires,
            env=tuple(sorted(spec.env.items())),
        )


class Target(_Frozen):
    """One accelerator choice with every reference resolved; what locks and plans are made from."""

    name: str
    title: str
    accelerator: Accelerator
    toolkit: str
    # None for a target on macOS, which states its Python itself.
    base_name: str | None
    base: Base | None
    stated_python: str | None = None
    platforms: tuple[Platform, ...]
    requirements: tuple[str, ...]
    # What replaces every other requirement of the same package, whoever has it.
    overrides: tuple[str, ...] = ()
    index_name: str | None = None
    index: Index | None = None
    companions: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    requires: Requires
    env: tuple[tuple[str, str], ...]

    @property
    def python(self) -> str:
        """The Python of its images, e.g. `3.13`: its base's, or the stated one."""
        python = self.base.python if self.base is not None else self.stated_python
        assert python is not None, "load_matrix checks it"
        return python

    @property
    def debian(self) -> tuple[str, Base]:
        """Name and content of the base; AssertionError for a target that has none, as on macOS."""
        assert self.base_name is not None
        assert self.base is not None
        return self.base_name, self.base


def _rocm(spec: TargetSpec) -> tuple[str, ...]:
    """ROCm with the device libraries of the target's GPU families, where torch itself asks for all families."""
    if not spec.families:
        return ()
    devices = ",".join(f"device-{family}" for family in spec.families)
    return (f"rocm[libraries,{devices}]=={spec.toolkit}.*",)
