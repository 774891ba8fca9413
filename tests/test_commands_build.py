"""What `invoke build` reports: one image as a document, and progress for a person."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from tests.support.plans import Yard, plan_of, wheel_layer
from tests.support.wheels import build_wheel, locked
from trainyard.build import BuiltImage
from trainyard.commands.build import BuildOutcome, Seconds
from trainyard.commands.display import Display
from trainyard.report import CheckResult, Report, Status


def built(tmp_path: Path) -> BuiltImage:
    """Forty parts of one wheel of five files: most of them empty."""
    yard = Yard(tmp_path)
    wheel = yard.admit(build_wheel(tmp_path, files={"demo.py": "x = 1\n"}))
    return yard.build(plan_of(*(wheel_layer(wheel, part=part, parts=40) for part in range(40))))


def document(outcome: BuildOutcome) -> dict[str, object]:
    found: dict[str, object] = json.loads(json.dumps(outcome.document()))
    return found


def test_the_document_lists_the_layers_of_the_manifest_and_sizes_that_add_up(tmp_path: Path) -> None:
    image = built(tmp_path)
    said = document(BuildOutcome(built=image, seconds=Seconds(fetch=0, assemble=1.23456)))
    layers = said["layers"]
    manifest = json.loads(image.image.manifest)

    assert isinstance(layers, list)
    assert [(one["digest"], one["size"]) for one in layers] == [
        (one["digest"], one["size"]) for one in manifest["layers"]
    ]
    assert said["size"] == sum(one["size"] for one in layers) + len(image.image.config) + len(
        image.image.manifest
    )
    assert said["digest"] == image.image.digest


def test_what_was_not_tested_has_no_report_and_no_seconds(tmp_path: Path) -> None:
    said = document(BuildOutcome(built=built(tmp_path), seconds=Seconds(fetch=0, assemble=1.23456)))

    assert said["report"] is None
    assert said["seconds"] == {"fetch": 0, "assemble": 1.235, "smoke": None}


def test_a_report_stands_in_the_document_whole(tmp_path: Path) -> None:
    image = built(tmp_path)
    report = Report(
        target="tiny",
        platform="linux/amd64",
        digest=image.image.digest,
        runner="native",
        profile="normal",
        results=(CheckResult(name="user", status=Status.FAIL, reason="root"),),
    )
    seconds = Seconds(fetch=0, assemble=0, smoke=2.0)

    assert (
        document(BuildOutcome(built=image, seconds=seconds, report=report))["report"] == report.to_document()
    )


def display(*, quiet: bool = False) -> tuple[Display, io.StringIO]:
    text = io.StringIO()
    return Display(Console(file=text, width=60), quiet=quiet), text


def test_without_a_terminal_each_layer_that_holds_something_is_one_plain_line(tmp_path: Path) -> None:
    """Bars in a CI log are noise."""
    yard = Yard(tmp_path)
    plan = yard.plan([build_wheel(tmp_path)], files={"etc/x": b"x"})
    shown, text = display()

    with shown.assembling(plan) as progress:
        yard.assembler(progress=progress).build(plan.layers)

    lines = sorted(text.getvalue().splitlines())
    assert [line.split("MB")[1].strip() for line in lines] == ["our files", "wheels: demo==1.0"]
    assert "\x1b" not in text.getvalue()


@pytest.mark.parametrize("line", ["[red]x[/red]", "a" * 200, "https://x.example.com/[0]"])
def test_talk_is_printed_as_it_is(line: str) -> None:
    """Names from locks and from tools are no markup, and a long line is not cut for a log."""
    shown, text = display()

    shown.say(line)

    assert text.getvalue() == f"{line}\n"


def test_quiet_says_nothing(tmp_path: Path) -> None:
    shown, text = display(quiet=True)
    wheel = locked(build_wheel(tmp_path))

    shown.say("x")
    with shown.fetching([wheel]) as on_bytes:
        on_bytes(10)

    assert text.getvalue() == ""
