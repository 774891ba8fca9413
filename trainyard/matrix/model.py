"""The nouns of matrix.yaml. Frozen; unknown keys are refused; cross-references are checked by `load`."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from packaging.requirements import InvalidRequirement, Requirement
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from trainyard.platforms import Platform

Accelerator = Literal["cuda", "rocm", "xpu", "mps", "cpu"]
PythonVersion = Annotated[str, StringConstraints(pattern=r"^3\.(1[1-9]|[2-9]\d)$")]
DebianName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.+-]+$")]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$")]


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


class Requires(_Frozen):
    """What the host must have; version specifiers (PEP 440)."""

    driver: str | None = None
    kernel: str | None = None
    macos: str | None = None


class TargetSpec(_Frozen):
    """One accelerator choice as written in matrix.yaml."""

    title: str
    accelerator: Accelerator
    toolkit: str
    base: Name
    platforms: list[PlatformText] = Field(min_length=1)
    sets: list[Name] = Field(min_length=1)
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
    sets: dict[Name, list[RequirementText]] = Field(min_length=1)
    targets: dict[Name, TargetSpec] = Field(min_length=1)

    def target(self, name: str) -> Target:
        """The target with its base and requirements filled in; KeyError if there is none."""
        spec = self.targets[name]
        return Target(
            name=name,
            title=spec.title,
            accelerator=spec.accelerator,
            toolkit=spec.toolkit,
            base_name=spec.base,
            base=self.bases[spec.base],
            platforms=tuple(Platform.parse(text) for text in spec.platforms),
            requirements=tuple(dict.fromkeys(line for name in spec.sets for line in self.sets[name])),
            requires=spec.requires,
            env=tuple(sorted(spec.env.items())),
        )


class Target(_Frozen):
    """One accelerator choice with every reference resolved; what locks and plans are made from."""

    name: str
    title: str
    accelerator: Accelerator
    toolkit: str
    base_name: str
    base: Base
    platforms: tuple[Platform, ...]
    requirements: tuple[str, ...]
    requires: Requires
    env: tuple[tuple[str, str], ...]
