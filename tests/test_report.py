"""A report says what was found, the same way each time, and is not believed when it is malformed."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console

from trainyard.errors import InputError
from trainyard.report import CheckResult, Report, Status, failure, parse_results
from trainyard.smoke.table import print_report

PASS = CheckResult(
    name="torch_import", status=Status.PASS, evidence='{"version": "2.15.0+cu132"}', seconds=1.25
)
FAIL = CheckResult(name="torch_build", status=Status.FAIL, reason="torch.version.cuda is '13.0', not '13.2'")
SKIP = CheckResult(name="device_matmul", status=Status.SKIP, reason="needs an NVIDIA GPU")


def report(*results: CheckResult) -> Report:
    return Report(
        target="cuda13.2",
        platform="linux/amd64",
        digest=f"sha256:{'a' * 64}",
        runner="native",
        profile="normal",
        notes=("as root",),
        results=results,
    )


SCHEMA = json.loads((Path(__file__).parents[1] / "docs" / "report.schema.json").read_text("utf-8"))


def test_reports_are_as_the_published_schema_says() -> None:
    jsonschema.validate(json.loads(report(PASS, FAIL, SKIP).to_json()), SCHEMA)


@pytest.mark.parametrize(
    "change", [{"schema": 2}, {"digest": "sha256:1"}, {"more": 1}, {"results": [{"name": "x"}]}], ids=str
)
def test_the_published_schema_refuses_what_is_no_report(change: dict[str, object]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**json.loads(report(PASS).to_json()), **change}, SCHEMA)


def test_the_published_schema_wants_a_reason_for_a_skip() -> None:
    document = json.loads(report(SKIP).to_json())
    document["results"][0]["reason"] = ""

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)


def test_a_report_is_ok_when_something_ran_and_nothing_failed() -> None:
    assert report(PASS, SKIP).ok
    assert not report(PASS, FAIL).ok
    assert not report().ok


def test_a_skip_is_never_counted_as_a_pass() -> None:
    assert report(PASS, FAIL, SKIP).summary() == "1 passed, 1 failed, 1 skipped"
    assert report(SKIP).summary() == "1 skipped"
    assert report().summary() == "nothing ran"


def test_json_comes_back_as_the_same_report() -> None:
    original = report(PASS, FAIL, SKIP)

    assert Report.from_json(original.to_json(), source="x") == original


def test_json_has_the_fields_of_the_contract() -> None:
    document = json.loads(report(PASS).to_json())

    assert document == {
        "schema": 1,
        "target": "cuda13.2",
        "platform": "linux/amd64",
        "digest": f"sha256:{'a' * 64}",
        "runner": "native",
        "profile": "normal",
        "notes": ["as root"],
        "results": [
            {
                "name": "torch_import",
                "status": "pass",
                "reason": "",
                "evidence": {"version": "2.15.0+cu132"},
                "seconds": 1.25,
            }
        ],
    }


def test_equal_reports_have_equal_bytes() -> None:
    one = parse_results([{**PASS.to_document(), "evidence": {"b": 1, "a": 2}}], "x")
    two = parse_results([{**PASS.to_document(), "evidence": {"a": 2, "b": 1}}], "x")

    assert report(*one).to_json() == report(*two).to_json()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 2}, "schema 2"),
        ({"target": None}, "target is not a string"),
        ({"notes": "x"}, "notes is not a list"),
        ({"results": {}}, "results is not a list"),
        ({"results": ["x"]}, "an object was expected"),
        ({"results": [PASS.to_document()] * 2}, "two results"),
        ({"results": [{**PASS.to_document(), "status": "ok"}]}, "torch_import: unknown status 'ok'"),
        ({"results": [{**PASS.to_document(), "status": "skip"}]}, "torch_import: skip without a reason"),
        ({"results": [{**PASS.to_document(), "seconds": -1}]}, "seconds is not a duration"),
        ({"results": [{**PASS.to_document(), "seconds": True}]}, "seconds is not a duration"),
        ({"results": [{**PASS.to_document(), "seconds": "1"}]}, "seconds is not a duration"),
        ({"results": [{**PASS.to_document(), "name": "a b\n"}]}, "no name of a check"),
        ({"results": [{**PASS.to_document(), "reason": 1}]}, "reason is not a string"),
    ],
)
def test_a_malformed_report_is_refused_with_its_source(change: dict[str, object], message: str) -> None:
    text = json.dumps({**report(PASS).to_document(), **change})

    with pytest.raises(InputError, match=r"dist/x\.json") as caught:
        Report.from_json(text, source="dist/x.json")

    assert message in caught.value.message


def test_text_that_is_not_json_is_refused() -> None:
    with pytest.raises(InputError, match="is not JSON"):
        Report.from_json("{", source="x")


def test_not_a_number_is_no_duration() -> None:
    with pytest.raises(InputError, match="not a duration"):
        Report.from_json(report(PASS).to_json().replace("1.25", "NaN"), source="x")


def test_junit_counts_and_names_failures_and_skips() -> None:
    suite = ET.fromstring(report(PASS, FAIL, SKIP).to_junit()).find("testsuite")

    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert cases["torch_build"].find("failure") is not None
    skipped = cases["device_matmul"].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "needs an NVIDIA GPU"
    assert [child.tag for child in cases["torch_import"]] == ["system-out"]
    assert cases["torch_import"].get("time") == "1.250"


def test_junit_stays_xml_whatever_an_image_says() -> None:
    hostile = failure("x", 'a\x00b\x1b[31m<&\ud800"]]>', {"k": "\x01"})

    suite = ET.fromstring(report(hostile).to_junit().encode("utf-8"))

    message = suite.find(".//failure")
    assert message is not None
    assert message.get("message") == 'a\ufffdb\ufffd[31m<&\ufffd"]]>'


def test_the_table_shows_every_check_and_does_not_read_markup() -> None:
    console = Console(file=io.StringIO(), width=120)
    tricky = failure("x", "[red]not markup[/red]")

    print_report(report(PASS, SKIP, tricky), console)

    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "[red]not markup[/red]" in text
    assert all(name in text for name in ("torch_import", "device_matmul", "needs an NVIDIA GPU", "as root"))
    assert "1 passed, 1 failed, 1 skipped" in text
