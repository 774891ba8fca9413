"""The closure is the one that apt would install, for every order of the input, or a reason why not."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from trainyard.debian.index import Package
from trainyard.debian.solve import solve
from trainyard.errors import LockError


def package(name: str, version: str = "1", depends: str = "", **fields: str) -> Package:
    archive = fields.pop("archive", "debian")
    return Package(
        name=name,
        version=version,
        arch=fields.pop("arch", "amd64"),
        path=f"{archive}/pool/main/{name}_{version}.deb",
        size=1,
        sha256="0" * 64,
        depends=depends,
        is_essential=fields.pop("essential", "") == "yes",
        **fields,
    )


def names(packages: Sequence[Package], *wanted: str, arch: str = "amd64") -> list[str]:
    return [chosen.name for chosen in solve(packages, wanted, arch=arch).packages]


def refusal(packages: Sequence[Package], *wanted: str) -> str:
    with pytest.raises(LockError) as caught:
        solve(packages, wanted, arch="amd64")
    return caught.value.message


def test_dependencies_are_followed_to_the_end() -> None:
    assert names(
        [package("a", depends="b"), package("b", depends="c"), package("c"), package("d")], "a"
    ) == list("abc")


def test_pre_depends_count_too() -> None:
    assert names([package("a", pre_depends="b"), package("b")], "a") == ["a", "b"]


def test_essential_packages_come_unasked_with_what_they_need() -> None:
    packages = [package("base", essential="yes", depends="lib"), package("lib"), package("a")]

    assert names(packages, "a") == ["a", "base", "lib"]


def test_circles_end() -> None:
    assert names([package("a", depends="b"), package("b", depends="a")], "a") == ["a", "b"]


def test_the_newest_version_of_all_suites_wins() -> None:
    packages = [package("a", "1.9"), package("a", "1.10", archive="debian-security"), package("a", "1.2")]

    (chosen,) = solve(packages, ["a"], arch="amd64").packages

    assert chosen.version == "1.10"


def test_a_version_in_two_archives_is_taken_from_the_main_one() -> None:
    packages = [package("a"), package("a", archive="debian-security")]

    for order in (packages, packages[::-1]):
        (chosen,) = solve(order, ["a"], arch="amd64").packages
        assert chosen.path.startswith("debian/")


def test_other_architectures_are_not_there_and_all_is() -> None:
    packages = [package("a", depends="b", arch="all"), package("b", "2", arch="arm64"), package("b", "1")]

    assert [chosen.version for chosen in solve(packages, ["a"], arch="amd64").packages] == ["1", "1"]
    assert [chosen.version for chosen in solve(packages, ["a"], arch="arm64").packages] == ["1", "2"]


def test_the_first_alternative_that_exists_is_taken() -> None:
    assert names([package("a", depends="gone | b | c"), package("b"), package("c")], "a") == ["a", "b"]


def test_an_alternative_that_is_there_anyway_wins() -> None:
    packages = [package("a", depends="b | c"), package("b"), package("c"), package("z", depends="c")]

    assert names(packages, "a", "z") == ["a", "c", "z"]


def test_an_alternative_that_a_later_package_needs_wins_too() -> None:
    packages = [package("a", depends="b | d, c"), package("b"), package("c", depends="d"), package("d")]

    assert names(packages, "a") == ["a", "c", "d"]


def test_a_version_that_does_not_fit_is_no_alternative() -> None:
    assert names([package("a", depends="b (>= 2) | c"), package("b"), package("c")], "a") == ["a", "c"]


@pytest.mark.parametrize("relation", ["b:any", "b:amd64", "b:any (>= 1)"])
def test_architecture_qualifiers_that_mean_us_are_understood(relation: str) -> None:
    assert names([package("a", depends=relation), package("b", multi_arch="allowed")], "a") == ["a", "b"]


def test_a_dependency_on_another_architecture_cannot_be_met() -> None:
    assert "a needs b:i386" in refusal([package("a", depends="b:i386"), package("b")], "a")


def test_a_virtual_package_is_met_by_its_provider() -> None:
    assert names([package("a", depends="mta"), package("m", provides="mta, x")], "a") == ["a", "m"]


def test_of_several_providers_priority_decides_then_the_name() -> None:
    first, second = (
        package("p1", provides="v", priority="optional"),
        package("p2", provides="v", priority="optional"),
    )
    standard = package("p3", provides="v", priority="standard")

    assert names([package("a", depends="v"), second, first], "a") == ["a", "p1"]
    assert names([package("a", depends="v"), second, first, standard], "a") == ["a", "p3"]


def test_the_package_of_that_name_comes_before_its_providers() -> None:
    packages = [package("a", depends="v"), package("p", provides="v", priority="required"), package("v")]

    assert names(packages, "a") == ["a", "v"]


def test_a_provider_that_is_there_anyway_wins() -> None:
    packages = [
        package("a", depends="v"),
        package("p", provides="v"),
        package("v"),
        package("z", depends="p"),
    ]

    assert names(packages, "a", "z") == ["a", "p", "z"]


def test_a_versioned_dependency_needs_a_versioned_provides() -> None:
    unversioned, versioned = package("p", provides="v"), package("q", provides="v (= 3)")

    assert names([package("a", depends="v (>= 2)"), unversioned, versioned], "a") == ["a", "q"]
    assert "a needs v (>= 4)" in refusal([package("a", depends="v (>= 4)"), unversioned, versioned], "a")


def test_recommends_are_not_followed() -> None:
    """They are not even read; this holds the field list to that."""
    assert not hasattr(package("a"), "recommends")


def test_what_is_asked_for_and_does_not_exist_is_named_with_a_near_miss() -> None:
    assert "asks for pyhton3.13, which the release does not have (did you mean python3.13?)" in refusal(
        [package("python3.13")], "pyhton3.13"
    )


def test_an_unmet_dependency_is_explained_by_its_chain_and_what_there_is() -> None:
    packages = [package("a", depends="b"), package("b", depends="c (>= 3)"), package("c", "2")]

    assert "a -> b needs c (>= 3), and the release has c 2" in refusal(packages, "a")


def test_all_unmet_dependencies_are_told_at_once() -> None:
    message = refusal([package("a", depends="x1, x2 | x3"), package("b", depends="y")], "a", "b", "z")

    for part in ("a needs x1", "x2, which the release does not have", "x3", "b needs y", "asks for z"):
        assert part in message


def test_a_chain_that_starts_at_an_essential_package_says_so() -> None:
    assert "e (essential) needs x" in refusal([package("e", essential="yes", depends="x")])


@pytest.mark.parametrize("field", ["conflicts", "breaks"])
def test_two_that_cannot_live_together_are_both_named_with_who_wants_them(field: str) -> None:
    packages = [
        package("a", depends="b"),
        package("b", depends="", **{field: "d (<< 3)"}),
        package("c", depends="d"),
        package("d", "2"),
    ]

    assert "b 1 refuses d (<< 3): d 2 (a -> b; c -> d)" in refusal(packages, "a", "c")


def test_a_conflict_with_a_version_that_is_not_there_is_none() -> None:
    assert names([package("a", breaks="b (<< 1)"), package("b")], "a", "b") == ["a", "b"]


def test_a_conflict_with_what_another_provides_counts() -> None:
    assert "a 1 refuses mta: b 1" in refusal(
        [package("a", conflicts="mta"), package("b", provides="mta")], "a", "b"
    )


def test_a_package_may_provide_and_conflict_with_the_same_name() -> None:
    """So that only one of its kind is installed (Debian policy 7.6.2)."""
    assert names([package("a", provides="mta", conflicts="mta")], "a") == ["a"]


def test_a_conflict_with_another_architecture_does_not_touch_us() -> None:
    assert names([package("a", conflicts="b:i386"), package("b")], "a", "b") == ["a", "b"]


def test_the_order_of_the_index_changes_nothing() -> None:
    rng = random.Random(3)
    letters = [f"p{number:02}" for number in range(40)]
    packages = [
        package(
            name,
            depends=", ".join(" | ".join(rng.sample(letters, 2)) for _ in range(2)),
            provides=f"v{number % 5}",
            pre_depends=f"v{rng.randrange(5)}",
        )
        for number, name in enumerate(letters)
    ]
    first = solve(packages, ["p00", "p01"], arch="amd64")

    for _ in range(20):
        rng.shuffle(packages)
        again = solve(packages, ["p01", "p00"], arch="amd64")
        assert again.packages == first.packages
        assert dict(again.reasons) == dict(first.reasons)


def test_who_brought_a_package_in_can_be_asked() -> None:
    closure = solve([package("a", depends="b"), package("b", depends="c"), package("c")], ["a"], arch="amd64")

    assert closure.chain("c") == "a -> b -> c"
    assert closure.chain("a") == "a"
