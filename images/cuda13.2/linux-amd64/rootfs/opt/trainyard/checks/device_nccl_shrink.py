"""When a rank is lost, the others shrink the NCCL group and go on with right values."""

from __future__ import annotations

from _devices import device_count, need_device
from _lib import Skip, need_torch, same
from _ranks import run_ranks

NEEDS = ("device",)
LIMIT = 200
MOST = 4


def run(claims: dict) -> dict:
    kind = need_device(claims, "cuda", since=(2, 15))
    torch = need_torch(claims)
    count = min(device_count(torch, kind), MOST)
    if count < 2:
        raise Skip("needs two NVIDIA GPUs, there is one")
    return {"ranks": run_ranks(count, "device_nccl_shrink.py", backend="nccl", device=kind)}


def rank(here) -> dict:
    """Agree, lose the last rank, shrink without it, agree again."""
    import json
    import os

    import torch
    import torch.distributed as dist

    tensor = torch.full((1000,), here.rank + 1.0, device=here.device)
    dist.all_reduce(tensor)
    same("the sum over all ranks", tensor.unique().tolist(), [sum(range(1, here.world + 1))])
    torch.accelerator.synchronize()
    lost = here.world - 1
    if here.rank == lost:
        print(json.dumps({"rank": here.rank, "lost": True}), flush=True)
        os._exit(0)  # as a killed process: it says goodbye to nobody
    dist.shrink_group([lost], shrink_flags=dist.distributed_c10d.SHRINK_ABORT)
    same("the number of ranks", dist.get_world_size(), here.world - 1)
    tensor = torch.full((1000,), here.rank + 1.0, device=here.device)
    dist.all_reduce(tensor)
    same("the sum over the ranks that are left", tensor.unique().tolist(), [sum(range(1, here.world))])
    return {"left": dist.get_world_size()}
