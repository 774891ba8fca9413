"""Gradient accumulation captured as a CUDA graph and replayed gives the gradients of eager mode."""

from __future__ import annotations

from _accumulate import MICROBATCHES, accumulate, replay
from _devices import need_device
from _lib import close, need_torch

NEEDS = ("device",)
TOLERANCE = 1e-4


def run(claims: dict) -> dict:
    kind = need_device(claims, "cuda", "rocm")
    torch = need_torch(claims)
    wanted, found = accumulate(torch, "cpu"), replay(torch, kind)
    errors = [
        close(f"gradient {number}", one, other, tolerance=TOLERANCE)
        for number, (one, other) in enumerate(zip(found, wanted, strict=True))
    ]
    return {"microbatches": MICROBATCHES, "errors": errors}
