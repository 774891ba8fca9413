"""What other programs and the kernel print, into values. Pure; text that cannot be read is nothing, not an error."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence

from trainyard.inventory.facts import Accelerator, Kind

# The columns that `nvidia-smi --query-gpu` is asked for; drivers before 510 know no compute_cap.
NVIDIA_COLUMNS: Sequence[str] = ("name", "driver_version", "memory.total", "compute_cap")
_MiB = 1 << 20
# PCI SIG class codes: VGA, 3D and other display controllers, processing accelerators.
_GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
_VENDORS: Mapping[str, Kind] = {"0x10de": "cuda", "0x1002": "rocm", "0x8086": "xpu"}
# What nvidia-smi says when it fails, and what it means.
_NVIDIA_FAILURES = (
    ("Driver/library version mismatch", "the driver was upgraded and its kernel module was not: reboot"),
    (
        "couldn't communicate with the NVIDIA driver",
        "nvidia-smi is here, and the kernel module is not loaded",
    ),
    ("No devices were found", "the driver finds no device"),
    ("Insufficient Permissions", "this user may not ask the driver"),
)
_MODULE_VERSION = re.compile(r"Kernel Module\b.*?\s(\d+\.\d+(?:\.\d+)?)\s")


def os_release(text: str) -> dict[str, str]:
    """os-release(5)."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip().strip("\"'") for name, _, value in pairs}


def sw_vers(text: str) -> str:
    """The version of macOS from `sw_vers`, e.g. `15.6.1`."""
    found = re.search(r"^ProductVersion:\s*(\d+(?:\.\d+)*)", text, re.MULTILINE)
    return found[1] if found else ""


def release(text: str) -> str:
    """The leading numbers of a version: `6.18.44-fc-v857` -> `6.18.44`."""
    found = re.match(r"\d+(?:\.\d+)*", text.strip())
    return found[0] if found else ""


def nvidia_smi(text: str, columns: Sequence[str] = NVIDIA_COLUMNS) -> tuple[str, tuple[Accelerator, ...]]:
    """Driver version and devices from `nvidia-smi --query-gpu=... --format=csv,noheader,nounits`."""
    version, devices = "", []
    for cells in csv.reader(io.StringIO(text), skipinitialspace=True):
        if len(cells) != len(columns):
            continue
        row = dict(zip(columns, (cell.strip() for cell in cells), strict=True))
        version = release(row["driver_version"]) or version
        devices.append(
            Accelerator(
                kind="cuda",
                name=row["name"],
                architecture=release(row.get("compute_cap", "")),
                # Of a Grace or Thor chip it says [N/A]: its memory is the machine's.
                memory=int(row["memory.total"]) * _MiB if row["memory.total"].isdecimal() else None,
            )
        )
    return version, tuple(devices)


def nvidia_failure(text: str) -> str:
    """Why nvidia-smi failed, in words of ours; empty if it says nothing known."""
    return next((meaning for said, meaning in _NVIDIA_FAILURES if said in text), "")


def nvidia_module(text: str) -> str:
    """The driver's version from /proc/driver/nvidia/version, of the open and the closed module."""
    found = _MODULE_VERSION.search(text)
    return found[1] if found else ""


def rocm_smi(text: str) -> tuple[str, tuple[Accelerator, ...]]:
    """Driver version and devices from `rocm-smi --showproductname --showdriverversion --showmeminfo vram --json`.

    Keys changed their case over the years; warnings may stand before the object.
    """
    document = _object(text)
    system = _folded(document.get("system"))
    devices = []
    for name in sorted(document, key=_natural):
        card = _folded(document[name])
        if not re.fullmatch(r"card\d+", name) or not card:
            continue
        memory = card.get("vram total memory (b)", "")
        devices.append(
            Accelerator(
                kind="rocm",
                name=card.get("card series")
                or card.get("device name")
                or card.get("card model")
                or "AMD GPU",
                architecture=card.get("gfx version", ""),
                memory=int(memory) if memory.isdecimal() else None,
            )
        )
    return system.get("driver version", ""), tuple(devices)


def kfd_node(text: str) -> str:
    """The gfx name of a KFD topology node's `properties`: `gfx_target_version 90402` -> `gfx942`; empty for a CPU."""
    found = re.search(r"^gfx_target_version (\d+)$", text, re.MULTILINE)
    number = int(found[1]) if found else 0
    if not number:
        return ""
    # Two decimal digits for each part, which the name writes in hexadecimal.
    return f"gfx{number // 10000}{number // 100 % 100:x}{number % 100:x}"


def xpu_smi(text: str) -> tuple[Accelerator, ...]:
    """Devices from `xpu-smi discovery -j`; virtual functions are not counted beside their device."""
    listed = _object(text).get("device_list")
    devices = []
    for item in listed if isinstance(listed, list) else []:
        fields = _folded(item)
        if fields.get("device_type", "GPU") != "GPU" or fields.get("device_function_type") == "virtual":
            continue
        memory = fields.get("memory_physical_size_byte", "")
        devices.append(
            Accelerator(
                kind="xpu",
                name=fields.get("device_name") or "Intel GPU",
                memory=int(memory) if memory.isdecimal() else None,
            )
        )
    return tuple(devices)


def pci_gpu(vendor: str, code: str) -> Kind | None:
    """The kind of GPU that a PCI device is, from sysfs's `vendor` and `class`; None for everything else."""
    return _VENDORS.get(vendor.strip()) if code.strip().startswith(_GPU_CLASSES) else None


def rdma_port(state: str, rate: str) -> tuple[str, str]:
    """The kernel's `4: ACTIVE` and `100 Gb/sec (4X EDR)` without what only the kernel needs."""
    return state.partition(": ")[2].strip() or state.strip(), rate.partition(" (")[0].strip()


def _object(text: str) -> dict[str, object]:
    """The JSON object in a text, after whatever a program says before it."""
    try:
        found = json.loads(text[text.index("{") :])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _folded(value: object) -> dict[str, str]:
    """The scalar fields of an object, by lower-case name."""
    fields = value.items() if isinstance(value, dict) else ()
    return {
        str(name).lower(): str(item).strip() for name, item in fields if not isinstance(item, (dict, list))
    }


def _natural(name: str) -> tuple[str, int]:
    digits = re.sub(r"\D", "", name)
    return re.sub(r"\d", "", name), int(digits or 0)
