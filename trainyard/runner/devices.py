"""The accelerator of this host, as files: device nodes and the driver's own libraries.

The native runner puts both into the container itself. An engine is handed the nodes, and for NVIDIA asked to do it
all, since its toolkit brings the libraries along. Every other library comes with the image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

DRIVER_FOLDER = "/run/trainyard-driver"
_NODES = ("nvidia*", "nvidia-caps/*", "kfd", "dri/*")
_LIBRARY_FOLDERS = (
    "usr/lib/{multiarch}",
    "usr/lib64",
    "usr/local/nvidia/lib64",
    "usr/local/nvidia/lib",
    "usr/lib/wsl/lib",
)
_LIBRARIES = ("libcuda.so*", "libcudadebugger.so*", "libnvidia-*.so*")


@dataclass(frozen=True, slots=True)
class HostDevices:
    """Device nodes, and driver libraries by the name that programs load them under.

    `paravirtual`: WSL's /dev/dxg, through which its driver reaches whatever GPU there is.
    """

    nodes: tuple[Path, ...] = ()
    libraries: tuple[Path, ...] = ()
    paravirtual: bool = False

    @property
    def nvidia(self) -> tuple[Path, ...]:
        """NVIDIA's nodes."""
        return tuple(node for node in self.nodes if _is_nvidia(node))

    @property
    def others(self) -> tuple[Path, ...]:
        """/dev/kfd and /dev/dri: what AMD's and Intel's GPUs are used through."""
        return tuple(node for node in self.nodes if not _is_nvidia(node))

    def binds(self, *, host: Path = Path("/")) -> tuple[tuple[str, str], ...]:
        """(path here, path inside) of each: nodes under their own name, libraries in one folder in /run."""
        nodes = [(str(node), f"/{node.relative_to(host)}") for node in self.nodes]
        libraries = [(str(path.resolve()), f"{DRIVER_FOLDER}/{path.name}") for path in self.libraries]
        return (*nodes, *libraries)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineDevices:
    """What an engine is asked for: NVIDIA's GPUs by its toolkit, other nodes by path, and who may use them.

    `groups` are numbers: the image does not know this host's names.
    """

    nvidia: bool = False
    nodes: tuple[str, ...] = ()
    groups: tuple[int, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """For a report."""
        gpus = ("NVIDIA GPUs by the engine's toolkit",) if self.nvidia else ()
        return (*gpus, f"{len(self.nodes)} device nodes of this host") if self.nodes else gpus


def engine_devices(
    env: Iterable[tuple[str, str]],
    devices: HostDevices | None,
    *,
    toolkit: bool,
    group_of: Callable[[Path], int] = lambda node: node.stat().st_gid,
) -> EngineDevices:
    """What an image with this environment gets of the devices of the engine's host; `toolkit`: it has NVIDIA's.

    A toolkit alone is no GPU, and fails where there is none; None for a host that we cannot look at.
    """
    if devices is None:
        return EngineDevices(nvidia=wants_nvidia(env) and toolkit)
    gpu = bool(devices.nvidia) or (toolkit and devices.paravirtual)
    return EngineDevices(
        nvidia=wants_nvidia(env) and gpu,
        nodes=tuple(str(node) for node in devices.others),
        groups=tuple(sorted({group_of(node) for node in devices.others} - {0})),
    )


def wants_nvidia(env: Iterable[tuple[str, str]]) -> bool:
    """Whether NVIDIA's toolkit would serve an image with this environment."""
    return dict(env).get("NVIDIA_VISIBLE_DEVICES", "void") not in ("", "void", "none")


def find_devices(*, multiarch: str, host: Path = Path("/")) -> HostDevices:
    """What is here, sorted; the first library folder that has libcuda is the driver's."""
    nodes = tuple(
        sorted(path for pattern in _NODES for path in (host / "dev").glob(pattern) if not path.is_dir())
    )
    paravirtual = (host / "dev/dxg").exists()
    if not any(node.name.startswith("nvidia") for node in nodes):
        return HostDevices(nodes=nodes, paravirtual=paravirtual)
    for folder in _LIBRARY_FOLDERS:
        found = tuple(sorted(_libraries(host / folder.format(multiarch=multiarch))))
        if any(path.name.startswith("libcuda.so") for path in found):
            return HostDevices(nodes=nodes, libraries=found, paravirtual=paravirtual)
    return HostDevices(nodes=nodes, paravirtual=paravirtual)


def _is_nvidia(node: Path) -> bool:
    return node.name.startswith("nvidia") or "nvidia-caps" in node.parts


def _libraries(folder: Path) -> Iterator[Path]:
    for pattern in _LIBRARIES:
        yield from (path for path in folder.glob(pattern) if path.is_file())
