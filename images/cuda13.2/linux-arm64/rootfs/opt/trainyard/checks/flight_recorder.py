"""When a rank stalls, each rank leaves a private flight-recorder dump, and the dumps name the culprit.

Two gloo ranks agree three times, then rank 1 stays away. gloo dumps nothing by itself, so each rank asks for its
dump as a job's watchdog would. Dumps are pickles: they are read by an unpickler that builds plain data only.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from _dumps import late_ranks, read_dump
from _lib import fail, need_torch, same
from _ranks import run_ranks

LIMIT = 150
PATIENCE = 2.0  # seconds until a collective gives up
AGREED = 3
STALLED = 1


def run(claims: dict) -> dict:
    need_torch(claims, since=(2, 15))
    configured = os.environ.get("TORCH_FR_DUMP_TEMP_FILE")
    if configured:
        private(Path(configured).parent)
    # In the folder that the image's entrypoint made for dumps, so that it is this one that is proven.
    with tempfile.TemporaryDirectory(
        prefix="doctor-", dir=Path(configured).parent if configured else None
    ) as folder:
        prefix = Path(folder, "rank_")
        ranks = run_ranks(2, "flight_recorder.py", env={"TORCH_FR_DUMP_TEMP_FILE": str(prefix)})
        dumps = {rank: read_dump(Path(f"{prefix}{rank}").read_bytes()) for rank in range(len(ranks))}
    late = late_ranks(dumps)
    same("who is late", late["ranks"], [STALLED], **late)
    same("the collective that was waited for", late["operation"], "gloo:broadcast", **late)
    same("the function that waited", late["function"], "waited_for", **late)
    if not any("Timed out" in rank["error"] for rank in ranks):
        fail("no rank noticed the stall", ranks=ranks)
    return {"folder": str(Path(configured).parent) if configured else "", "late": late, "ranks": ranks}


def private(folder: Path) -> None:
    """Dumps hold paths, function names and shapes, and torch writes them readable for all."""
    found = folder.stat()
    same(f"the mode of {folder}, where dumps go,", stat.filemode(found.st_mode), "drwx------")
    same(f"the owner of {folder}, where dumps go,", found.st_uid, os.getuid())


def rank(here) -> dict:
    """Agree, then stall or wait; either way leave a dump."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    for _ in range(AGREED):
        dist.all_reduce(torch.ones(4, device=here.device))
    error = ""
    over = here.folder / "over"
    if here.rank == STALLED:
        wait_for(over)
    else:
        dist.distributed_c10d._set_pg_timeout(timedelta(seconds=PATIENCE))
        try:
            waited_for(dist, torch.ones(4, device=here.device))
        except RuntimeError as problem:
            error = str(problem)
    dumped = torch._C._distributed_c10d._dump_fr_trace_file(here.rank, True, True, False)
    over.touch()
    return {"error": error[-300:], "dumped": bool(dumped)}


def waited_for(dist, tensor) -> None:
    """The line that the dump must show."""
    dist.broadcast(tensor, src=STALLED)


def wait_for(path: Path) -> None:
    """Stay away until the others have given up."""
    import time

    end = time.monotonic() + 60
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.05)
