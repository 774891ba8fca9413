"""On a device that has NVFP4, products of 4-bit matrices agree with the exact product of the same numbers."""

from __future__ import annotations

from _devices import device_name, need_device
from _lib import Skip, need_torch
from _low_precision import nvfp4

NEEDS = ("device",)
SINCE = (10, 0)  # Blackwell


def run(claims: dict) -> dict:
    kind = need_device(claims, "cuda", since=(2, 15))
    torch = need_torch(claims)
    capability = torch.cuda.get_device_capability()
    if capability < SINCE:
        raise Skip(
            f"needs an NVIDIA GPU with NVFP4, of compute capability 10.0 or later; this is {capability}"
        )
    return {"device": device_name(torch, kind), "errors": nvfp4(torch, kind)}
