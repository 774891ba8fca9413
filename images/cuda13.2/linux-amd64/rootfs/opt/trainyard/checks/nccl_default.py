"""`nccl` is the rewritten implementation, and the old one is still to be had.

By TORCH_DIST_USE_NCCL2=0 or as `nccl-legacy` (torch 2.15); NCCL itself must be the wheel's.
"""

from __future__ import annotations

import os

from _lib import Skip, fresh_python, locked, release, same

LEGACY, REWRITTEN = "legacy", "rewritten"
SWITCH = "TORCH_DIST_USE_NCCL2"
_CREATORS = {"_create_nccl_process_group": LEGACY, "_create_nccl2_process_group": REWRITTEN}
# The choice is made once per process, when a name is first used.
_PROBE = """
import json, torch
from torch.distributed.distributed_c10d import Backend
found = {"torch": torch.__version__, "version": torch.cuda.nccl.version()}
for name in ("nccl", "nccl-legacy", "nccl2"):
    Backend._ensure_backend_registered(name)
    found[name] = Backend._plugins[name.upper()].creator_fn.__name__
print(json.dumps(found))
"""


def run(claims: dict) -> dict:
    if claims["accelerator"] != "cuda":
        raise Skip(f"needs a CUDA image, this one is for {claims['accelerator']}")
    torch = locked(claims, "torch")
    if torch is None or release(torch)[:2] < (2, 15):
        raise Skip(f"needs torch 2.15 or newer, the image has {torch}")
    default, switched = probe(None), probe("0")
    here = {None: default, "0": switched}.get(os.environ.get(SWITCH))
    evidence = {"default": default, f"{SWITCH}=0": switched, "here": here or probe(os.environ[SWITCH])}
    same("`nccl` by default", default["nccl"], REWRITTEN)
    same(f"`nccl` with {SWITCH}=0", switched["nccl"], LEGACY)
    same("`nccl-legacy`", default["nccl-legacy"], LEGACY)
    same("`nccl2`", switched["nccl2"], REWRITTEN)
    same("`nccl` in this image", evidence["here"]["nccl"], claims.get("nccl", REWRITTEN))
    if wheel := locked(claims, "nvidia-nccl-cu13"):
        same("the NCCL that torch loads", tuple(default["version"]), release(wheel))
    return evidence


def probe(value: str | None) -> dict:
    """Which implementation each name gives in a process with that setting."""
    found = fresh_python(_PROBE, env={SWITCH: value})
    return {
        name: _CREATORS.get(text, text) if isinstance(text, str) else text for name, text in found.items()
    }
