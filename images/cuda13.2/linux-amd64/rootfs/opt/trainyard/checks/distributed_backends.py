"""torch.distributed has the accelerator's backends, picks them by default, and opens a gloo group."""

from __future__ import annotations

from _devices import BACKENDS, DEVICE_TYPES
from _lib import fail, need_torch, same


def run(claims: dict) -> dict:
    torch = need_torch(claims)
    import torch.distributed as dist

    if not dist.is_available():
        fail("torch.distributed is not compiled in")
    accelerator = claims["accelerator"]
    wanted = {"gloo", BACKENDS.get(accelerator, "gloo")}
    found = {
        "gloo": dist.is_gloo_available(),
        "nccl": dist.is_nccl_available(),
        "xccl": dist.is_xccl_available(),
        "mpi": dist.is_mpi_available(),
        "ucc": dist.is_ucc_available(),
    }
    for name in ("gloo", "nccl", "xccl"):
        same(f"the availability of {name}", found[name], name in wanted)
    defaults = dict(dist.Backend.default_device_backend_map)
    same("the default backend for cpu", defaults.get("cpu"), "gloo")
    kind = DEVICE_TYPES.get(accelerator)
    if kind:
        same(f"the default backend for {kind}", defaults.get(kind), BACKENDS[accelerator])
    # Backends register through torch's entry points: stripped metadata shows only here.
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    tensor = torch.tensor([3.0])
    dist.all_reduce(tensor)
    same("all_reduce on one rank", tensor.item(), 3.0)
    opened = dist.get_backend()
    dist.destroy_process_group()
    return {"available": found, "defaults": defaults, "opened": opened}
