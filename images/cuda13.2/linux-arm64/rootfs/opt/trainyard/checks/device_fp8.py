"""On a device that has FP8, products of float8 matrices agree with the exact product of the same numbers."""

from __future__ import annotations

from _devices import device_name, need_device
from _lib import Skip, need_torch
from _low_precision import fp8

NEEDS = ("device",)
# Ada is 8.9, Hopper 9.0.
SINCE = (8, 9)
# AMD's MI300 (gfx94) has its own encoding of FP8, later ones the standard one.
AMD = {"gfx94": "float8_e4m3fnuz", "gfx95": "float8_e4m3fn", "gfx12": "float8_e4m3fn"}
E4M3, E5M2 = "float8_e4m3fn", "float8_e5m2"


def run(claims: dict) -> dict:
    kind = need_device(claims, since=(2, 15))
    torch = need_torch(claims)
    return {
        "device": device_name(torch, kind),
        "errors": fp8(torch, kind, formats(torch, claims["accelerator"])),
    }


def formats(torch, accelerator: str) -> list[tuple[str, str]]:
    """The pairs that this device multiplies; Skip where it has no FP8."""
    if accelerator == "mps":
        return [(E4M3, E4M3)]
    if accelerator == "xpu":
        return [(E4M3, E4M3), (E5M2, E4M3)]
    if accelerator == "rocm":
        name = torch.cuda.get_device_properties(0).gcnArchName
        for family, dtype in AMD.items():
            if name.startswith(family):
                return [(dtype, dtype)]
        raise Skip(f"needs an AMD GPU with FP8 ({', '.join(AMD)}), this is {name}")
    capability = torch.cuda.get_device_capability()
    if capability < SINCE:
        raise Skip(f"needs an NVIDIA GPU with FP8, of compute capability 8.9 or later; this is {capability}")
    return [(E4M3, E4M3), (E5M2, E4M3)]
