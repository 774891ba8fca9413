"""One rank of a collective check: every result is held against what it must be, to the last bit.

Every value is a function of rank and position, and no two ranks agree, so that a mixed-up buffer, a lost
contribution or a wrong order cannot give the right answer. All are small enough to be exact in bfloat16.
"""

from __future__ import annotations

import time
from pathlib import Path

import torch
import torch.distributed as dist
from _ranks import Here

COUNT = 1000
DTYPES = ("float32", "float64", "bfloat16", "float16", "int32", "int64", "uint8")


def rank(here: Here) -> dict:
    """All collectives in all dtypes, then a barrier."""
    start = time.monotonic()
    for name in DTYPES:
        collectives(here.rank, here.world, getattr(torch, name), here.device)
    barrier(here.rank, here.world, here.folder)
    group = dist.group.WORLD._get_backend(torch.device(here.device))
    return {
        "backend": dist.get_backend(),
        "implementation": type(group).__name__,
        "dtypes": list(DTYPES),
        "seconds": round(time.monotonic() - start, 3),
    }


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
    """all_reduce, all_gather, broadcast, reduce_scatter and all_to_all of one dtype."""

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
    received = torch.zeros(COUNT * world, dtype=dtype, device=device)
    dist.all_to_all_single(received, mine(rank, count=COUNT * world))
    parts = [mine(other, count=COUNT * world)[rank * COUNT : (rank + 1) * COUNT] for other in range(world)]
    check("all_to_all_single", received, torch.cat(parts))


def barrier(rank: int, world: int, folder: Path) -> None:
    """Whoever comes out of a barrier sees that all others had come to it; the last rank comes late."""
    if rank == world - 1:
        time.sleep(0.2)
    (folder / f"arrived-{rank}").touch()
    dist.barrier()
    missing = [other for other in range(world) if not (folder / f"arrived-{other}").exists()]
    if missing:
        raise AssertionError(f"barrier let rank {rank} go before ranks {missing} came")
