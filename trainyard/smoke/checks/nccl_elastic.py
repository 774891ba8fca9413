"""The NCCL that torch loads can shrink and grow a group, as recovery without a restart needs."""

from __future__ import annotations

import ctypes

from _lib import Skip, fail, need_torch

# torch 2.15's own demand of shrink_group.
SHRINK_SINCE = (2, 27)
FUNCTIONS = ("ncclCommShrink", "ncclCommGrow", "ncclCommRevoke", "ncclCommAbort")


def run(claims: dict) -> dict:
    if claims["accelerator"] != "cuda":
        raise Skip(f"needs a CUDA image, this one is for {claims['accelerator']}")
    torch = need_torch(claims, since=(2, 15))
    version = torch.cuda.nccl.version()
    if version < SHRINK_SINCE:
        fail(f"NCCL {version} cannot shrink a group, {SHRINK_SINCE} and later can", version=version)
    # torch has loaded it: this finds that one and no other.
    library = ctypes.CDLL("libnccl.so.2", mode=ctypes.RTLD_LOCAL)
    missing = [name for name in FUNCTIONS if not hasattr(library, name)]
    if missing:
        fail(f"NCCL {version} has no {', '.join(missing)}", version=version)
    return {"version": version, "functions": FUNCTIONS}
