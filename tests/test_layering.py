"""Which inputs share a layer."""

from __future__ import annotations

from tests.support.locks import MiB, deb, wheel
from trainyard.layering import OWN_LAYER, SPLIT, group_debs, group_wheels, large_wheels, small_wheels

NATIVE = "cp313-cp313-manylinux_2_28_x86_64"


def test_every_wheel_is_in_exactly_one_group_or_in_all_parts_of_one() -> None:
    wheels = [
        wheel("torch", size=3 * SPLIT, tag=NATIVE),
        wheel("numpy", size=16 * MiB),
        wheel("a"),
        wheel("b", tag=NATIVE),
    ]

    seen = [(one.name, group.part) for group in group_wheels(wheels) for one in group.wheels]

    assert sorted(seen) == [("a", 0), ("b", 0), ("numpy", 0), ("torch", 0), ("torch", 1), ("torch", 2)]


def test_a_wheel_at_the_threshold_has_its_own_layer_and_one_byte_less_shares() -> None:
    at, below = wheel("at", size=OWN_LAYER), wheel("below", size=OWN_LAYER - 1)

    assert large_wheels([at, below]) == (at,)
    assert small_wheels([at, below]) == (below,)


def test_a_wheel_one_byte_over_the_split_size_has_two_parts() -> None:
    exact = group_wheels([wheel("w", size=SPLIT)])
    over = group_wheels([wheel("w", size=SPLIT + 1)])

    assert [(group.part, group.parts) for group in exact] == [(0, 1)]
    assert [(group.part, group.parts) for group in over] == [(0, 2), (1, 2)]
    assert over[0].title == "wheel: w==1.0 (1/2)"


def test_largest_wheels_come_first_and_equal_sizes_by_name() -> None:
    wheels = [wheel("b", size=8 * MiB), wheel("a", size=8 * MiB), wheel("c", size=9 * MiB)]

    assert [group.wheels[0].name for group in group_wheels(wheels)] == ["c", "a", "b"]


def test_grouping_does_not_depend_on_the_order_given() -> None:
    wheels = [wheel(name, size=size * MiB) for name, size in (("a", 1), ("b", 300), ("c", 8), ("d", 2))]

    titles = [group.title for group in group_wheels(wheels)]

    assert [group.title for group in group_wheels(wheels[::-1])] == titles


def test_a_changed_pure_wheel_leaves_the_compiled_small_wheels_alone() -> None:
    compiled = wheel("fast", tag=NATIVE)
    before = group_wheels([compiled, wheel("pure", "1.0")])
    after = group_wheels([compiled, wheel("pure", "1.1")])

    assert before[0] == after[0]
    assert before[1] != after[1]


def test_the_shared_debs_come_below_the_large_ones() -> None:
    groups = group_debs([deb("gcc", size=20 * MiB), deb("base-files"), deb("zlib1g")])

    assert [group.title for group in groups] == ["debian: 2 packages", "debian: gcc=1.0-1"]


def test_no_wheels_give_no_layer() -> None:
    assert group_wheels([]) == ()
    assert group_debs([]) == ()
