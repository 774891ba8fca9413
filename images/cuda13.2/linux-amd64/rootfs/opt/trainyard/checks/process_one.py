"""Process 1 is tini: orphans are collected, and SIGTERM ends a job at once, even while it imports torch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from _lib import Skip, fail, locked, same

NEEDS = ("image",)
TINI = "/usr/bin/tini"
ENTRYPOINT = "/usr/local/bin/trainyard-entrypoint"
PATIENCE = 5.0  # seconds, as in `docker stop -t 5`
# The parent ends at once, the child a little later: by then process 1 is its parent.
ORPHAN = "import os, time\nif os.fork() == 0:\n    time.sleep(0.2)\nelse:\n    print(os.getpid())\n"
IMPORTING = "import sys\nprint('begun', flush=True)\nimport MODULE\nimport time\ntime.sleep(60)\n"
MOMENTS = (0.0, 0.3)  # seconds into the import


def run(claims: dict) -> dict:
    first = Path("/proc/1/comm").read_text().strip()
    if first != "tini":
        if claims["sealed"]:
            fail(f"process 1 is {first}, not tini")
        raise Skip(f"needs to be started through the image's entrypoint: process 1 is {first}, not tini")
    collected()
    module = "torch" if locked(claims, "torch") else "json"
    seconds = [terminated(module, moment) for moment in MOMENTS]
    return {"seconds_to_end": seconds}


def collected() -> None:
    """An orphan that ends leaves no zombie."""
    before = zombies()
    subprocess.run([sys.executable, "-c", ORPHAN], check=True, capture_output=True)
    end = time.monotonic() + PATIENCE
    time.sleep(0.3)
    while left := zombies() - before:
        if time.monotonic() > end:
            fail(f"process 1 does not collect its children: {len(left)} zombies", pids=sorted(left))
        time.sleep(0.05)


def zombies() -> set[int]:
    """Processes that have ended and wait for their parent, process 1."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = status.read_text().rpartition(") ")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if (state, parent) == ("Z", "1"):
            found.add(int(status.parent.name))
    return found


def terminated(module: str, moment: float) -> float:
    """Seconds from SIGTERM to the end of a job that runs as the image runs one; its exit code says the signal."""
    job = subprocess.Popen(
        [TINI, "-s", "-g", "--", ENTRYPOINT, sys.executable, "-c", IMPORTING.replace("MODULE", module)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        same("what the job says", job.stdout.readline(), "begun\n")
        time.sleep(moment)
        start = time.monotonic()
        os.kill(job.pid, signal.SIGTERM)
        code = job.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        fail(f"a job that imports {module} does not end within {PATIENCE:g} s of SIGTERM")
    finally:
        job.kill()
        job.wait()
    same("the exit code", code, 128 + signal.SIGTERM)
    return round(time.monotonic() - start, 3)
