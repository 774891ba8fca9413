"""Relations between packages, read as Debian's policy writes them."""

from __future__ import annotations

import pytest

from trainyard.debian.relations import Relation, parse_relations
from trainyard.errors import InputError


def test_commas_join_groups_and_bars_join_alternatives() -> None:
    groups = parse_relations("libc6 (>= 2.36), default-mta | mail-transport-agent , perl:any", owner="p")

    assert groups == (
        (Relation(name="libc6", operator=">=", version="2.36"),),
        (Relation(name="default-mta"), Relation(name="mail-transport-agent")),
        (Relation(name="perl", arch="any"),),
    )


@pytest.mark.parametrize("text", ["", "  ", ",", " , "])
def test_nothing_gives_no_groups(text: str) -> None:
    assert parse_relations(text, owner="p") == ()


@pytest.mark.parametrize("text", ["a(>=1)", "a ( >= 1 )", "a (>= 1)", "a  (>=  1)"])
def test_spaces_do_not_matter(text: str) -> None:
    assert parse_relations(text, owner="p") == ((Relation(name="a", operator=">=", version="1"),),)


@pytest.mark.parametrize(
    "text", ["a (> 1)", "a (>= )", "a b", "a | ", "a (>= 1", "[amd64]", "a [amd64]", "../a"]
)
def test_what_cannot_be_read_names_the_package_that_says_it(text: str) -> None:
    with pytest.raises(InputError, match=r"package owner: cannot read the relation"):
        parse_relations(text, owner="owner")


@pytest.mark.parametrize("text", ["a", "a:any", "a (>= 1)", "a:arm64 (<< 1:2~3)"])
def test_a_relation_prints_as_it_was_written(text: str) -> None:
    assert str(parse_relations(text, owner="p")[0][0]) == text


def test_a_relation_without_a_version_accepts_every_version() -> None:
    assert Relation(name="a").accepts("0~")


def test_a_versioned_relation_accepts_what_its_operator_says() -> None:
    relation = Relation(name="a", operator=">=", version="2")

    assert relation.accepts("2")
    assert not relation.accepts("2~rc1")
