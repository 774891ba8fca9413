"""The accelerator that an image claims: whether its device is here, and usable."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import NoReturn

from _lib import Skip, fail, need_torch

# torch's name of each accelerator's device type
DEVICE_TYPES = {"cuda": "cuda", "rocm": "cuda", "xpu": "xpu", "mps": "mps"}
BACKENDS = {"cuda": "nccl", "rocm": "nccl", "xpu": "xccl", "mps": "gloo"}


def need_device(claims: dict, *accelerators: str, since: tuple[int, int] = (0, 0)) -> str:
    """The device type of the claimed accelerator, usable here; `accelerators` are those the check is about.

    Skip where there is none; a device that is here and does not work is a failure.
    """
    accelerator = claims["accelerator"]
    wanted = accelerators or tuple(DEVICE_TYPES)
    if accelerator not in wanted:
        raise Skip(f"needs an image for {' or '.join(wanted)}, this one is for {accelerator}")
    present, needs = device_files(accelerator)
    if not present:
        raise Skip(f"needs {needs}")
    torch = need_torch(claims, since=since)
    kind = DEVICE_TYPES[accelerator]
    usable = torch.backends.mps.is_available() if kind == "mps" else getattr(torch, kind).is_available()
    if not usable:
        why_not(torch, kind, present)
    return kind


def why_not(torch, kind: str, present: list[str]) -> NoReturn:
    """Fail with what torch says about a device that is here and that it does not use."""
    try:
        torch.zeros(1, device=kind)
    except Exception as error:
        fail(f"{', '.join(present)} is here, but torch cannot use it: {error}", devices=present)
    fail(f"{', '.join(present)} is here, and torch says that it is not available", devices=present)


def device_name(torch, kind: str) -> str:
    """What the driver calls the device."""
    return torch._C._mps_get_name() if kind == "mps" else getattr(torch, kind).get_device_name()


def device_count(torch, kind: str) -> int:
    """How many there are."""
    return torch.accelerator.device_count()


def device_files(accelerator: str) -> tuple[list[str], str]:
    """The device nodes of that accelerator here, and in words what would have to be."""
    if accelerator == "cuda":
        nodes = sorted(str(node) for name in ("nvidia[0-9]*", "dxg") for node in Path("/dev").glob(name))
        return nodes, "an NVIDIA GPU: no /dev/nvidia0 in this container" + _driver()
    if accelerator == "rocm":
        return [
            node for node in ("/dev/kfd",) if Path(node).exists()
        ], "an AMD GPU: no /dev/kfd in this container"
    if accelerator == "xpu":
        cards = [
            path.parents[1] for path in Path("/sys/class/drm").glob("renderD*/device/vendor") if _intel(path)
        ]
        nodes = [f"/dev/dri/{card.name}" for card in cards if Path("/dev/dri", card.name).exists()]
        return sorted(nodes), "an Intel GPU: no render node of one in /dev/dri of this container"
    mac = sys.platform == "darwin"
    return ["Metal"] if mac else [], "macOS on Apple silicon: Metal never reaches a container"


def _driver() -> str:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ", and no libcuda.so.1 from its driver"
    return ""


def _intel(vendor: Path) -> bool:
    try:
        return vendor.read_text().strip() == "0x8086"
    except OSError:
        return False
