"""`invoke render`, `build`, `verify`, `parity`, `load`: from a Plan to an image that can be trusted and run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainyard.cli.context import JSON, TARGET, begun, cells, known_engine, workspace
from trainyard.commands.edge import command, emit
from trainyard.errors import TrainyardError, UsageError

if TYPE_CHECKING:
    from invoke import Context

    from trainyard.commands.docker import DockerRequest
    from trainyard.report import Report


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
    chosen_cells = begun(space, cells(space, target, platform, every=True), target)
    results = render_all(space, chosen_cells, check=check)
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
        "contexts": "With --engine docker: build nothing, write what a build elsewhere needs into this folder.",
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
    contexts: str = "",
    json: bool = False,
) -> None:
    """Assemble images, hold them against the golden record, test them from the inside."""
    from trainyard.commands.build import BuildRequest, build_all, index_all
    from trainyard.commands.docker import DockerRequest

    if known_engine(engine) == "docker":
        if record:
            raise UsageError("the golden record is of the assembler's image", hint="invoke build --record")
        asked = DockerRequest(compression=compression, builder=builder, use_cache=cache, smoke=smoke)
        return _build_docker(target, platform, asked, contexts=contexts, json=json)
    if builder or contexts or not cache:
        raise UsageError(
            "--builder, --no-cache and --contexts are for Docker's build", hint="add --engine docker"
        )
    space, display = workspace()
    request = BuildRequest(compression=compression, record=record, smoke=smoke)
    outcomes = build_all(space, cells(space, target, platform), request, display)
    indexes = index_all(space, outcomes, request, display)
    if json:
        index = {one.target: one.document() for one in indexes}
        emit({"schema": 1, "images": [outcome.document() for outcome in outcomes], "index": index})
    return _require_ok([outcome.report for outcome in outcomes])


def _build_docker(
    target: Sequence[str], platform: str, request: DockerRequest, *, contexts: str, json: bool
) -> None:
    """The Dockerfile's image; or, with `contexts`, what a build elsewhere needs."""
    from trainyard.commands.contexts import write_all_contexts
    from trainyard.commands.docker import build_all_docker

    space, display = workspace()
    chosen = cells(space, target, platform)
    if contexts:
        written = write_all_contexts(space, chosen, Path(contexts), display)
        documents = [one.document() for one in written]
        reports = []
    else:
        images = build_all_docker(space, chosen, request, display)
        documents = [image.document() for image in images]
        reports = [image.report for image in images]
    if json:
        emit({"schema": 1, "images": documents, "index": {}})
    _require_ok(reports)


def _require_ok(reports: Sequence[Report | None]) -> None:
    if any(report is not None and not report.ok for report in reports):
        raise TrainyardError(
            "a smoke check failed", hint="the table above says which; `invoke smoke` runs them again"
        )


@command(iterable=["target"], help={**JSON, **TARGET})
def verify(_: Context, target: Sequence[str], platform: str = "", json: bool = False) -> None:
    """Build again from an empty cache in another environment, and compare."""
    from trainyard.commands.verify import verify_all

    space, display = workspace()
    results = verify_all(space, cells(space, target, platform), display)
    if json:
        emit({"schema": 1, "images": [dataclasses.asdict(result) for result in results]})
    if any(result.differences for result in results):
        raise TrainyardError("NOT REPRODUCIBLE", hint="docs/troubleshooting.md#not-reproducible")


@command(iterable=["target"], help={**JSON, **TARGET})
def parity(_: Context, target: Sequence[str], platform: str = "", json: bool = False) -> None:
    """Compare the image that Docker built with the assembled one, path by path."""
    from trainyard.commands.parity import compare_engines

    space, display = workspace()
    compared = compare_engines(space, cells(space, target, platform), display)
    if json:
        emit({"schema": 1, "images": [result.document() for result in compared]})
    if any(result.differences for result in compared):
        raise TrainyardError(
            "Docker built another image", hint="docs/troubleshooting.md#docker-built-another-image"
        )


@command(
    iterable=["target"],
    help={
        **JSON,
        **TARGET,
        "into": "docker or podman: the engine of this host, as its own CLI would reach it.",
    },
)
def load(
    _: Context, target: Sequence[str], platform: str = "", into: str = "docker", json: bool = False
) -> None:
    """Load built images into Docker or podman, and print their names there and their digests."""
    from trainyard.commands.load import known_store, load_all

    known_store(into)
    space, display = workspace()
    loaded = load_all(space, cells(space, target, platform), into, display)
    if json:
        emit({"schema": 1, "images": [dataclasses.asdict(one) for one in loaded]})
        return
    for one in loaded:
        print(one.name, one.digest)
