"""How fast wheels become verified entries: inflate plus RECORD's sha256, nothing written.

    .venv/bin/python bench/wheel_stream.py FOLDER [--threads 1 2] [--only torch] [--json]

Each row is measured in a process of its own, so that its peak memory is its own. Work is cut as in a build:
a large wheel in several parts, the largest first.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from packaging.utils import canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from trainyard.lock.model import LockedWheel  # noqa: E402
from trainyard.wheels.archive import Site, WheelArchive  # noqa: E402

SPLIT = 256 << 20  # bytes of wheel file for each part, as trainyard/layering.py cuts them


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One run over all wheels: wall and CPU seconds, content bytes and files given out, peak RSS in MiB."""

    threads: int
    wheels: int
    files: int
    content: int
    seconds: float
    cpu_seconds: float
    peak_rss_mib: float

    @property
    def megabytes_per_second(self) -> float:
        """Content per wall second, 10^6 bytes."""
        return self.content / 1e6 / self.seconds


def locked(path: Path) -> LockedWheel:
    """A lock's line for a wheel file; its hash is not computed, since nothing here looks at it."""
    name, version, _, _ = parse_wheel_filename(path.name)
    size = path.stat().st_size
    return LockedWheel(
        name=canonicalize_name(name), version=str(version), sha256="0" * 64, size=size, filename=path.name
    )


def drain(job: tuple[Path, int, int]) -> tuple[int, int]:
    """(files, bytes) of one part of a wheel, all of it read."""
    path, part, parts = job
    files = content = 0
    for entry in WheelArchive(path, locked(path), Site()).entries(part, parts):
        files += 1
        content += sum(len(chunk) for chunk in entry.content)
    return files, content


def jobs(wheels: Sequence[Path]) -> list[tuple[Path, int, int]]:
    """(wheel, part, parts), the largest first."""
    found = []
    for path in sorted(wheels, key=lambda path: path.stat().st_size, reverse=True):
        parts = -(-path.stat().st_size // SPLIT)
        found += [(path, part, parts) for part in range(parts)]
    return found


def measure(wheels: Sequence[Path], threads: int) -> Measurement:
    """One run with this many threads."""
    start, start_cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(threads) as pool:
        results = list(pool.map(drain, jobs(wheels)))
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - start_cpu
    unit = 1 if sys.platform == "darwin" else 1024
    return Measurement(
        threads=threads,
        wheels=len(wheels),
        files=sum(files for files, _ in results),
        content=sum(content for _, content in results),
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        peak_rss_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / (1 << 20),
    )


def main() -> int:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="a folder of .whl files")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", default="", help="wheels whose file name starts with this")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    wheels = sorted(options.folder.glob(f"{options.only}*.whl"))
    if not wheels:
        print(f"no wheels in {options.folder}", file=sys.stderr)
        return 1
    rows = []
    for threads in options.threads:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            rows.append(pool.submit(measure, wheels, threads).result())
    if options.json:
        print(json.dumps([asdict(row) for row in rows]))
        return 0
    print("threads  wheels   files  content MB  wall s   cpu s    MB/s  peak MiB")
    for row in rows:
        print(
            f"{row.threads:7} {row.wheels:7} {row.files:7} {row.content / 1e6:11.0f} {row.seconds:7.1f} "
            f"{row.cpu_seconds:7.1f} {row.megabytes_per_second:7.0f} {row.peak_rss_mib:9.0f}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
