"""The accelerator's own backends give exactly the right values, with one rank and with one for each device."""

from __future__ import annotations

from _devices import BACKENDS, device_count, need_device
from _lib import Skip, locked, need_torch, release, same
from _ranks import run_ranks

NEEDS = ("device",)
LIMIT = 500
MOST = 8
# torch 2.15: what each name must be, whatever TORCH_DIST_USE_NCCL2 makes of `nccl` itself
IMPLEMENTATIONS = {"nccl2": "ProcessGroupNCCL2", "nccl-legacy": "ProcessGroupNCCL"}


def run(claims: dict) -> dict:
    kind = need_device(claims)
    if kind == "mps":
        raise Skip("needs a backend for its device: Metal has none")
    torch = need_torch(claims)
    count = min(device_count(torch, kind), MOST)
    backends = [BACKENDS[claims["accelerator"]]]
    if claims["accelerator"] == "cuda" and release(locked(claims, "torch"))[:2] >= (2, 15):
        backends += IMPLEMENTATIONS
    evidence: dict = {"devices": count}
    for backend in backends:
        for world in sorted({1, count}):
            ranks = run_ranks(world, "_collectives.py", backend=backend, device=kind)
            if backend in IMPLEMENTATIONS:
                same(f"`{backend}`", ranks[0]["implementation"], IMPLEMENTATIONS[backend])
            evidence[f"{backend}, ranks of {world}"] = ranks
    return evidence
