"""What every command begins with: this host, its environment and clock, and what the usual flags mean.

The one place that reads the environment and the wall clock; everything below is handed what it needs.
"""

from __future__ import annotations

import os
import platform as host
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from trainyard.commands.edge import chosen
from trainyard.errors import UsageError, near
from trainyard.paths import Project
from trainyard.platforms import Platform
from trainyard.settings import settings_from

if TYPE_CHECKING:
    from trainyard.commands.display import Display
    from trainyard.matrix.model import Target
    from trainyard.workspace import Workspace

# The package lies beside tasks.py and matrix.yaml.
ROOT = Path(__file__).parents[2]


def workspace(*, quiet: bool = False) -> tuple[Workspace, Display]:
    """The project on this host, and what shows progress; `quiet` for a command whose talk is not wanted."""
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


def begun(
    space: Workspace, found: Sequence[tuple[Target, Platform]], names: Sequence[str]
) -> list[tuple[Target, Platform]]:
    """Without `--target`: the cells that git has anything of; the others are said, and stop nothing."""
    for target, platform in found:
        if not names and not space.is_begun(target, platform):
            space.say(f"{target.name} {platform}: not locked yet (invoke lock --target {target.name})")
    return [cell for cell in found if names or space.is_begun(*cell)]


def known_engine(name: str) -> str:
    """`oci` or `docker`; UsageError otherwise."""
    engines = ("oci", "docker")
    if name not in engines:
        raise UsageError(
            f"unknown engine {name!r}{near(name, engines)}", hint="--engine oci or --engine docker"
        )
    return name


JSON = {"json": "One JSON document on stdout."}
TARGET = {
    "target": "A target of matrix.yaml; may repeat.",
    "platform": "os/arch, or `all`; default: this host's.",
}
