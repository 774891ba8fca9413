"""A DataLoader with two workers delivers every value through a /dev/shm of 64 MB, and leaves nothing in it."""

from __future__ import annotations

import os
from pathlib import Path

from _lib import fail, need_torch, same
from _rows import ITEMS, WIDTH, Rows

LIMIT = 150
WORKERS = 2
BATCH = 4  # 2 MiB; 8 MiB are on the way at a time, three times what /dev/shm holds in all
SHARED_MEMORY = Path("/dev/shm")
DOCKERS_DEFAULT = 64 << 20


def run(claims: dict) -> dict:
    torch = need_torch(claims)
    before = names()
    free = os.statvfs(SHARED_MEMORY)
    loader = torch.utils.data.DataLoader(Rows(), batch_size=BATCH, num_workers=WORKERS)
    ramp = torch.arange(WIDTH, dtype=torch.float32)
    count = 0
    for number, batch in enumerate(loader):
        first = torch.arange(number * BATCH, number * BATCH + BATCH, dtype=torch.float32)
        if not torch.equal(batch, first[:, None] + ramp):
            fail(f"batch {number} has wrong values", batch=number)
        count += len(batch)
    same("the number of rows", count, ITEMS)
    del batch, loader
    left = sorted(names() - before)
    if left:
        fail(f"left in {SHARED_MEMORY}: {', '.join(left[:5])}", left=left)
    size = free.f_blocks * free.f_frsize
    advice = (
        "real jobs want more: --shm-size, --ipc=host, or a memory-backed volume"
        if size <= DOCKERS_DEFAULT
        else ""
    )
    return {
        "workers": WORKERS,
        "start": torch.multiprocessing.get_start_method(),
        "shm_bytes": size,
        "advice": advice,
    }


def names() -> set[str]:
    """What torch has in shared memory."""
    return {path.name for path in SHARED_MEMORY.glob("torch_*")}
