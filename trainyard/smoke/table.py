"""A Report as a table for a person, on stderr."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trainyard.report import Report, Status

_STYLES = {Status.PASS: "green", Status.FAIL: "bold red", Status.SKIP: "yellow"}


def print_report(report: Report, console: Console) -> None:
    """Every check with its status, seconds and reason; below it how it ran."""
    console.print(
        Text(f"{report.target} {report.platform} {report.digest[:19]}: {report.summary()}", style="bold")
    )
    table = Table(box=None, pad_edge=False)
    for name in ("status", "check", "seconds", "reason"):
        table.add_column(name, justify="right" if name == "seconds" else "left", no_wrap=name != "reason")
    for result in report.results:
        # Text, not markup: a reason comes out of the image.
        table.add_row(
            Text(result.status.value, style=_STYLES[result.status]),
            Text(result.name),
            Text(f"{result.seconds:.1f}"),
            Text(result.reason),
        )
    console.print(table)
    for note in (f"runner {report.runner}, profile {report.profile}", *report.notes):
        console.print(Text(f"  {note}", style="dim"))
