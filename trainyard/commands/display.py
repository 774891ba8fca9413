"""Progress on stderr: bars on a terminal, plain lines elsewhere; never on stdout."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)
from rich.progress import (
    Progress as Bars,
)

from trainyard.assemble import Progress
from trainyard.layers import LayerSpec
from trainyard.lock.model import LockedDeb, LockedWheel
from trainyard.plan import Plan
from trainyard.store import LayerRecord


@dataclass(frozen=True, slots=True)
class Display:
    """What a person sees while long work runs; `quiet` shows nothing."""

    console: Console
    quiet: bool = False

    def say(self, line: str) -> None:
        """One line of talk."""
        if not self.quiet:
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    @contextlib.contextmanager
    def testing(self, name: str) -> Iterator[Callable[[str], None]]:
        """The last thing a long test run said, on a terminal; the table at its end says it all."""
        with self.console.status(f"checks of {name}") as status:
            yield lambda line: status.update(f"checks of {name}: {line.strip()}")

    @contextlib.contextmanager
    def fetching(self, inputs: Sequence[LockedWheel | LockedDeb]) -> Iterator[Callable[[int], None]]:
        """A bar of downloaded bytes."""
        with self.moving(f"fetch {len(inputs)} inputs", sum(item.size for item in inputs)) as on_bytes:
            yield on_bytes

    @contextlib.contextmanager
    def moving(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """A bar of `total` bytes that go somewhere."""
        with self._bars() as bars:
            task = bars.add_task(what, total=total)
            yield lambda count: bars.advance(task, count)

    @contextlib.contextmanager
    def assembling(self, plan: Plan) -> Iterator[Progress]:
        """A line for each finished layer, a bar over all that are being made."""
        flowing: dict[str, int] = {}
        with self._bars() as bars:
            task = bars.add_task(f"assemble {plan.target} {plan.platform}", total=None, visible=False)

            def begin(spec: LayerSpec) -> None:
                flowing[spec.key] = 0
                bars.update(task, visible=True)

            def flow(spec: LayerSpec, count: int) -> None:
                flowing[spec.key] += count
                bars.advance(task, count)

            def done(spec: LayerSpec, record: LayerRecord) -> None:
                if record.files:
                    self.say(f"  {record.size / 1e6:8.1f} MB  {spec.title}")

            yield Progress(begin=begin, flow=flow, done=done)

    @contextlib.contextmanager
    def _bars(self) -> Iterator[Bars]:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeElapsedColumn(),
        )
        bars = Bars(
            *columns, console=self.console, transient=True, disable=self.quiet or not self.console.is_terminal
        )
        with bars:
            yield bars
