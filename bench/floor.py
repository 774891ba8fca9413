"""How near the assembler is to what the machine must do anyway: `python -m bench.floor FOLDER_OF_WHEELS`.

The floor: each wheel's bytes read, inflated, hashed twice (RECORD's sha256 and the diff id), compressed by the very
codec of our layers, and hashed again, with nothing in between: no tar, no checks, no files. Ours: the wheel layers
of the same wheels as a build makes them. Both in the same number of threads, one after the other in one run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from isal import isal_zlib

from tests.support.wheels import locked
from trainyard.digest import CHUNK
from trainyard.layering import WheelGroup, group_wheels
from trainyard.layers import CONSTANT_MTIME
from trainyard.lock.model import LockedWheel
from trainyard.oci.codec import codec
from trainyard.oci.layer import write_layer
from trainyard.wheels.archive import Site, WheelArchive


def main() -> None:
    """Measure both and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    paths = {locked(path): path for path in sorted(options.folder.glob("*.whl"))}
    groups = group_wheels(sorted(paths, key=lambda wheel: wheel.name))
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        floor = timed([partial(floor_of, path, scratch) for path in paths.values()], options.threads)
        ours = timed([partial(ours_of, group, paths, scratch) for group in groups], options.threads)
    print(
        json.dumps(
            {
                "wheels": len(paths),
                "layers": len(groups),
                "floor_wall_s": round(floor[0], 1),
                "ours_wall_s": round(ours[0], 1),
                "wall_ratio": round(ours[0] / floor[0], 2),
                "floor_cpu_s": round(floor[1], 1),
                "ours_cpu_s": round(ours[1], 1),
                "cpu_ratio": round(ours[1] / floor[1], 2),
            },
            indent=1,
        )
    )


def timed(jobs: Sequence[Callable[[], object]], threads: int) -> tuple[float, float]:
    """Wall and CPU seconds of all jobs."""
    wall, cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(job) for job in jobs]:
            future.result()
    return time.perf_counter() - wall, time.process_time() - cpu


def ours_of(group: WheelGroup, paths: dict[LockedWheel, Path], scratch: Path) -> None:
    """One layer, as a build makes it."""
    site = Site()
    archives = (WheelArchive(paths[wheel], wheel, site) for wheel in group.wheels)
    entries = (entry for archive in archives for entry in archive.entries(part=group.part, parts=group.parts))
    with tempfile.TemporaryFile(dir=scratch, buffering=0) as sink:
        write_layer(entries, mtime=CONSTANT_MTIME, codec=codec("zstd"), sink=sink)


def floor_of(path: Path, scratch: Path) -> None:
    """What cannot be left out for one wheel."""
    compressor = codec("zstd").compressor()
    diff_id, digest = hashlib.sha256(), hashlib.sha256()
    with (
        zipfile.ZipFile(path) as archive,
        path.open("rb") as stream,
        tempfile.TemporaryFile(dir=scratch) as sink,
    ):
        for member in archive.infolist():
            record = hashlib.sha256()
            stream.seek(member.header_offset + 26)
            lengths = stream.read(4)
            stream.seek(int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little"), 1)
            inflate = isal_zlib.decompressobj(-15)
            left = member.compress_size
            while left:
                raw = stream.read(min(left, CHUNK // 4))
                left -= len(raw)
                data = inflate.decompress(raw) if member.compress_type else raw
                record.update(data)
                diff_id.update(data)
                packed = compressor.compress(data)
                digest.update(packed)
                sink.write(packed)
        packed = compressor.flush()
        digest.update(packed)
        sink.write(packed)


if __name__ == "__main__":
    main()
