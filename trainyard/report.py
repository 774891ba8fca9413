"""A Report: what the checks found about one image, as values, JSON and JUnit XML."""

from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum

from trainyard.errors import InputError

SCHEMA = 1
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
_MAX_RESULTS = 1000
# Characters that XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Status(Enum):
    """What a check found; a check that could not run is SKIP, and never PASS."""

    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One check: its status, why (empty for a pass), what it saw as JSON text, and its wall time."""

    name: str
    status: Status
    reason: str = ""
    evidence: str = "{}"
    seconds: float = 0.0

    def to_document(self) -> dict[str, object]:
        """The result as JSON values."""
        return {**asdict(self), "status": self.status.value, "evidence": json.loads(self.evidence)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The results of one image, by its manifest digest; `notes` say what this way of running cannot prove."""

    target: str
    platform: str
    digest: str
    runner: str
    profile: str
    results: tuple[CheckResult, ...]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether something ran and nothing failed; which checks may be skipped is a channel's to say."""
        return bool(self.results) and not self.named(Status.FAIL)

    def named(self, status: Status) -> tuple[CheckResult, ...]:
        """The results of one status."""
        return tuple(result for result in self.results if result.status is status)

    def summary(self) -> str:
        """`9 passed, 1 failed, 2 skipped`, leaving out what there is none of."""
        words = {Status.PASS: "passed", Status.FAIL: "failed", Status.SKIP: "skipped"}
        counts = [f"{len(self.named(status))} {word}" for status, word in words.items() if self.named(status)]
        return ", ".join(counts) or "nothing ran"

    def to_document(self) -> dict[str, object]:
        """The report as JSON values."""
        results = [result.to_document() for result in self.results]
        return {"schema": SCHEMA, **asdict(self), "notes": list(self.notes), "results": results}

    def to_json(self) -> str:
        """Sorted, indented JSON with a final newline: equal reports have equal bytes."""
        return json.dumps(self.to_document(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"

    def to_junit(self) -> str:
        """JUnit XML as CI systems read it: one suite, failures and skips with reasons, evidence as output."""
        suite = ET.Element(
            "testsuite",
            name=f"{self.target} {self.platform}",
            tests=str(len(self.results)),
            failures=str(len(self.named(Status.FAIL))),
            errors="0",
            skipped=str(len(self.named(Status.SKIP))),
            time=_seconds(sum(result.seconds for result in self.results)),
        )
        properties = ET.SubElement(suite, "properties")
        for name in ("digest", "runner", "profile"):
            ET.SubElement(properties, "property", name=name, value=_xml(getattr(self, name)))
        for note in self.notes:
            ET.SubElement(properties, "property", name="note", value=_xml(note))
        for result in self.results:
            _case(suite, self.target, result)
        root = ET.Element("testsuites")
        root.append(suite)
        ET.indent(root)
        return ET.tostring(root, "unicode", xml_declaration=True) + "\n"

    @classmethod
    def from_json(cls, text: str, *, source: str) -> Report:
        """A report that somebody wrote; InputError, naming `source`, for anything that is not one."""
        document = _object(_parsed(text, source), source)
        if document.get("schema") != SCHEMA:
            raise InputError(f"{source}: report of schema {document.get('schema')!r}, not {SCHEMA}")
        texts = {
            name: _text(document, name, source)
            for name in ("target", "platform", "digest", "runner", "profile")
        }
        notes = document.get("notes", [])
        if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
            raise InputError(f"{source}: notes is not a list of strings")
        return cls(**texts, notes=tuple(notes), results=parse_results(document.get("results"), source))


def parse_results(value: object, source: str) -> tuple[CheckResult, ...]:
    """Results as JSON values, from an image or a file; InputError for anything else or a name twice."""
    if not isinstance(value, list) or len(value) > _MAX_RESULTS:
        raise InputError(f"{source}: results is not a list")
    results = tuple(_result(_object(item, source), source) for item in value)
    names = [result.name for result in results]
    if len(set(names)) != len(names):
        raise InputError(f"{source}: a check has two results")
    return results


def failure(name: str, reason: str, evidence: Mapping[str, object] | None = None) -> CheckResult:
    """A failed result that we, and not a check, give."""
    return CheckResult(
        name=name, status=Status.FAIL, reason=reason, evidence=json.dumps(evidence or {}, sort_keys=True)
    )


def _result(item: Mapping[str, object], source: str) -> CheckResult:
    name = _text(item, "name", source)
    if not _NAME.fullmatch(name):
        raise InputError(f"{source}: {name[:100]!r} is no name of a check")
    seconds = item.get("seconds")
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, int | float)
        or not math.isfinite(seconds)
        or seconds < 0
    ):
        raise InputError(f"{source}: {name}: seconds is not a duration")
    try:
        status = Status(item.get("status"))
    except ValueError:
        raise InputError(f"{source}: {name}: unknown status {item.get('status')!r}") from None
    reason = _text(item, "reason", source)
    if status is not Status.PASS and not reason:
        raise InputError(f"{source}: {name}: {status.value} without a reason")
    evidence = json.dumps(item.get("evidence"), sort_keys=True, ensure_ascii=False)
    return CheckResult(name=name, status=status, reason=reason, evidence=evidence, seconds=float(seconds))


def _case(suite: ET.Element, target: str, result: CheckResult) -> None:
    case = ET.SubElement(
        suite, "testcase", classname=f"trainyard.{target}", name=result.name, time=_seconds(result.seconds)
    )
    if result.status is Status.FAIL:
        ET.SubElement(case, "failure", message=_xml(result.reason.partition("\n")[0])).text = _xml(
            result.reason
        )
    if result.status is Status.SKIP:
        ET.SubElement(case, "skipped", message=_xml(result.reason))
    ET.SubElement(case, "system-out").text = _xml(result.evidence)


def _parsed(text: str, source: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"{source} is not JSON: {error}") from None


def _object(value: object, source: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise InputError(f"{source}: an object was expected")
    return value


def _text(item: Mapping[str, object], name: str, source: str) -> str:
    value = item.get(name)
    if not isinstance(value, str):
        raise InputError(f"{source}: {name} is not a string")
    return value


def _seconds(value: float) -> str:
    return f"{value:.3f}"


def _xml(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
