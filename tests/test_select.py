"""What --target and --platform mean."""

from __future__ import annotations

import pytest

from tests.support.locks import AMD64, ARM64, target
from trainyard.commands.select import select_platforms, select_targets
from trainyard.errors import UsageError
from trainyard.matrix.model import Base, Defaults, Matrix, TargetSpec
from trainyard.platforms import Platform

BASE = Base(suite="trixie", python="3.13", snapshot="https://s.example.com", packages=["python3.13"])


def matrix(*names: str) -> Matrix:
    spec = TargetSpec(
        title="t",
        accelerator="cuda",
        toolkit="13.2",
        base="trixie",
        platforms=["linux/amd64"],
        sets=["torch"],
    )
    return Matrix(
        format=1,
        defaults=Defaults(target=names[0]),
        bases={"trixie": BASE},
        sets={"torch": ["torch==2.15.0"]},
        targets=dict.fromkeys(names, spec),
    )


def names(found: tuple[object, ...]) -> list[str]:
    return [getattr(one, "name", "") for one in found]


def test_nothing_means_the_default_target() -> None:
    assert names(select_targets(matrix("cuda13.2", "xpu"), [])) == ["cuda13.2"]


def test_nothing_means_all_targets_sorted_where_a_command_asks_for_that() -> None:
    assert names(select_targets(matrix("xpu", "cuda13.2"), [], every=True)) == ["cuda13.2", "xpu"]


def test_named_targets_keep_their_order_and_appear_once() -> None:
    assert names(select_targets(matrix("a1", "b1"), ["b1", "a1", "b1"])) == ["b1", "a1"]


def test_every_unknown_target_is_named_with_a_near_miss_and_exit_2() -> None:
    with pytest.raises(UsageError) as caught:
        select_targets(matrix("cuda13.2", "xpu"), ["cuda13.3", "zzz"])

    assert caught.value.exit_code == 2
    assert (
        caught.value.message == "unknown target 'cuda13.3' (did you mean 'cuda13.2'?)\nunknown target 'zzz'"
    )
    assert "invoke list" in caught.value.hint


def test_no_platform_means_the_hosts_architecture() -> None:
    assert select_platforms(target(), "", ARM64) == (ARM64,)


def test_a_mac_builds_its_own_architecture_of_a_linux_target() -> None:
    assert select_platforms(target(), "", Platform("darwin", "arm64")) == (ARM64,)


def test_a_host_of_another_architecture_gets_the_only_platform() -> None:
    assert select_platforms(target(platforms=(ARM64,)), "", AMD64) == (ARM64,)


def test_a_host_of_no_architecture_must_choose_when_there_are_two() -> None:
    with pytest.raises(UsageError, match="more than one"):
        select_platforms(target(), "", None)


def test_all_means_every_platform_of_the_target() -> None:
    assert select_platforms(target(), "all", AMD64) == (AMD64, ARM64)


def test_a_platform_that_the_target_lacks_is_exit_2_with_a_near_miss() -> None:
    with pytest.raises(UsageError, match="did you mean 'linux/arm64'") as caught:
        select_platforms(target(), "linux/arm6", AMD64)

    assert caught.value.exit_code == 2
