"""The accelerator of this host, as files: device nodes and the driver's own libraries.

A container engine with a vendor's toolkit puts these into a container; the native runner does so itself. All
other libraries come with the image.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    """Device nodes, and driver libraries by the name that programs load them under."""

    nodes: tuple[Path, ...] = ()
    libraries: tuple[Path, ...] = ()

    def binds(self, *, host: Path = Path("/")) -> tuple[tuple[str, str], ...]:
        """(path here, path inside) of each: nodes under their own name, libraries in one folder in /run."""
        nodes = [(str(node), f"/{node.relative_to(host)}") for node in self.nodes]
        libraries = [(str(path.resolve()), f"{DRIVER_FOLDER}/{path.name}") for path in self.libraries]
        return (*nodes, *libraries)


def find_devices(*, multiarch: str, host: Path = Path("/")) -> HostDevices:
    """What is here, sorted; the first library folder that has libcuda is the driver's."""
    nodes = sorted(path for pattern in _NODES for path in (host / "dev").glob(pattern) if not path.is_dir())
    if not any(node.name.startswith("nvidia") for node in nodes):
        return HostDevices(nodes=tuple(nodes))
    for folder in _LIBRARY_FOLDERS:
        found = tuple(sorted(_libraries(host / folder.format(multiarch=multiarch))))
        if any(path.name.startswith("libcuda.so") for path in found):
            return HostDevices(nodes=tuple(nodes), libraries=found)
    return HostDevices(nodes=tuple(nodes))


def _libraries(folder: Path) -> Iterator[Path]:
    for pattern in _LIBRARIES:
        yield from (path for path in folder.glob(pattern) if path.is_file())
