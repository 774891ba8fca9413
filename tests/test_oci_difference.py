"""What differs between two layers that should be one."""

from __future__ import annotations

from pathlib import Path

import pytest
import zstandard

from tests.support.layouts import Raw, folder, layer, link, tar
from trainyard.oci.difference import explain_layer

FILE = Raw(name="etc/x", data=b"one")


def explained(tmp_path: Path, ours: list[Raw], theirs: list[Raw]) -> tuple[str, ...]:
    paths = [tmp_path / "ours", tmp_path / "theirs"]
    for path, members in zip(paths, (ours, theirs), strict=True):
        path.write_bytes(layer(members).blob)
    return explain_layer(*paths)


@pytest.mark.parametrize(
    ("other", "line"),
    [
        pytest.param(Raw(name="etc/x", data=b"one", mode=0o664), "etc/x: mode 0o644, then 0o664", id="mode"),
        pytest.param(Raw(name="etc/x", data=b"one", uid=7), "etc/x: owner (0, 0), then (7, 0)", id="owner"),
        pytest.param(Raw(name="etc/x", data=b"one!"), "etc/x: size 3, then 4", id="size"),
        pytest.param(link("etc/x", "y"), "etc/x: link , then y", id="link"),
    ],
)
def test_what_differs_in_a_member_is_named_with_both_values(tmp_path: Path, other: Raw, line: str) -> None:
    assert line in explained(tmp_path, [FILE], [other])


def test_other_content_of_the_same_size_is_seen_and_nothing_else_is_said(tmp_path: Path) -> None:
    (line,) = explained(tmp_path, [FILE], [Raw(name="etc/x", data=b"two")])

    assert line.startswith("etc/x: content ")


def test_members_of_one_side_are_said_with_their_side(tmp_path: Path) -> None:
    lines = explained(tmp_path, [FILE, Raw(name="a")], [FILE, Raw(name="b")])

    assert lines == ("a: only in the first build", "b: only in the second build")


def test_an_order_that_differs_is_called_that(tmp_path: Path) -> None:
    one, two = folder("a/"), folder("b/")

    assert explained(tmp_path, [one, two], [two, one]) == ("the same members in another order",)


def test_tar_bytes_that_no_member_shows_are_called_that(tmp_path: Path) -> None:
    """Such as another padding at the end."""
    data = tar([FILE])
    for name, end in (("ours", b""), ("theirs", bytes(512))):
        (tmp_path / name).write_bytes(layer(data + end).blob)

    lines = explain_layer(tmp_path / "ours", tmp_path / "theirs")

    assert lines == ("the same members, other tar bytes",)


def test_twenty_lines_are_shown_and_the_rest_counted(tmp_path: Path) -> None:
    many = [Raw(name=f"f{number:02}") for number in range(25)]

    lines = explained(tmp_path, many, [])

    assert len(lines) == 21
    assert lines[-1] == "and 5 more"


def test_a_layer_of_many_frames_is_read_to_its_end(tmp_path: Path) -> None:
    """A compressor with several jobs, or another one than ours, may write more than one frame."""
    data = tar([FILE, Raw(name="last", data=b"z" * 5000)])
    half = len(data) // 2
    frames = zstandard.compress(data[:half]) + zstandard.compress(data[half:])
    (tmp_path / "ours").write_bytes(frames)
    (tmp_path / "theirs").write_bytes(layer(tar([FILE])).blob)

    assert explain_layer(tmp_path / "ours", tmp_path / "theirs") == ("last: only in the first build",)


def test_a_large_file_is_compared_in_pieces(tmp_path: Path) -> None:
    large = bytes(3 << 20)
    lines = explained(tmp_path, [Raw(name="large", data=large)], [Raw(name="large", data=large[:-1] + b"x")])

    assert [line.partition(" ")[2].split()[0] for line in lines] == ["content"]
