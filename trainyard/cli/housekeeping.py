"""`invoke clean`, `check`, `bench`: disk, tests, measurements."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from typing import TYPE_CHECKING

from trainyard.cli.context import JSON, ROOT, workspace
from trainyard.commands.edge import command, emit
from trainyard.errors import TrainyardError

if TYPE_CHECKING:
    from invoke import Context


@command(
    help={
        **JSON,
        "layers": "Built layers, facts and unpacked trees.",
        "inputs": "Downloaded wheels and debs.",
        "dist": "Finished images.",
    }
)
def clean(
    _: Context, layers: bool = False, inputs: bool = False, dist: bool = False, json: bool = False
) -> None:
    """Give disk back; without flags all that can be made again without a download."""
    from trainyard.commands.clean import clean as run

    space, _display = workspace()
    freed = run(space, layers=layers, inputs=inputs, dist=dist)
    if json:
        emit({"schema": 1, "freed": [dataclasses.asdict(item) for item in freed]})
    for item in freed:
        space.say(f"{item.what}: {item.bytes / 1e9:.2f} GB given back")


@command(help={"full": "Also what takes the real image: gigabytes and minutes."})
def check(context: Context, full: bool = False) -> None:
    """All that CI checks: style, types, tests, and with --full the real image."""
    steps = ["ruff check .", "ruff format --check .", "mypy", "invoke render --check", "pytest -m 'not real'"]
    if full:
        steps += ["pytest -m real", "invoke lock --check", "invoke verify", "bench.child_builds"]
    failed = []
    with context.cd(ROOT):
        for step in steps:
            print(f"$ {step}", file=sys.stderr)
            done = context.run(f"{shlex.quote(sys.executable)} -m {step}", in_stream=False, warn=True)
            if done is None or not done.ok:
                failed.append(step)
    if failed:
        raise TrainyardError("\n".join(["these failed:", *failed]), hint="run the first of them alone")


@command(help={"target": "A target of matrix.yaml.", "platform": "os/arch."})
def bench(context: Context, target: str = "cuda13.2", platform: str = "linux/amd64") -> None:
    """Measure a build of one image here: time, memory, bytes; one JSON document."""
    words = ["-m", "bench.figures", "--target", target, "--platform", platform]
    with context.cd(ROOT):
        context.run(shlex.join([sys.executable, *words]), in_stream=False)
