"""Ranks in processes of their own: `run_ranks` starts them, each runs the `rank` function of a check's file.

As a script: `_ranks.py FILE RANK WORLD BACKEND DEVICE FOLDER OPTIONS`; prints what `rank` returns as JSON.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from _lib import fail

# A hostname need not resolve; gloo would look for it.
LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"
TIMEOUT = timedelta(seconds=60)


@dataclass(frozen=True)
class Here:
    """Which rank this is, on which device (`cpu`, `cuda:1`), and the folder and options that all share."""

    rank: int
    world: int
    device: str
    folder: Path
    options: dict


def run_ranks(
    world: int,
    file: str,
    *,
    backend: str = "gloo",
    device: str = "cpu",
    limit: float = 90,
    options: dict | None = None,
    env: dict[str, str] | None = None,
) -> list[dict]:
    """What the `rank` function of `file`, beside this one, returns in each of `world` processes, in rank order.

    They meet over a file store, and are fresh interpreters: a process that has touched an accelerator cannot fork.
    """
    environment = {"GLOO_SOCKET_IFNAME": LOOPBACK, **os.environ, **(env or {})}
    with tempfile.TemporaryDirectory() as folder:
        common = [str(world), backend, device, folder, json.dumps(options or {})]
        processes = [
            subprocess.Popen(
                [sys.executable, __file__, file, str(rank), *common],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(world)
        ]
        try:
            outputs = [process.communicate(timeout=limit) for process in processes]
        except subprocess.TimeoutExpired:
            fail(f"{world} ranks of {backend} did not end within {limit:g} s")
        finally:
            for process in processes:
                process.kill()
    errors = {rank: outputs[rank][1] for rank in range(world) if processes[rank].returncode}
    if errors:
        # When one rank finds a wrong value and ends, the others only see that it is gone.
        rank = min(errors, key=lambda rank: ("AssertionError" not in errors[rank], rank))
        last = (errors[rank].strip().splitlines() or [f"ended with {processes[rank].returncode}"])[-1]
        fail(f"rank {rank} of {world} on {backend}: {last}", stderr=errors[rank][-3000:])
    return [json.loads(out.strip().rpartition("\n")[2]) for out, _ in outputs]


def main(file: str, rank: int, world: int, backend: str, device: str, folder: Path, options: dict) -> None:
    """One rank: open the group, run the check's part, say what it returns."""
    import torch
    import torch.distributed as dist

    # A name is that of a file beside this one.
    spec = importlib.util.spec_from_file_location("trainyard_rank", Path(__file__).with_name(file))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if device != "cpu":
        torch.accelerator.set_device_index(rank)
        device = f"{device}:{rank}"
    store = dist.FileStore(str(folder / "store"), world)
    dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=TIMEOUT)
    torch.manual_seed(rank)
    found = module.rank(Here(rank=rank, world=world, device=device, folder=folder, options=options))
    if dist.is_initialized():
        dist.destroy_process_group()
    print(json.dumps({"rank": rank, **found}), flush=True)
    # After FSDP, torch 2.15.0 aborts in the destructors of C++ statics now and then (3 of 47 times), when all is done.
    os._exit(0)


if __name__ == "__main__":
    main(
        sys.argv[1],
        int(sys.argv[2]),
        int(sys.argv[3]),
        sys.argv[4],
        sys.argv[5],
        Path(sys.argv[6]),
        json.loads(sys.argv[7]),
    )
