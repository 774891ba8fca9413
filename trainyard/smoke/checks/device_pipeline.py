"""A pipeline of two stages on two devices (1F1B): loss and gradients are those of the whole model."""

from __future__ import annotations

from _devices import BACKENDS, device_count, need_device
from _lib import Skip, need_torch
from _ranks import run_ranks

NEEDS = ("device",)
LIMIT = 200


def run(claims: dict) -> dict:
    kind = need_device(claims, since=(2, 15))
    if kind == "mps":
        raise Skip("needs a backend for its device: Metal has none")
    if device_count(need_torch(claims), kind) < 2:
        raise Skip("needs two devices, there is one")
    backend = BACKENDS[claims["accelerator"]]
    return {"ranks": run_ranks(2, "pipeline_schedule.py", backend=backend, device=kind)}
