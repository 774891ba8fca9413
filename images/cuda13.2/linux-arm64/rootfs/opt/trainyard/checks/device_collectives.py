"""The accelerator's own backend gives exactly the right values, with one rank for each device (8 at most)."""

from __future__ import annotations

from _lib import BACKENDS, Skip, need_device, need_torch, run_ranks

NEEDS = ("device",)
LIMIT = 240


def run(claims: dict) -> dict:
    kind = need_device(claims)
    backend = BACKENDS[claims["accelerator"]]
    if kind == "mps":
        raise Skip("needs a backend for its device: Metal has none")
    torch = need_torch(claims)
    world = min(getattr(torch, kind).device_count(), 8)
    return {"devices": world, "ranks": run_ranks(world, backend=backend, device=kind, limit=200)}
