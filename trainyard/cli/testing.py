"""`invoke smoke`: what an image says from the inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainyard.cli.context import JSON, TARGET, cells, known_engine, workspace
from trainyard.commands.edge import command, emit
from trainyard.errors import TrainyardError

if TYPE_CHECKING:
    from invoke import Context


@command(
    iterable=["target", "only"],
    help={
        **JSON,
        **TARGET,
        "only": "Run this check only; may repeat.",
        "require_device": "A check that finds no device fails instead of being skipped.",
        "runner": "auto (native where it works, else docker, else podman), native, docker or podman.",
        "profile": "normal, or hostile: an unknown uid without capabilities on a read-only root.",
        "engine": "Whose image of dist/: oci, our own assembler's, or docker, BuildKit's.",
    },
)
def smoke(
    _: Context,
    target: Sequence[str],
    only: Sequence[str],
    platform: str = "",
    require_device: bool = False,
    runner: str = "auto",
    profile: str = "normal",
    engine: str = "oci",
    json: bool = False,
) -> None:
    """Run the checks inside built images."""
    from trainyard.commands.smoke import SmokeRequest, smoke_all
    from trainyard.runner.choose import known_runner
    from trainyard.smoke.profiles import profile_named
    from trainyard.smoke.run import SmokeOptions

    options = SmokeOptions(
        only=tuple(only), require_device=require_device, confinement=profile_named(profile)
    )
    request = SmokeRequest(runner=known_runner(runner), engine=known_engine(engine), options=options)
    space, display = workspace()
    reports = smoke_all(space, cells(space, target, platform), request, display)
    if json:
        emit({"schema": 1, "reports": [report.to_document() for report in reports]})
    if any(not report.ok for report in reports):
        raise TrainyardError("a smoke check failed", hint="docs/troubleshooting.md#a-check-fails")
