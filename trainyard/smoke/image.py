"""An OCI layout -> its Report, on whatever runner this host has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from trainyard.errors import RunnerError
from trainyard.oci.runnable import read_runnable
from trainyard.platforms import Platform
from trainyard.report import Report
from trainyard.runner.choose import Candidate, known_runner, open_runner
from trainyard.smoke.run import SmokeOptions, not_runnable, smoke, write_report
from trainyard.store import Store


def smoke_layout(
    layout: Path,
    options: SmokeOptions,
    *,
    target: str,
    platform: Platform,
    store: Store,
    host: Platform | None,
    environ: Mapping[str, str],
    runner: str = "auto",
    content_size: int | None = None,
    on_line: Callable[[str], object] = lambda _line: None,
) -> Report:
    """Run the checks of an OCI layout's image in it, write the report beside it, and return it.

    `environ` says how to reach an engine. With `auto`, an image for another platform than the host's that no
    engine runs gives a report with one skip, which is not written; asked for by name, a runner that cannot run
    it is a RunnerError. `content_size` is for the check of free disk (`unpack_image`).
    """
    known_runner(runner)
    candidate = Candidate(
        layout=layout,
        platform=platform,
        repository=target,
        store=store,
        host=host,
        environ=environ,
        content_size=content_size,
        say=on_line,
    )
    try:
        opened = open_runner(runner, candidate)
    except RunnerError:
        if runner != "auto" or host == platform:
            raise
        digest = read_runnable(layout, platform).digest
        reason = f"needs a {platform} host, this one is {host or 'of no platform of ours'}"
        return not_runnable(reason, target=target, platform=str(platform), digest=digest, runner="none")
    labels = dict(opened.image.labels)
    report = smoke(opened.runner, options, target=target, labels=labels, on_line=on_line)
    if not options.only:
        # A part of the checks must not stand for all of them.
        write_report(report, opened.layout)
    return report
