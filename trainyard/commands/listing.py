"""`invoke list`: what stands, per target and platform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from trainyard.build import read_golden
from trainyard.errors import TrainyardError
from trainyard.matrix.model import Target
from trainyard.oci.layout import read_layout
from trainyard.platforms import Platform
from trainyard.report import Report
from trainyard.smoke.run import last_report
from trainyard.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One target on one platform: is it locked, recorded, built, tested, and if not, why not."""

    target: str
    platform: str
    title: str
    locked: bool
    recorded: str | None
    built: str | None
    size: int | None
    report: str | None
    reasons: tuple[str, ...]


def list_cells(workspace: Workspace) -> tuple[Cell, ...]:
    """Every cell of the matrix, in name order."""
    matrix = workspace.matrix
    return tuple(
        _cell(workspace, target, platform)
        for target in (matrix.target(name) for name in sorted(matrix.targets))
        for platform in target.platforms
    )


def _cell(workspace: Workspace, target: Target, platform: Platform) -> Cell:
    reasons: list[str] = []
    locked = False
    recorded = None
    path = workspace.project.golden(target.name, platform)
    try:
        reasons += workspace.lock_problems(target, platform)
        locked = not reasons
        if golden := read_golden(workspace.project, path):
            recorded = golden.manifest_digest
            if locked and workspace.plan(target, platform).key != golden.plan_key:
                reasons.append("inputs moved since the golden record")
        elif locked:
            reasons.append(f"{workspace.project.relative(path)} is missing")
    except TrainyardError as error:
        reasons.append(error.message)
    built, size = _built(workspace, target, platform)
    report = _report(workspace, target, platform)
    return Cell(
        target=target.name,
        platform=str(platform),
        title=target.title,
        locked=locked,
        recorded=recorded,
        built=built,
        size=size,
        report=report.summary() if report and report.digest == built else None,
        reasons=tuple(reasons),
    )


def _built(workspace: Workspace, target: Target, platform: Platform) -> tuple[str | None, int | None]:
    try:
        layout = read_layout(workspace.project.dist(target.name, platform))
    except (OSError, ValueError, TrainyardError):
        return None, None
    if len(layout.images) != 1:
        return None, None
    return layout.images[0].digest, sum(layer.size for layer in layout.images[0].layers)


def _report(workspace: Workspace, target: Target, platform: Platform) -> Report | None:
    try:
        return last_report(workspace.project.dist(target.name, platform))
    except TrainyardError:
        return None


def listing_table(cells: Sequence[Cell]) -> Table:
    """The cells for a person."""
    table = Table("target", "platform", "locked", "built", "size", "checks", "why not", box=None)
    for cell in cells:
        table.add_row(
            cell.target,
            cell.platform,
            "yes" if cell.locked else "no",
            (cell.built or "no").removeprefix("sha256:")[:12],
            f"{cell.size / 1e6:.0f} MB" if cell.size else "",
            cell.report or "",
            "\n".join(cell.reasons),
        )
    return table
