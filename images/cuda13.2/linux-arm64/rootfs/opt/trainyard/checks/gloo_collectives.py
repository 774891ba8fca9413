"""gloo, with one rank and with two: every collective in every dtype gives exactly the right values."""

from __future__ import annotations

from _lib import need_wheels
from _ranks import run_ranks

LIMIT = 200


def run(claims: dict) -> dict:
    need_wheels(claims, "torch")
    return {f"ranks of {world}": run_ranks(world, "_collectives.py", backend="gloo") for world in (1, 2)}
