"""FSDP2 with one rank for each device: bf16 weights, a norm in fp32, gradients as on one process."""

from __future__ import annotations

from _devices import BACKENDS, device_count, need_device
from _lib import Skip, need_torch
from _ranks import run_ranks

NEEDS = ("device",)
LIMIT = 200
# The widths of the model are divisible by these.
WORLDS = (4, 2, 1)


def run(claims: dict) -> dict:
    kind = need_device(claims, since=(2, 15))
    if kind == "mps":
        raise Skip("needs a backend for its device: Metal has none")
    count = device_count(need_torch(claims), kind)
    world = next(world for world in WORLDS if world <= count)
    return {"ranks": run_ranks(world, "fsdp2.py", backend=BACKENDS[claims["accelerator"]], device=kind)}
