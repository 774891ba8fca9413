"""An OCI layout -> its Report, on whatever runner this host has."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path

from trainyard.errors import InputError, UsageError
from trainyard.oci.runnable import read_runnable
from trainyard.platforms import Platform
from trainyard.report import Report
from trainyard.runner.native import open_native
from trainyard.smoke.run import SmokeOptions, not_runnable, smoke, write_report
from trainyard.store import Store

RUNNERS = ("auto", "native")


def smoke_layout(
    layout: Path,
    options: SmokeOptions,
    *,
    target: str,
    platform: Platform,
    store: Store,
    host: Platform | None,
    runner: str = "auto",
    content_size: int | None = None,
    on_line: Callable[[str], object] = lambda _line: None,
) -> Report:
    """Unpack the image of an OCI layout, run its checks in it, write the report beside it, and return it.

    With `auto`, an image for another platform than the host's gives a report with one skip, which is not
    written; asked for by name, a runner that cannot run it is a RunnerError. `content_size` is for the check
    of free disk (`unpack_image`).
    """
    if runner not in RUNNERS:
        near = difflib.get_close_matches(runner, RUNNERS, 1)
        raise UsageError(
            f"unknown runner {runner!r}" + (f", did you mean {near[0]}?" if near else ""),
            hint=f"--runner is one of {', '.join(RUNNERS)}",
        )
    image = read_runnable(layout, platform)
    if runner == "auto" and host != platform:
        reason = f"needs a {platform} host, this one is {host or 'of no platform of ours'}"
        return not_runnable(reason, target=target, platform=str(platform), digest=image.digest, runner="none")
    if image.platform != platform:
        raise InputError(f"{layout} says {platform}, its config says {image.platform}")
    native = open_native(image, store, host=host, content_size=content_size)
    report = smoke(native, options, target=target, on_line=on_line)
    if not options.only:
        # A part of the checks must not stand for all of them.
        write_report(report, layout)
    return report
