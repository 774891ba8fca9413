"""`invoke list`, `lock`, `plan`: what is supported, what is pinned, what it will be."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainyard.cli.context import JSON, TARGET, cells, workspace
from trainyard.commands.edge import chosen, command, emit
from trainyard.errors import TrainyardError

if TYPE_CHECKING:
    from invoke import Context


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
    from trainyard.lock.changes import summary

    space, _display = workspace()
    targets = select_targets(space.matrix, chosen(target), every=True)
    if check:
        results = check_locks(space, targets, named=bool(target))
    else:
        results = write_locks(space, targets, LockRequest(upgrade=upgrade, package=package, until=until))
    if json:
        emit({"schema": 1, "locks": [dataclasses.asdict(result) for result in results]})
    failed = [result for result in results if result.problems]
    for result in results:
        # A single hint comes with the error below.
        space.say(result.line(hint=len(failed) > 1))
    if upgrade:
        space.say(summary([result.moved for result in results if not result.problems]))
    if failed:
        what = "are not what matrix.yaml asks for" if check else "could not be locked"
        names = ", ".join(result.lock for result in failed)
        raise TrainyardError(
            f"{len(failed)} of {len(results)} {what}: {names}", hint=failed[0].hint or "invoke lock"
        )


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
