"""Two gloo ranks: all_reduce, all_gather, broadcast, reduce_scatter and barrier give the right values."""

from __future__ import annotations

from _lib import Skip, locked, run_ranks


def run(claims: dict) -> dict:
    if locked(claims, "torch") is None:
        raise Skip("needs torch among the image's wheels")
    return {"ranks": run_ranks(2, backend="gloo", device="cpu")}
