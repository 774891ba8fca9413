"""`invoke sbom`: what an image can prove about itself to others."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainyard.cli.context import JSON, TARGET, cells, workspace
from trainyard.commands.edge import command, emit

if TYPE_CHECKING:
    from invoke import Context


@command(iterable=["target"], help={**JSON, **TARGET})
def sbom(_: Context, target: Sequence[str], platform: str = "", json: bool = False) -> None:
    """Write the CycloneDX SBOM of built images beside them in dist/."""
    from trainyard.commands.sbom import sbom_all

    space, display = workspace()
    files = sbom_all(space, cells(space, target, platform), display)
    if json:
        emit({"schema": 1, "sboms": [dataclasses.asdict(file) for file in files]})
        return
    for file in files:
        print(file.path)
