"""RECORD: the list of a distribution's files with their hashes (PyPA, Recording installed projects)."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass

# At least as strong as sha256, which the wheel specification demands; characters of unpadded base64.
_LENGTHS = {"sha256": 43, "sha384": 64, "sha512": 86}
_BASE64 = re.compile(r"[A-Za-z0-9_-]+")
_SIZE = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line: path as written, hash algorithm and base64 value (empty without a hash), size if given."""

    path: str
    algorithm: str = ""
    value: str = ""
    size: int | None = None


def row_of(path: str, data: bytes) -> Row:
    """The row of a file whose bytes are at hand."""
    return Row(path=path, algorithm="sha256", value=encoded(hashlib.sha256(data).digest()), size=len(data))


def encoded(digest: bytes) -> str:
    """A digest in URL-safe base64 without padding, as RECORD has it."""
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def parse_record(data: bytes) -> tuple[dict[str, Row], list[str]]:
    """RECORD -> rows by path, and what is wrong with it."""
    rows: dict[str, Row] = {}
    problems = []
    try:
        lines = list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        return rows, [f"RECORD is not UTF-8 CSV: {error}"]
    for number, fields in enumerate(lines, start=1):
        if not fields:
            continue
        row = _row(fields)
        if isinstance(row, str):
            problems.append(f"RECORD line {number}: {row}")
        elif rows.setdefault(row.path, row) != row:
            problems.append(f"RECORD line {number}: {row.path!r} is listed twice, differently")
    return rows, problems


def format_record(rows: Iterable[Row]) -> bytes:
    """Rows sorted by path, one a line, LF."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in sorted(rows, key=lambda row: row.path):
        written = f"{row.algorithm}={row.value}" if row.algorithm else ""
        writer.writerow((row.path, written, "" if row.size is None else row.size))
    return text.getvalue().encode()


def _row(fields: list[str]) -> Row | str:
    """The row, or what is wrong with it."""
    if len(fields) != 3:
        return f"has {len(fields)} fields instead of 3"
    path, written, size = fields
    if size and not _SIZE.fullmatch(size):
        return f"{path!r}: {size[:40]!r} is not a size"
    count = int(size) if size else None
    if not written:
        return Row(path=path, size=count)
    algorithm, _, value = written.partition("=")
    value = value.rstrip("=")
    if algorithm not in _LENGTHS:
        return f"{path!r}: hash {algorithm[:40]!r} is not sha256 or better"
    if len(value) != _LENGTHS[algorithm] or not _BASE64.fullmatch(value):
        return f"{path!r}: not a {algorithm} in URL-safe base64"
    return Row(path=path, algorithm=algorithm, value=value, size=count)
