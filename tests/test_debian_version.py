"""Versions are ordered as dpkg orders them."""

from __future__ import annotations

import random
import shutil
import subprocess
from itertools import pairwise, product

import pytest
from debian.debian_support import NativeVersion

from trainyard.debian.version import compare, is_version, satisfies

ASCENDING = [
    "0~~", "0~~a", "0~", "0", "0+a", "0.1", "1~rc1-1", "1~rc1-2", "1", "1-0ubuntu1", "1-1~bpo1", "1-1",
    "1-1+b1", "1-1+b10", "1a", "1a1", "1b", "1+b", "1.0.0a", "1.00001", "1.2", "1.10", "2", "9" * 5000,
    "1" + "0" * 5000, "1:0~", "1:0", "1:1-1", "2:0", "10:0",
]  # fmt: skip
EQUAL = [
    ("1", "1-0"),
    ("0:1", "1"),
    ("1.01", "1.1"),
    ("1.", "1.0"),
    ("00:1", "1"),
    ("1-00", "1"),
    ("a", "a0"),
]


def sign(number: int) -> int:
    return (number > 0) - (number < 0)


@pytest.mark.parametrize(("older", "newer"), list(pairwise(ASCENDING)), ids=lambda version: version[:20])
def test_each_version_is_older_than_the_next(older: str, newer: str) -> None:
    assert compare(older, newer) < 0
    assert compare(newer, older) > 0


@pytest.mark.parametrize(("left", "right"), EQUAL)
def test_different_spellings_of_one_version_are_equal(left: str, right: str) -> None:
    assert compare(left, right) == 0


def made_up() -> list[str]:
    """Versions from a few pieces that have a meaning of their own."""
    rng = random.Random(1)
    pieces = ["0", "1", "9", "10", "01", "a", "Z", "~", "~~", "+", ".", "-", "rc", "dfsg", "b"]
    bodies = ["1" + "".join(rng.choices(pieces, k=rng.randint(0, 5))) for _ in range(150)]
    versions = bodies + [f"{epoch}:{body}" for epoch, body in zip("0123456789" * 3, bodies, strict=False)]
    return [version for version in versions if not version.endswith("-")]


def test_order_agrees_with_python_debian_on_many_pairs() -> None:
    versions = made_up()
    wrong = [
        (left, right)
        for left, right in product(versions, repeat=2)
        if compare(left, right) != sign(NativeVersion(left)._compare(NativeVersion(right)))
    ]

    assert len(versions) ** 2 > 25_000
    assert wrong == []


@pytest.mark.skipif(shutil.which("dpkg") is None, reason="no dpkg on this host")
def test_order_agrees_with_dpkg() -> None:
    rng = random.Random(2)
    versions = made_up()
    pairs = [(rng.choice(versions), rng.choice(versions)) for _ in range(60)]

    for left, right in pairs:
        is_older = (
            subprocess.run(["dpkg", "--compare-versions", left, "lt", right], check=False).returncode == 0
        )
        assert (compare(left, right) < 0) == is_older, (left, right)


@pytest.mark.parametrize(
    ("operator", "truths"),
    [("<<", (True, False, False)), ("<=", (True, True, False)), ("=", (False, True, False)),
     (">=", (False, True, True)), (">>", (False, False, True))],
)  # fmt: skip
def test_operators(operator: str, truths: tuple[bool, ...]) -> None:
    assert tuple(satisfies(version, operator, "2") for version in ("1", "2", "3")) == truths


@pytest.mark.parametrize(
    "text", ["1", "1:2.3-4", "2.36-9+deb12u7", "1:14.2.0-19~bpo1", "0.1+git20200101.abc"]
)
def test_versions_are_recognised(text: str) -> None:
    assert is_version(text)


@pytest.mark.parametrize("text", ["", "1 2", "1/../2", "1\n2", "x:1", "1_2", "$(x)"])
def test_what_cannot_be_a_version_is_refused(text: str) -> None:
    assert not is_version(text)
