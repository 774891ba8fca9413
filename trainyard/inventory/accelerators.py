"""The accelerators of a machine and what drives them: from their makers' tools, and without them from the kernel."""

from __future__ import annotations

import stat
from pathlib import Path

from trainyard.inventory.facts import Accelerator, Driver, Kind
from trainyard.inventory.machine import Machine
from trainyard.inventory.parse import (
    NVIDIA_COLUMNS,
    kfd_node,
    nvidia_failure,
    nvidia_module,
    nvidia_smi,
    pci_gpu,
    rocm_smi,
    xpu_smi,
)

# Modules that may hold a device of each kind, the one that torch needs first.
_MODULES: dict[Kind, tuple[str, ...]] = {
    "cuda": ("nvidia", "nouveau", "nova_core"),
    "rocm": ("amdgpu",),
    "xpu": ("xe", "i915"),
}
_CALLED = {"cuda": "NVIDIA", "rocm": "AMD", "xpu": "Intel"}
Found = tuple[tuple[Accelerator, ...], tuple[Driver, ...]]


def loaded_modules(machine: Machine) -> tuple[str, ...]:
    """Those kernel modules of GPUs that are loaded or built in."""
    return tuple(name for names in _MODULES.values() for name in names if machine.has(f"sys/module/{name}"))


def accelerators(machine: Machine, *, apple: bool) -> Found:
    """Every device and every driver; `apple` for macOS on Apple silicon, where Metal is the driver."""
    if apple:
        chip = machine.run("sysctl", "-n", "machdep.cpu.brand_string").out.strip()
        metal = Driver(kind="mps", name="Metal", source="macOS")
        return (Accelerator(kind="mps", name=chip or "Apple GPU"),), (metal,)
    found = [_nvidia(machine), _amd(machine), _intel(machine)]
    return (
        tuple(device for devices, _ in found for device in devices),
        tuple(driver for _, drivers in found for driver in drivers),
    )


def _nvidia(machine: Machine) -> Found:
    columns = NVIDIA_COLUMNS
    said = machine.run("nvidia-smi", f"--query-gpu={','.join(columns)}", "--format=csv,noheader,nounits")
    if "compute_cap" in said.out + said.err and said.rc:
        columns = NVIDIA_COLUMNS[:-1]
        said = machine.run("nvidia-smi", f"--query-gpu={','.join(columns)}", "--format=csv,noheader,nounits")
    version, devices = nvidia_smi(said.out, columns) if said.rc == 0 else ("", ())
    source = "nvidia-smi"
    problem = nvidia_failure(said.out + said.err)
    if not version:
        version, source = (
            nvidia_module(machine.text("proc/driver/nvidia/version") + " "),
            "/proc/driver/nvidia/version",
        )
    if not version:
        version, source = machine.text("sys/module/nvidia/version"), "/sys/module/nvidia/version"
    devices = devices or _on_the_bus(machine, "cuda")
    if version:
        return devices, (Driver(kind="cuda", name="nvidia", version=version, source=source, problem=problem),)
    if not devices and said.rc is None:
        return (), ()
    holder = _holder(machine, "cuda", "nvidia")
    problem = problem or (
        f"the module {holder} has the device" if holder else "the module nvidia is not loaded"
    )
    return devices, (Driver(kind="cuda", name="nvidia", problem=problem),)


def _amd(machine: Machine) -> Found:
    said = machine.run(
        "rocm-smi", "--showproductname", "--showdriverversion", "--showmeminfo", "vram", "--json"
    )
    version, devices = rocm_smi(said.out) if said.rc == 0 else ("", ())
    nodes = [kfd_node(machine.text(_below(machine, path))) for path in _kfd(machine)]
    families = [name for name in nodes if name]
    if len(devices) == len(families):
        # KFD's number is what the libraries were built for; rocm-smi rounds it on some devices.
        devices = tuple(
            Accelerator(kind="rocm", name=device.name, architecture=family, memory=device.memory)
            for device, family in zip(devices, families, strict=True)
        )
    if not devices:
        devices = tuple(Accelerator(kind="rocm", name="AMD GPU", architecture=name) for name in families)
    devices = devices or _on_the_bus(machine, "rocm")
    if not devices:
        return (), ()
    problem = ""
    if not machine.has("sys/module/amdgpu"):
        problem = "the module amdgpu is not loaded"
    elif not machine.has("dev/kfd"):
        problem = "there is no /dev/kfd: amdgpu has no compute driver in this kernel or container"
    elif closed := _closed(machine, machine.root / "dev/kfd"):
        problem = closed
    own = machine.text("sys/module/amdgpu/version") or version
    return devices, (
        Driver(kind="rocm", name="amdgpu", version=own, source="/sys/module/amdgpu", problem=problem),
    )


def _intel(machine: Machine) -> Found:
    said = machine.run("xpu-smi", "discovery", "-j")
    devices = xpu_smi(said.out) if said.rc == 0 else ()
    devices = devices or _on_the_bus(machine, "xpu")
    if not devices:
        return (), ()
    name = next((name for name in _MODULES["xpu"] if machine.has(f"sys/module/{name}")), "")
    if not name:
        return devices, (
            Driver(kind="xpu", name="xe", problem="neither of the modules xe and i915 is loaded"),
        )
    nodes = [
        machine.root / "dev/dri" / path.parents[1].name
        for path in machine.paths("sys/class/drm/renderD*/device/vendor")
        if machine.text(_below(machine, path)) == "0x8086"
    ]
    problem = ""
    if not any(node.exists() for node in nodes):
        problem = "there is no render node of it in /dev/dri"
    elif all((closed := _closed(machine, node)) for node in nodes):
        problem = closed
    version = machine.text(f"sys/module/{name}/version")
    return devices, (
        Driver(kind="xpu", name=name, version=version, source=f"/sys/module/{name}", problem=problem),
    )


def _kfd(machine: Machine) -> list[Path]:
    return machine.paths("sys/class/kfd/kfd/topology/nodes/*/properties")


def _closed(machine: Machine, node: Path) -> str:
    """Why this user cannot open a device node; empty if it can."""
    if machine.opens(node):
        return ""
    try:
        status = node.stat()
    except OSError:
        return f"/{node.relative_to(machine.root)} cannot be reached"
    return (
        f"this user may not open /{node.relative_to(machine.root)}: mode {stat.S_IMODE(status.st_mode):04o}, "
        f"group {status.st_gid}; join that group, or give it to the container (--group-add {status.st_gid})"
    )


def _on_the_bus(machine: Machine, kind: Kind) -> tuple[Accelerator, ...]:
    """Devices that only the PCI bus knows of."""
    found = []
    for vendor in machine.paths("sys/bus/pci/devices/*/vendor"):
        folder = vendor.parent
        code = machine.text(_below(machine, folder / "class"))
        if pci_gpu(machine.text(_below(machine, vendor)), code) == kind:
            number = machine.text(_below(machine, folder / "device"))
            found.append(Accelerator(kind=kind, name=f"{_CALLED[kind]} device {number}"))
    return tuple(found)


def _holder(machine: Machine, kind: Kind, wanted: str) -> str:
    """Another module than the wanted one that drives a device of that kind."""
    for vendor in machine.paths("sys/bus/pci/devices/*/vendor"):
        folder, driver = vendor.parent, vendor.parent / "driver"
        code = machine.text(_below(machine, folder / "class"))
        if pci_gpu(machine.text(_below(machine, vendor)), code) == kind and driver.is_symlink():
            name = driver.readlink().name
            if name != wanted:
                return name
    return ""


def _below(machine: Machine, path: Path) -> str:
    return str(path.relative_to(machine.root))
