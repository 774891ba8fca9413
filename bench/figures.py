"""The figures of one image, measured here and now: `python -m bench.figures [--target T]`, or `invoke bench`.

A build from an empty layer cache with its inputs at hand, the same again with nothing changed, the peak memory of
the first, and from the golden record how many bytes move when one input changes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_PEAK = re.compile(r"Maximum resident set size \(kbytes\): (\d+)")


def main() -> None:
    """Measure and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="cuda13.2")
    parser.add_argument("--platform", default="linux/amd64")
    parser.add_argument(
        "--cache", type=Path, default=Path.home() / ".cache" / "trainyard", help="holds the inputs"
    )
    options = parser.parse_args()
    golden = json.loads(
        (ROOT / "images" / options.target / f"{options.platform.replace('/', '-')}.json").read_text()
    )
    print(json.dumps(dict(figures(options, golden)), indent=1))


def figures(options: argparse.Namespace, golden: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Name and value of each figure, in the order of measuring."""
    layers = golden["layers"]
    yield "layers", sum(1 for layer in layers if layer["files"])
    yield "image_mb", mb(layers)
    yield "content_mb", round(sum(layer["content_size"] for layer in layers) / 1e6, 1)
    yield "largest_layer_mb", mb([max(layers, key=lambda layer: layer["size"])])
    yield (
        "small_pure_wheel_moves_percent",
        round(100 * moved(layers) / sum(layer["size"] for layer in layers), 2),
    )
    with tempfile.TemporaryDirectory(dir=options.cache) as folder:
        cache = Path(folder)
        (cache / "inputs").mkdir()
        for path in (options.cache / "inputs").iterdir():
            os.link(path, cache / "inputs" / path.name)
        first, peak = build(options, cache)
        second, _ = build(options, cache)
    yield "first_build_assemble_s", first["seconds"]["assemble"]
    yield "first_build_peak_mb_one_process", peak
    yield "second_build_assemble_s", second["seconds"]["assemble"]
    yield "second_to_first", round(second["seconds"]["assemble"] / first["seconds"]["assemble"], 4)
    yield "same_digest_as_recorded", first["digest"] == second["digest"] == golden["manifest_digest"]


def build(options: argparse.Namespace, cache: Path) -> tuple[dict[str, Any], float]:
    """One `invoke build` in a process of its own: its document, and its peak memory in MB."""
    command = [
        "/usr/bin/time",
        "-v",
        sys.executable,
        "-m",
        "invoke",
        "--search-root",
        str(ROOT),
        "build",
        "--no-smoke",
        "--json",
    ]
    command += ["--target", options.target, "--platform", options.platform]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "TRAINYARD_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(done.stderr)
    match = _PEAK.search(done.stderr)
    assert match is not None
    document: dict[str, Any] = json.loads(done.stdout)["images"][0]
    return document, round(int(match[1]) / 1024, 1)


def moved(layers: list[dict[str, Any]]) -> int:
    """Bytes to push when one small pure-Python wheel changes: its shared layer, its bytecode, and our top layer."""
    titles = ("small, pure Python", "bytecode: ", "trainyard: ")
    chosen = [
        layer
        for layer in layers
        if titles[0] in layer["created_by"]
        or (layer["created_by"].startswith(titles[1]) and "small wheels" in layer["created_by"])
        or layer["created_by"].startswith(titles[2])
    ]
    return sum(layer["size"] for layer in chosen)


def mb(layers: list[dict[str, Any]]) -> float:
    """Compressed megabytes of some layers."""
    return round(float(sum(layer["size"] for layer in layers)) / 1e6, 1)


if __name__ == "__main__":
    main()
