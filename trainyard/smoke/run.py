"""Run an image's own checks in it, and keep what they found beside its layout.

`dist/<target>/<os>-<arch>/` is the layout; the report lies beside it as `<os>-<arch>.report.json` and
`<os>-<arch>.junit.xml`, since a layout may hold nothing that is not the image's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainyard.errors import InputError, UsageError
from trainyard.files import write_atomic
from trainyard.report import CheckResult, Report, Status, failure, parse_results
from trainyard.runner.base import Command, Completed, Confinement, Runner
from trainyard.smoke.profiles import NORMAL, environment

DOCTOR = "/usr/local/bin/trainyard-doctor"
# The doctor limits each check; this is for a doctor that hangs.
TIMEOUT = 1800.0
_TAIL = 4000
_USAGE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeOptions:
    """Which checks (`only` by name, empty for all), and whether a missing device is a failure."""

    only: tuple[str, ...] = ()
    require_device: bool = False
    confinement: Confinement = NORMAL
    timeout: float = TIMEOUT


def smoke(
    runner: Runner,
    options: SmokeOptions,
    *,
    target: str,
    labels: Mapping[str, str],
    on_line: Callable[[str], object] = lambda _line: None,
) -> Report:
    """What the image's checks found; `on_line` hears each check as it ends.

    `labels` are the image's: they cannot be seen from inside, and are what a person reads first.

    A doctor that does not answer is a failed check named `doctor`. Errors: RunnerError when the container
    could not be started, UsageError for a name that no check has.
    """
    arguments = ["--json", "--sealed", "--labels", json.dumps(dict(labels), sort_keys=True)]
    arguments += [part for name in options.only for part in ("--only", name)]
    arguments += ["--require-device"] * options.require_device
    command = Command(
        argv=(DOCTOR, *arguments), env=environment(options.confinement), timeout=options.timeout
    )
    completed = runner.run(command, options.confinement, on_line=on_line)
    if completed.rc == _USAGE and not completed.stdout:
        lines = completed.stderr.decode("utf-8", "replace").strip().splitlines()
        message = lines[-1] if lines else f"{DOCTOR} refuses its arguments"
        raise UsageError(message, hint="invoke smoke without --only runs all of them")
    return Report(
        target=target,
        platform=str(runner.platform),
        digest=runner.digest,
        runner=runner.name,
        profile=options.confinement.name,
        notes=runner.notes,
        results=read_results(completed, timeout=options.timeout),
    )


def read_results(completed: Completed, *, timeout: float) -> tuple[CheckResult, ...]:
    """What the doctor said; silence, or an exit code that says otherwise, is a failure of its own."""
    evidence: dict[str, object] = {
        "rc": completed.rc,
        "out_of_memory": completed.out_of_memory,
        "stderr": completed.stderr.decode("utf-8", "replace")[-_TAIL:],
    }
    if completed.timed_out:
        return (failure("doctor", f"did not end within {timeout:g} s", evidence),)
    try:
        document = json.loads(completed.stdout)
        results = parse_results(document.get("results") if isinstance(document, dict) else None, "the doctor")
    except ValueError:
        why = ", out of memory" if completed.out_of_memory else ""
        reason = f"ended with exit code {completed.rc} and no results{why}"
        return (failure("doctor", reason, evidence),)
    except InputError as error:
        return (failure("doctor", error.message, evidence),)
    failed = any(result.status is Status.FAIL for result in results)
    if completed.rc != (1 if failed or not results else 0):
        said = "a failure" if failed else "no failure"
        return (
            *results,
            failure("doctor", f"ended with exit code {completed.rc} and reported {said}", evidence),
        )
    return results


def not_runnable(reason: str, *, target: str, platform: str, digest: str, runner: str) -> Report:
    """The report of an image that nothing here can run: one skip, which no channel takes for a pass."""
    result = CheckResult(name="run", status=Status.SKIP, reason=reason)
    return Report(
        target=target, platform=platform, digest=digest, runner=runner, profile=NORMAL.name, results=(result,)
    )


def report_path(layout: Path, profile: str = NORMAL.name) -> Path:
    """Where the report of the image in that layout lies; its name says the profile unless it is normal."""
    return layout.with_name(f"{_stem(layout, profile)}.report.json")


def junit_path(layout: Path, profile: str = NORMAL.name) -> Path:
    """Where its JUnit XML lies."""
    return layout.with_name(f"{_stem(layout, profile)}.junit.xml")


def write_report(report: Report, layout: Path) -> None:
    """Both forms, each whole or not at all."""
    write_atomic(junit_path(layout, report.profile), report.to_junit().encode())
    write_atomic(report_path(layout, report.profile), report.to_json().encode())


def last_report(layout: Path) -> Report | None:
    """The report beside a layout, None if there is none; InputError for one that is not sound."""
    path = report_path(layout)
    try:
        return Report.from_json(path.read_text("utf-8"), source=str(path))
    except FileNotFoundError:
        return None


def _stem(layout: Path, profile: str) -> str:
    return layout.name if profile == NORMAL.name else f"{layout.name}.{profile}"
