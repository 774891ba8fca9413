"""trainyard's commands: `invoke --list`. Flags and printing only; the work is in trainyard/commands."""

from __future__ import annotations

import dataclasses
import os
import platform as host
import shlex
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from invoke import Collection

from trainyard.commands.edge import chosen, command, emit
from trainyard.errors import TrainyardError, UsageError
from trainyard.paths import Project
from trainyard.platforms import Platform
from trainyard.settings import settings_from

if TYPE_CHECKING:
    from invoke import Context

    from trainyard.commands.display import Display
    from trainyard.matrix.model import Target
    from trainyard.workspace import Workspace

ROOT = Path(__file__).parent


def workspace(*, quiet: bool = False) -> tuple[Workspace, Display]:
    """The one place that looks at the environment, the host and the clock."""
    from rich.console import Console

    from trainyard.commands.display import Display
    from trainyard.debian.mirror import read_apt_sources
    from trainyard.workspace import Workspace

    display = Display(Console(stderr=True), quiet=quiet)
    settings = settings_from(os.environ, home=Path.home(), cores=os.cpu_count() or 1)
    return (
        Workspace(
            project=Project(ROOT),
            settings=settings,
            host=Platform.of_machine(host.system(), host.machine()),
            clock=time.monotonic,
            now=lambda: datetime.now(UTC),
            apt_sources=read_apt_sources,
            say=display.say,
        ),
        display,
    )


def cells(
    space: Workspace, names: Sequence[str], platform: str, *, every: bool = False
) -> list[tuple[Target, Platform]]:
    """What `--target` and `--platform` mean."""
    from trainyard.commands.select import select_platforms, select_targets

    return [
        (target, one)
        for target in select_targets(space.matrix, chosen(names), every=every)
        for one in select_platforms(target, platform, space.host)
    ]


def known_engine(name: str) -> str:
    """`oci` or `docker`; UsageError otherwise."""
    if name not in ("oci", "docker"):
        raise UsageError(f"unknown engine {name!r}", hint="--engine oci or --engine docker")
    return name


JSON = {"json": "One JSON document on stdout."}
TARGET = {
    "target": "A target of matrix.yaml; may repeat.",
    "platform": "os/arch, or `all`; default: this host's.",
}


@command(name="list", help=JSON)
def list_(_: Context, json: bool = False) -> None:
    """Targets and platforms: locked, recorded, built, tested, or why not."""
    from rich.console import Console

    from trainyard.commands.listing import list_cells, listing_table

    space, _display = workspace()
    found = list_cells(space)
    if json:
        emit({"schema": 1, "cells": [dataclasses.asdict(cell) for cell in found]})
    else:
        # Without a terminal nothing is cut: the table is for grep then.
        Console(width=None if sys.stdout.isatty() else 240).print(listing_table(found))


@command(
    iterable=["target"],
    help={
        **JSON,
        "target": "A target of matrix.yaml; may repeat. Default: all.",
        "check": "Write nothing; say every reason why a lock is stale, and ask pip and pip-tools.",
        "upgrade": "Move to the newest versions up to --until.",
        "package": "Only this package may move.",
        "until": "Cut-off, a date or an RFC 3339 instant; default: the lock's own, with --upgrade today 00:00 UTC.",
    },
)
def lock(
    _: Context,
    target: Sequence[str],
    check: bool = False,
    upgrade: bool = False,
    package: str = "",
    until: str = "",
    json: bool = False,
) -> None:
    """Resolve matrix.yaml and write lockfiles/."""
    from trainyard.commands.lock import LockRequest, write_locks
    from trainyard.commands.lock_check import check_locks
    from trainyard.commands.select import select_targets

    space, _display = workspace()
    targets = select_targets(space.matrix, chosen(target), every=True)
    if check:
        results = check_locks(space, targets)
    else:
        results = write_locks(space, targets, LockRequest(upgrade=upgrade, package=package, until=until))
    if json:
        emit({"schema": 1, "locks": [dataclasses.asdict(result) for result in results]})
    for result in results:
        space.say(result.line())
    if failed := [result for result in results if result.problems]:
        what = "are not what matrix.yaml asks for" if check else "could not be locked"
        raise TrainyardError(f"{len(failed)} of {len(results)} {what}", hint=failed[0].hint or "invoke lock")


@command(iterable=["target"], help={**JSON, **TARGET})
def plan(_: Context, target: Sequence[str], platform: str = "", json: bool = False) -> None:
    """Print the resolved Plan: layers, keys, config."""
    from trainyard.commands.plan import plan_document, plan_lines

    space, _display = workspace()
    plans = [space.plan(*cell) for cell in cells(space, target, platform)]
    if json:
        emit({"schema": 1, "images": [plan_document(one, space.store) for one in plans]})
        return
    for one in plans:
        print("\n".join(plan_lines(one, space.store)))


@command(
    iterable=["target"],
    help={
        **JSON,
        **TARGET,
        "target": "A target of matrix.yaml; may repeat. Default: all.",
        "platform": "os/arch; default: all.",
        "check": "Write nothing; print how images/ differs from what would be rendered.",
    },
)
def render(
    _: Context, target: Sequence[str], platform: str = "all", check: bool = False, json: bool = False
) -> None:
    """Write Dockerfiles and what they copy to images/<target>/<os>-<arch>/."""
    from trainyard.commands.render import render_all

    space, _display = workspace()
    results = render_all(space, cells(space, target, platform, every=True), check=check)
    if json:
        emit({"schema": 1, "images": [dataclasses.asdict(result) for result in results]})
    changed = [result for result in results if result.differences]
    for result in results:
        outcome = ("not as rendered" if check else "rendered") if result in changed else "unchanged"
        space.say(f"{result.folder}: {outcome}, {result.files} files")
        if check and not json:
            print("\n".join(result.differences), end="\n" if result.differences else "")
    if check and changed:
        raise TrainyardError(
            "images/ is not what would be rendered",
            hint="edit matrix.yaml or templates/, then `invoke render`",
        )


@command(
    iterable=["target"],
    help={
        **JSON,
        **TARGET,
        "compression": "zstd or gzip (Docker < 23, enroot < 4); same diff ids.",
        "record": "Write the golden record after a change of inputs.",
        "smoke": "--no-smoke leaves the tests out.",
        "engine": "oci, our own assembler; or docker: the Dockerfile in images/, built by BuildKit.",
        "builder": "With --engine docker: this buildx builder, a remote one too.",
        "cache": "With --engine docker: --no-cache builds every step again.",
    },
)
def build(
    _: Context,
    target: Sequence[str],
    platform: str = "",
    compression: str = "zstd",
    record: bool = False,
    smoke: bool = True,
    engine: str = "oci",
    builder: str = "",
    cache: bool = True,
    json: bool = False,
) -> None:
    """Assemble images, hold them against the golden record, test them from the inside."""
    from trainyard.commands.build import BuildRequest, build_all

    space, display = workspace()
    if known_engine(engine) == "docker":
        from trainyard.commands.docker import DockerRequest, build_all_docker

        images = build_all_docker(
            space, cells(space, target, platform), DockerRequest(builder=builder, use_cache=cache), display
        )
        if json:
            emit({"schema": 1, "images": [image.document() for image in images], "index": None})
        return
    request = BuildRequest(compression=compression, record=record, smoke=smoke)
    outcomes = build_all(space, cells(space, target, platform), request, display)
    if json:
        emit({"schema": 1, "images": [outcome.document() for outcome in outcomes], "index": None})
    failed = [outcome for outcome in outcomes if outcome.report is not None and not outcome.report.ok]
    if failed:
        raise TrainyardError(
            "a smoke check failed", hint="the table above says which; `invoke smoke` runs them again"
        )


@command(
    iterable=["target", "only"],
    help={
        **JSON,
        **TARGET,
        "only": "Run this check only; may repeat.",
        "require_device": "A check that finds no device fails instead of being skipped.",
        "runner": "auto or native.",
    },
)
def smoke(
    _: Context,
    target: Sequence[str],
    only: Sequence[str],
    platform: str = "",
    require_device: bool = False,
    runner: str = "auto",
    json: bool = False,
) -> None:
    """Run the checks inside built images."""
    from trainyard.commands.smoke import SmokeRequest, smoke_all
    from trainyard.smoke.run import SmokeOptions

    space, display = workspace()
    options = SmokeOptions(only=tuple(only), require_device=require_device)
    request = SmokeRequest(runner=runner, options=options)
    reports = smoke_all(space, cells(space, target, platform), request, display)
    if json:
        emit({"schema": 1, "reports": [report.to_document() for report in reports]})
    if any(not report.ok for report in reports):
        raise TrainyardError("a smoke check failed", hint="docs/troubleshooting.md#a-check-fails")


@command(
    iterable=["target"],
    help={
        **JSON,
        **TARGET,
        "engine": "oci: build again elsewhere; docker: compare with the image that Docker built.",
    },
)
def verify(
    _: Context, target: Sequence[str], platform: str = "", engine: str = "oci", json: bool = False
) -> None:
    """Build again from an empty cache in another environment, and compare."""
    from trainyard.commands.verify import verify_all

    space, display = workspace()
    if known_engine(engine) == "docker":
        from trainyard.commands.parity import compare_engines

        compared = compare_engines(space, cells(space, target, platform), display)
        if json:
            emit({"schema": 1, "images": [dataclasses.asdict(result) for result in compared]})
        if any(result.differences for result in compared):
            raise TrainyardError(
                "Docker built another image", hint="docs/troubleshooting.md#docker-built-another-image"
            )
        return
    results = verify_all(space, cells(space, target, platform), display)
    if json:
        emit({"schema": 1, "images": [dataclasses.asdict(result) for result in results]})
    if any(result.differences for result in results):
        raise TrainyardError("NOT REPRODUCIBLE", hint="docs/troubleshooting.md#not-reproducible")


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
        steps += ["pytest -m real", "invoke lock --check", "invoke verify"]
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


ns = Collection(list_, lock, plan, render, build, smoke, verify, clean, check, bench)
