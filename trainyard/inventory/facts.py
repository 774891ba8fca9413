"""What an inventory says, as values. Nothing in them names a person, a host, an address or a serial number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["cuda", "rocm", "xpu", "mps"]
KINDS: tuple[Kind, ...] = ("cuda", "rocm", "xpu", "mps")


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One device: its product name, `architecture` as its maker counts (`9.0`, `gfx942`), memory in bytes."""

    kind: Kind
    name: str
    architecture: str = ""
    memory: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The kernel module that drives devices of a kind, or why there is none; `source` is where that was read.

    `version` is empty where the module comes with the kernel and has none of its own.
    """

    kind: Kind
    name: str
    version: str = ""
    source: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A program that runs containers here, or why it does not; `gpus`: it hands NVIDIA's devices on."""

    name: str
    version: str = ""
    gpus: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonEnvironment:
    """A Python, whose it is, and its wheels that have to do with torch: version by name."""

    whose: str
    version: str
    wheels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaPort:
    """A port of an RDMA device: `InfiniBand` or `Ethernet`, and state and rate in the kernel's words."""

    device: str
    port: int
    layer: str
    state: str
    rate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Nccl:
    """How the environment settles torch's NCCL: the backend, and the names of the variables that are set."""

    backend: Literal["rewritten", "legacy"]
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One machine. Sizes in bytes, None for what is not known or not limited (`memlock_unlimited`)."""

    platform: str
    os: str
    kernel: str = ""
    glibc: str = ""
    macos: str = ""
    pythons: tuple[PythonEnvironment, ...] = ()
    ways: tuple[Way, ...] = ()
    modules: tuple[str, ...] = ()
    drivers: tuple[Driver, ...] = ()
    accelerators: tuple[Accelerator, ...] = ()
    shm: int | None = None
    memlock: int | None = None
    memlock_unlimited: bool = False
    rdma: tuple[RdmaPort, ...] = ()
    nccl: Nccl = field(default_factory=lambda: Nccl(backend="rewritten"))
    notes: tuple[str, ...] = ()

    def driver(self, kind: str) -> Driver | None:
        """The driver of a kind of device, if anything is known of one."""
        return next((driver for driver in self.drivers if driver.kind == kind), None)

    def devices(self, kind: str) -> tuple[Accelerator, ...]:
        """The devices of a kind."""
        return tuple(device for device in self.accelerators if device.kind == kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFacts:
    """One built image, as it says itself; its checks hold that against what it is."""

    target: str
    platform: str
    digest: str
    accelerator: str
    toolkit: str
    os: str
    glibc: str
    python: PythonEnvironment
    nccl: Nccl
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """What stands between this host and a target: what, what is needed, what there is."""

    what: str
    needs: str
    found: str

    def __str__(self) -> str:
        return f"{self.what}: needs {self.needs}; {self.found}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether this host runs a target: `yes`, `cpu` (it starts, and finds no accelerator that it can use) or `no`."""

    target: str
    platforms: tuple[str, ...]
    runs: Literal["yes", "cpu", "no"]
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The whole document; `image` is None for an inventory of the host alone."""

    schema: Literal[1] = 1
    host: Host
    image: ImageFacts | None = None
    verdicts: tuple[Verdict, ...]
