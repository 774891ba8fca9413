"""Staleness is a list of sentences, and an unchanged matrix gives none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.locks import AMD64, ARM64, deb, deb_lock, target, wheel, wheel_lock
from trainyard.lock.debian import deb_inputs
from trainyard.lock.environment import wheel_inputs
from trainyard.lock.freshness import stale_deb_reasons, stale_reasons
from trainyard.lock.model import DebLock, Release, WheelLock
from trainyard.matrix.model import Target

TARGET = target(requirements=("torch==2.15.0", "NumPy>=2", "six; sys_platform == 'win32'"))
BASE = target().debian[1].model_copy(update={"packages": ["python3.13", "tini"]})


def fresh(wanted: Target = TARGET) -> WheelLock:
    lock = wheel_lock(wheel("torch", "2.15.0"), wheel("numpy", "2.5.5"))
    return replace(lock, inputs=wheel_inputs(wanted, AMD64))


def fresh_debs() -> DebLock:
    release = Release(archive="debian", suite="trixie", sha256="0" * 64, date="d", signers=())
    lock = deb_lock(deb("tini"))
    return replace(lock, inputs=deb_inputs("trixie", BASE, "amd64"), releases=(release,))


def test_a_lock_of_what_is_asked_for_is_fresh() -> None:
    assert stale_reasons(TARGET, AMD64, fresh()) == ()
    assert stale_deb_reasons("trixie", BASE, "amd64", fresh_debs()) == ()


def test_a_requirement_for_another_platform_makes_no_lock_stale() -> None:
    assert not [reason for reason in stale_reasons(TARGET, AMD64, fresh()) if "six" in reason]


@pytest.mark.parametrize(
    ("requirements", "reason"),
    [
        (("torch==2.16.0", "numpy"), "it has torch 2.15.0, and matrix.yaml asks for torch==2.16.0"),
        (("torch==2.15.0", "numpy", "Pandas"), "it has no Pandas, which matrix.yaml asks for"),
        (("torch==2.15.0",), "matrix.yaml no longer asks for what it was resolved from"),
        (("torch==2.15.0", "numpy>=2.1"), "matrix.yaml no longer asks for what it was resolved from"),
    ],
)
def test_a_changed_requirement_is_told(requirements: tuple[str, ...], reason: str) -> None:
    reasons = stale_reasons(target(requirements=requirements), AMD64, fresh())

    assert [one[: len(reason)] for one in reasons] == [reason]


def test_another_python_target_and_platform_are_each_told() -> None:
    base = TARGET.debian[1].model_copy(update={"python": "3.14"})
    other = TARGET.model_copy(update={"base": base, "name": "rocm10.0"})

    assert stale_reasons(other, ARM64, fresh()) == (
        "it is for target cuda13.2, and rocm10.0 is wanted",
        "it is for platform linux/amd64, and linux/arm64 is wanted",
        "it is for Python 3.13, and 3.14 is wanted",
    )


def test_a_lock_edited_by_hand_is_stale_although_its_inputs_are_right() -> None:
    lock = replace(fresh(), wheels=(wheel("numpy", "1.0"), wheel("torch", "2.15.0")))

    assert stale_reasons(TARGET, AMD64, lock) == ("it has numpy 1.0, and matrix.yaml asks for NumPy>=2",)


def test_a_locked_prerelease_satisfies_what_it_was_chosen_for() -> None:
    wanted = target(requirements=("torch>=2.15.0rc1",))
    lock = replace(wheel_lock(wheel("torch", "2.15.0rc2")), inputs=wheel_inputs(wanted, AMD64))

    assert stale_reasons(wanted, AMD64, lock) == ()


def test_a_base_of_another_name_and_architecture_is_told() -> None:
    reasons = stale_deb_reasons("forky", BASE, "arm64", fresh_debs())

    assert "it is for base trixie, and forky is wanted" in reasons
    assert "it is for architecture amd64, and arm64 is wanted" in reasons


def test_another_suite_is_told() -> None:
    base = BASE.model_copy(update={"suite": "forky"})

    assert stale_deb_reasons("trixie", base, "amd64", fresh_debs()) == (
        "it is of trixie, and base trixie is forky",
    )


def test_a_lock_from_an_expired_release_is_fresh_only_while_matrix_yaml_allows_it() -> None:
    release = Release(
        archive="debian",
        suite="trixie",
        sha256="0" * 64,
        date="d",
        signers=(),
        expired="2026-11-06T08:08:01Z",
    )
    lock = replace(fresh_debs(), releases=(release,))

    assert stale_deb_reasons("trixie", BASE.model_copy(update={"allow_expired": True}), "amd64", lock) == ()
    (reason,) = stale_deb_reasons("trixie", BASE, "amd64", lock)
    assert reason.startswith(
        "it was made from a Release of debian trixie that had expired on 2026-11-06T08:08:01Z"
    )
    assert reason.endswith("base trixie no longer says `allow_expired: true`")


def test_another_python_of_the_base_is_told_once() -> None:
    base = BASE.model_copy(update={"python": "3.14", "packages": ["python3.14", "tini"]})

    assert stale_deb_reasons("trixie", base, "amd64", fresh_debs()) == (
        "it has no python3.14, the Python of base trixie",
    )


def test_a_package_that_was_added_is_named() -> None:
    base = BASE.model_copy(update={"packages": [*BASE.packages, "git", "apt"]})

    assert stale_deb_reasons("trixie", base, "amd64", fresh_debs()) == ("it has no apt", "it has no git")


def test_a_package_that_was_dropped_makes_the_lock_stale() -> None:
    base = BASE.model_copy(update={"packages": ["python3.13"]})

    assert stale_deb_reasons("trixie", base, "amd64", fresh_debs()) == (
        "matrix.yaml no longer asks for the packages that it was resolved from",
    )


def test_a_virtual_package_that_was_resolved_is_fresh() -> None:
    base = BASE.model_copy(update={"packages": ["python3.13", "awk"]})
    lock = replace(deb_lock(deb("mawk")), inputs=deb_inputs("trixie", base, "amd64"))

    assert stale_deb_reasons("trixie", base, "amd64", lock) == ()
