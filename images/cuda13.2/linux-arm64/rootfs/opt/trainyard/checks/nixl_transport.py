"""torch's NIXL transport can be found and imported; it is private to torch and may change: unstable."""

from __future__ import annotations

import importlib

from _lib import fail, locked, need_torch

UNSTABLE = "unstable: torch.distributed._transport is private to torch, without a promise"


def run(claims: dict) -> dict:
    need_torch(claims, since=(2, 15))
    transport = importlib.import_module("torch.distributed._transport")
    # Transports are found by torch's entry points: stripped metadata shows here.
    if "nixl" not in transport.available_transports():
        fail(f"torch knows no nixl, only {transport.available_transports()}")
    importlib.import_module("torch.distributed._transport.nixl")
    library = next((name for name in ("nixl", "nixl-cu13", "nixl-cu12") if locked(claims, name)), None)
    try:
        transport.new_transport("nixl", "cpu")
        opened = ""
    except Exception as error:
        opened = f"{type(error).__name__}: {error}"
    if library and opened:
        fail(f"{library} is in the image, and a transport cannot be opened: {opened}")
    if not library and not opened:
        fail("a transport opens without a nixl wheel in the image: where does its library come from?")
    return {"stability": UNSTABLE, "library": library, "opened": opened or "yes"}
