"""RECORD: parsing with every problem, writing with one form."""

from __future__ import annotations

import hashlib

import pytest

from tests.support.wheels import record_hash
from trainyard.wheels.record import Row, encoded, format_record, parse_record, row_of

HASH = record_hash(b"x")


def test_a_row_is_path_hash_and_size() -> None:
    rows, problems = parse_record(f"a.py,{HASH},1\n".encode())

    assert problems == []
    assert rows == {"a.py": row_of("a.py", b"x")}


def test_a_quoted_path_with_a_comma_comes_back_as_it_was_written() -> None:
    text = f'"a,""b"".py",{HASH},1\n'.encode()
    rows, problems = parse_record(text)

    assert problems == []
    assert list(rows) == ['a,"b".py']
    assert format_record(rows.values()) == text


def test_crlf_and_blank_lines_do_not_matter() -> None:
    rows, problems = parse_record(f"a,{HASH},1\r\n\r\nb,,\r\n".encode())

    assert problems == []
    assert list(rows) == ["a", "b"]


def test_a_backslash_stays_a_backslash() -> None:
    """A tolerant reader would turn it into a slash and find another file."""
    rows, _ = parse_record(f"a\\b,{HASH},1\n".encode())

    assert list(rows) == ["a\\b"]


def test_padding_of_the_hash_is_tolerated_and_dropped() -> None:
    rows, problems = parse_record(f"a,{HASH}=,1\n".encode())

    assert problems == []
    assert rows["a"].value == encoded(hashlib.sha256(b"x").digest())


@pytest.mark.parametrize("algorithm", ["sha384", "sha512"])
def test_hashes_stronger_than_sha256_are_taken(algorithm: str) -> None:
    rows, problems = parse_record(f"a,{record_hash(b'x', algorithm)},1\n".encode())

    assert problems == []
    assert rows["a"].algorithm == algorithm


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (f"a,{record_hash(b'x', 'md5')},1", "'a': hash 'md5' is not sha256 or better"),
        (f"a,{record_hash(b'x', 'sha1')},1", "'a': hash 'sha1' is not sha256 or better"),
        ("a,sha256,1", "'a': not a sha256 in URL-safe base64"),
        (f"a,{HASH[:-1]},1", "'a': not a sha256 in URL-safe base64"),
        (f"a,{HASH[:-1]}+,1", "'a': not a sha256 in URL-safe base64"),
        (f"a,sha256={'0' * 64},1", "'a': not a sha256 in URL-safe base64"),
        (f"a,{HASH},-1", "'a': '-1' is not a size"),
        (f"a,{HASH},1.0", "'a': '1.0' is not a size"),
        (f"a,{HASH},{'9' * 30}", f"'a': '{'9' * 30}' is not a size"),
        (f"a,{HASH}", "has 2 fields instead of 3"),
        (f"a,b,{HASH},1", "has 4 fields instead of 3"),
    ],
)
def test_a_bad_line_is_named_by_number_and_reason(line: str, problem: str) -> None:
    _, problems = parse_record(f"ok,{HASH},1\n{line}\n".encode())

    assert problems == [f"RECORD line 2: {problem}"]


def test_every_bad_line_is_reported() -> None:
    _, problems = parse_record(b"a\nb\nc,,\n")

    assert problems == [
        "RECORD line 1: has 1 fields instead of 3",
        "RECORD line 2: has 1 fields instead of 3",
    ]


def test_a_file_listed_twice_alike_is_one_row_and_differently_is_a_problem() -> None:
    rows, problems = parse_record(f"a,{HASH},1\na,{HASH},1\n".encode())
    assert (len(rows), problems) == (1, [])

    _, problems = parse_record(f"a,{HASH},1\na,{HASH},2\n".encode())
    assert problems == ["RECORD line 2: 'a' is listed twice, differently"]


@pytest.mark.parametrize("data", [b"\xff,,\n", b'"a,,\n'])
def test_what_is_not_utf8_csv_is_one_problem(data: bytes) -> None:
    rows, problems = parse_record(data)

    assert rows == {}
    assert len(problems) == 1
    assert problems[0].startswith("RECORD is not UTF-8 CSV")


def test_written_rows_are_sorted_by_path_and_end_in_lf() -> None:
    rows = [row_of("b", b""), Row(path="RECORD"), row_of("a/b", b"x")]

    assert format_record(rows) == (f"RECORD,,\na/b,{HASH},1\nb,{record_hash(b'')},0\n").encode()


def test_what_is_written_parses_to_the_same_rows() -> None:
    rows = {path: row_of(path, path.encode()) for path in ("a", "ä,b", 'q"uote')}

    assert parse_record(format_record(rows.values())) == (dict(sorted(rows.items())), [])
