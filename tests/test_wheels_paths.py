"""Names in a wheel that may, and may not, become paths in an image."""

from __future__ import annotations

import pytest

from trainyard.wheels.paths import parents, path_problem


@pytest.mark.parametrize(
    "path",
    [
        "a",
        "a/b.py",
        "a b/c",
        "ä/ö.txt",
        "..a/b..",
        "a/.hidden",
        "wh.a",
        "a/" + "x" * 255,
        "/".join(["abcdefg"] * 200),
    ],
)
def test_ordinary_paths_have_no_problem(path: str) -> None:
    assert path_problem(path) == ""


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/etc/passwd", "is an absolute path"),
        ("../x", "escapes the environment"),
        ("a/../../x", "escapes the environment"),
        ("a/..", "escapes the environment"),
        ("..", "escapes the environment"),
        ("a\\b", "has a backslash in its name"),
        ("..\\x", "has a backslash in its name"),
        ("a\0b", "has a control character in its name"),
        ("a\nb", "has a control character in its name"),
        ("a\x7f", "has a control character in its name"),
        ("", "has an empty component"),
        ("a//b", "has an empty component"),
        ("a/", "has an empty component"),
        ("./a", "has an empty component"),
        ("a/.", "has an empty component"),
        ("a/.wh.b", "would be a whiteout in an image"),
        (".wh..wh..opq", "would be a whiteout in an image"),
        ("a/" + "x" * 256, "is too long a name"),
        ("ä" * 128, "is too long a name"),
        ("/".join(["abcdefg"] * 300), "is too long a name"),
    ],
)
def test_each_bad_path_is_told_by_its_own_reason(path: str, problem: str) -> None:
    assert path_problem(path) == problem


def test_parents_are_all_folders_above_nearest_first() -> None:
    assert parents("a/b/c") == ["a/b", "a"]
    assert parents("a") == []
