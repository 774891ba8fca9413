"""Conflicts between the layers of one image."""

from __future__ import annotations

import json

import pytest

from trainyard.errors import InputError
from trainyard.oci.entry import Kind, directory_entry, file_entry, symlink_entry
from trainyard.oci.members import Member, check_image, parents


def file(path: str, origin: str) -> Member:
    return Member.of(file_entry(path, b"", origin=origin))


def directory(path: str, origin: str) -> Member:
    return Member.of(directory_entry(path, origin=origin))


def link(path: str, target: str, origin: str) -> Member:
    return Member.of(symlink_entry(path, target, origin=origin))


def problems(*layers: list[Member]) -> list[str]:
    with pytest.raises(InputError) as caught:
        check_image(layers)
    assert "invoke lock" in caught.value.hint
    return [line.strip() for line in caught.value.message.splitlines()[1:]]


def test_layers_that_only_share_directories_fit() -> None:
    check_image(
        [
            [directory("usr", "base"), link("bin", "usr/bin", "base"), file("usr/bin/sh", "dash")],
            [directory("usr", "demo"), file("usr/bin/x", "demo")],
            [],
        ]
    )


@pytest.mark.parametrize("apart", [True, False])
def test_two_packages_with_one_path_are_both_named(apart: bool) -> None:
    one, two = [file("opt/x", "one==1")], [file("opt/x", "two==2")]

    found = problems(one, two) if apart else problems([*one, *two])

    assert found == ["two packages own one path: opt/x (a file of one==1) and opt/x (a file of two==2)"]


def test_a_link_and_a_file_at_one_path_are_refused() -> None:
    found = problems([link("opt/x", "y", "one")], [file("opt/x", "two")])

    assert found == ["two packages own one path: opt/x (a symlink to y of one) and opt/x (a file of two)"]


@pytest.mark.parametrize("turned", [True, False])
def test_a_file_below_another_layers_link_is_refused_in_either_order(turned: bool) -> None:
    """base-files ships /bin -> usr/bin; a directory bin from another layer would replace the link."""
    layers = [[link("bin", "usr/bin", "base-files")], [file("bin/x", "demo==1")]]

    found = problems(*(layers[::-1] if turned else layers))

    assert found == ["bin/x (a file of demo==1) lies below bin (a symlink to usr/bin of base-files)"]


def test_a_file_far_below_another_layers_link_is_refused() -> None:
    found = problems([link("lib", "usr/lib", "base")], [file("lib/a/b/c", "demo")])

    assert found == ["lib/a/b/c (a file of demo) lies below lib (a symlink to usr/lib of base)"]


def test_a_directory_below_another_layers_file_is_refused() -> None:
    found = problems([file("a", "one")], [directory("a/b", "two")])

    assert found == ["a/b (a directory of two) lies below a (a file of one)"]


@pytest.mark.parametrize("turned", [True, False])
def test_a_directory_and_a_file_at_one_path_are_refused_in_either_order(turned: bool) -> None:
    layers = [[directory("var/run", "base")], [link("var/run", "/run", "state")]]

    found = problems(*(layers[::-1] if turned else layers))

    both = "var/run (a directory of base) and var/run (a symlink to /run of state)"
    assert found == [f"a directory and something else at one path: {both}"]


def test_every_conflict_is_listed_at_once() -> None:
    found = problems(
        [link("bin", "usr/bin", "base"), file("x", "base"), directory("d", "base")],
        [file("bin/a", "demo"), file("bin/b", "demo"), file("x", "demo"), file("d", "demo")],
    )

    assert [line.split(" (")[0] for line in found] == [
        "two packages own one path: x",
        "a directory and something else at one path: d",
        "bin/a",
        "bin/b",
    ]


def test_a_name_that_only_begins_like_a_link_lies_beside_it() -> None:
    check_image([[link("lib", "usr/lib", "base")], [file("lib64/x", "demo"), file("library", "demo")]])


def test_an_unknown_origin_is_said() -> None:
    assert "of unknown origin" in problems([file("x", "")], [file("x", "demo")])[0]


@pytest.mark.parametrize("kind", list(Kind))
def test_a_member_survives_json(kind: Kind) -> None:
    member = Member(path="a/é", kind=kind, mode=0o644, uid=1, gid=2, link="b", origin="demo==1")

    assert Member.from_json(json.loads(json.dumps(member.to_json()))) == member


@pytest.mark.parametrize(
    "row", [None, [], ["a"], ["a", "pipe", 0, 0, 0, "", ""], ["a", "file", "0", 0, 0, "", ""]]
)
def test_a_row_that_is_no_member_is_a_value_error(row: object) -> None:
    with pytest.raises(ValueError, match=r"not a member|not a valid Kind"):
        Member.from_json(row)


def test_parents_are_named_nearest_first() -> None:
    assert list(parents("a/b/c")) == ["a/b", "a"]
    assert list(parents("a")) == []
