"""One rank of a collective check: `_ranks.py RANK WORLD BACKEND DEVICE FOLDER`; prints its evidence as JSON.

Every value is a function of rank and position, and no two ranks agree, so that a mixed-up buffer, a lost
contribution or a wrong order cannot give the right answer. All are small enough to be exact in bfloat16.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

COUNT = 1000
DTYPES = ("float32", "float64", "bfloat16", "float16", "int32", "int64", "uint8")


def values(rank: int, *, count: int = COUNT, dtype: torch.dtype, device: str) -> torch.Tensor:
    """What `rank` contributes: 1 to 7 by position, shifted and scaled by rank."""
    return ((torch.arange(count) * (rank + 1) + rank) % 7 + 1).to(dtype).to(device)


def check(what: str, found: torch.Tensor, wanted: torch.Tensor) -> None:
    """Every value must be equal, not close."""
    found, wanted = found.cpu(), wanted.cpu()
    if not torch.equal(found, wanted):
        wrong = (found != wanted).nonzero().flatten()
        at = int(wrong[0])
        raise AssertionError(
            f"{what} {found.dtype}: {len(wrong)} of {len(found)} values are wrong, "
            f"[{at}] is {found[at].item()}, not {wanted[at].item()}"
        )


def collectives(rank: int, world: int, dtype: torch.dtype, device: str) -> None:
    """all_reduce, all_gather, broadcast and reduce_scatter of one dtype."""

    def mine(of: int, count: int = COUNT) -> torch.Tensor:
        return values(of, count=count, dtype=dtype, device=device)

    everybody = torch.stack([mine(other).cpu().double() for other in range(world)])
    for name, wanted in (("SUM", everybody.sum(0)), ("MAX", everybody.amax(0)), ("MIN", everybody.amin(0))):
        tensor = mine(rank)
        dist.all_reduce(tensor, op=getattr(dist.ReduceOp, name))
        check(f"all_reduce {name}", tensor, wanted.to(dtype))
    gathered = [torch.zeros(COUNT, dtype=dtype, device=device) for _ in range(world)]
    dist.all_gather(gathered, mine(rank))
    for other in range(world):
        check(f"all_gather from rank {other}", gathered[other], mine(other))
    for source in range(world):
        tensor = mine(rank)
        dist.broadcast(tensor, src=source)
        check(f"broadcast from rank {source}", tensor, mine(source))
    part = torch.zeros(COUNT, dtype=dtype, device=device)
    dist.reduce_scatter_tensor(part, mine(rank, count=COUNT * world))
    total = sum(mine(other, count=COUNT * world).cpu().double() for other in range(world))
    check("reduce_scatter_tensor", part, total[rank * COUNT : (rank + 1) * COUNT].to(dtype))


def barrier(rank: int, world: int, folder: Path) -> None:
    """Whoever comes out of a barrier sees that all others had come to it; the last rank comes late."""
    if rank == world - 1:
        time.sleep(0.2)
    (folder / f"arrived-{rank}").touch()
    dist.barrier()
    missing = [other for other in range(world) if not (folder / f"arrived-{other}").exists()]
    if missing:
        raise AssertionError(f"barrier let rank {rank} go before ranks {missing} came")


def main(rank: int, world: int, backend: str, device: str, folder: Path) -> None:
    start = time.monotonic()
    where = device if device == "cpu" else f"{device}:{rank}"
    if device != "cpu":
        torch.accelerator.set_device_index(rank)
    store = dist.FileStore(str(folder / "store"), world)
    dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=timedelta(seconds=60))
    for name in DTYPES:
        if name == "float64" and device == "mps":
            continue
        collectives(rank, world, getattr(torch, name), where)
    barrier(rank, world, folder)
    group = dist.group.WORLD._get_backend(torch.device(device))
    print(
        json.dumps(
            {
                "rank": rank,
                "backend": dist.get_backend(),
                "implementation": type(group).__name__,
                "dtypes": list(DTYPES),
                "seconds": round(time.monotonic() - start, 3),
            }
        )
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], Path(sys.argv[5]))
