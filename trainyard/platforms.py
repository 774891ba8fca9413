"""Platforms by their OCI name, and what Debian, the kernel and wheel tags call them."""

from __future__ import annotations

from dataclasses import dataclass

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_OCI_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True, order=True, slots=True)
class Platform:
    """One `os/architecture` pair, e.g. `linux/amd64` (OCI image index, platform)."""

    os: str
    arch: str

    @classmethod
    def parse(cls, text: str) -> Platform:
        """`linux/amd64` -> Platform; ValueError for anything that is not one of ours."""
        os, _, arch = text.partition("/")
        if os not in ("linux", "darwin") or arch not in _MACHINES:
            raise ValueError(f"unknown platform {text!r}")
        return cls(os, arch)

    @classmethod
    def of_machine(cls, system: str, machine: str) -> Platform | None:
        """The platform of a host, from `platform.system()` and `platform.machine()`; None if not ours."""
        arch = _OCI_ARCHITECTURES.get(machine.lower())
        if system not in ("Linux", "Darwin") or arch is None:
            return None
        return cls(system.lower(), arch)

    @property
    def machine(self) -> str:
        """What `uname -m` says on Linux: `x86_64` or `aarch64`; Debian's own name is `arch`."""
        return _MACHINES[self.arch]

    @property
    def multiarch(self) -> str:
        """Debian's multiarch triplet, e.g. `x86_64-linux-gnu`."""
        return f"{self.machine}-linux-gnu"

    @property
    def slug(self) -> str:
        """The name in file names: `linux-amd64`."""
        return f"{self.os}-{self.arch}"

    def __str__(self) -> str:
        return f"{self.os}/{self.arch}"
