"""`invoke inventory`: what this host or an image has, and what fits."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainyard.cli.context import JSON, TARGET, cells, workspace
from trainyard.commands.edge import command, emit
from trainyard.errors import UsageError

if TYPE_CHECKING:
    from invoke import Context


@command(
    iterable=["target"],
    help={
        **JSON,
        **TARGET,
        "target": "Also this target's image of dist/; may repeat.",
        "image": "Also this image: the folder of an OCI layout, or a name that the Docker Engine knows.",
    },
)
def inventory(
    _: Context, target: Sequence[str], platform: str = "", image: str = "", json: bool = False
) -> None:
    """Say what this host or an image has, which targets run here, and what is missing."""
    from rich.console import Console

    from trainyard.commands.inventory import (
        built_inventory,
        document,
        host_inventory,
        host_lines,
        image_lines,
        named_inventory,
        verdict_table,
    )

    if image and target:
        raise UsageError("--image and --target are two ways to name an image", hint="give one of them")
    space, _display = workspace()
    chosen = cells(space, target, platform) if target else []
    if image:
        found = named_inventory(space, image)
    elif chosen:
        found = built_inventory(space, chosen)
    else:
        found = (host_inventory(space),)
    if json:
        documents = [document(one) for one in found]
        emit(documents[0] if len(documents) == 1 else {"schema": 1, "inventories": documents})
        return
    print("\n".join(host_lines(found[0].host)))
    for one in found:
        if one.image is not None:
            print("\n".join(["", *image_lines(one.image)]))
    console = Console(width=None if sys.stdout.isatty() else 240)
    console.print()
    console.print(verdict_table([verdict for one in found for verdict in one.verdicts]))
