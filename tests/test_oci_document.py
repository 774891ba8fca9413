"""Reading other people's JSON: bounded, typed, and every error names the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainyard.errors import InputError
from trainyard.oci.document import MAX_JSON, Document, parse, read_bounded

GOOD = f"sha256:{'0' * 64}"


def document(**fields: object) -> Document:
    return Document(fields, "here.json")


def test_fields_of_the_right_type_come_back() -> None:
    found = document(t="x", n=3, c={"a": "b"}, l=[{"a": "c"}], s=["p", "q"], digest=GOOD)

    assert (found.text("t"), found.number("n"), found.child("c").text("a")) == ("x", 3, "b")
    assert [item.text("a") for item in found.children("l")] == ["c"]
    assert (found.texts("s"), found.digest()) == (["p", "q"], GOOD)


@pytest.mark.parametrize("value", [None, 1, [], {}])
def test_a_text_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(InputError, match=r"^here\.json: 'a' is not a string$"):
        document(a=value).text("a")


@pytest.mark.parametrize("value", [None, "1", -1, True, 1.5])
def test_a_number_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(InputError, match=r"^here\.json: 'a' is not a number$"):
        document(a=value).number("a")


@pytest.mark.parametrize("value", [None, [], "x"])
def test_an_object_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(InputError, match="'a' is not an object"):
        document(a=value).child("a")


@pytest.mark.parametrize(("value", "said"), [(None, "a list"), ({}, "a list"), ([1], "an object")])
def test_a_list_of_objects_that_is_none_is_refused(value: object, said: str) -> None:
    with pytest.raises(InputError, match=f"'a' is not {said}"):
        document(a=value).children("a")


def test_a_list_of_other_things_than_strings_is_refused() -> None:
    with pytest.raises(InputError, match="'a' is not a list of strings"):
        document(a=["x", 1]).texts("a")


@pytest.mark.parametrize("value", ["", "sha256:", f"sha512:{'0' * 64}", f"sha256:{'A' * 64}", f"{GOOD}/.."])
def test_a_digest_of_another_form_is_refused(value: str) -> None:
    with pytest.raises(InputError, match="not a sha256 digest"):
        document(digest=value).digest()


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b'{"a":' * 100_000, b"9" * 10_000])
def test_what_is_not_json_is_an_input_error(data: bytes) -> None:
    with pytest.raises(InputError, match=r"^here\.json is not JSON"):
        parse(data, "here.json")


@pytest.mark.parametrize("data", [b"1", b"null", b"[]", b'"x"'])
def test_json_that_is_no_object_is_an_input_error(data: bytes) -> None:
    with pytest.raises(InputError, match=r"^here\.json is not a JSON object"):
        parse(data, "here.json")


def test_a_file_of_the_bound_is_read_and_one_more_byte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b" " * MAX_JSON)
    assert len(read_bounded(path)) == MAX_JSON

    path.write_bytes(b" " * (MAX_JSON + 1))
    with pytest.raises(InputError, match="larger than any manifest"):
        read_bounded(path)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(InputError, match="not a regular file"):
        read_bounded(tmp_path / "pipe")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a regular file"):
        read_bounded(tmp_path)
