"""Which wheels and markers fit an image, computed without asking the host."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from packaging.markers import Marker
from packaging.tags import parse_tag

from tests.support.locks import AMD64, ARM64, target, wheel_lock
from trainyard.lock.environment import WheelEnvironment, environment_of, wheel_inputs, widest_environment
from trainyard.matrix.model import Requires
from trainyard.platforms import Platform

MAC = Platform("darwin", "arm64")
LINUX = environment_of(target(), AMD64)


def fits(environment: WheelEnvironment, tag: str) -> bool:
    return bool(parse_tag(tag) & set(environment.tags()))


@pytest.mark.parametrize(
    "tag",
    [
        "cp313-cp313-manylinux_2_41_x86_64",
        "cp313-cp313-manylinux_2_28_x86_64",
        "cp313-cp313-manylinux2014_x86_64",
        "cp313-cp313-manylinux1_x86_64",
        "cp313-cp313-linux_x86_64",
        "cp310-abi3-manylinux_2_17_x86_64",
        "py3-none-manylinux_2_25_x86_64",
        "py2.py3-none-any",
        "cp313-none-any",
    ],
)
def test_a_wheel_for_trixie_and_python_3_13_fits(tag: str) -> None:
    assert fits(LINUX, tag)


@pytest.mark.parametrize(
    "tag",
    [
        "cp312-cp312-manylinux_2_28_x86_64",
        "cp314-abi3-manylinux_2_28_x86_64",
        "cp313-cp313t-manylinux_2_28_x86_64",
        "cp313-cp313-manylinux_2_42_x86_64",
        "cp313-cp313-manylinux_2_28_aarch64",
        "cp313-cp313-musllinux_1_2_x86_64",
        "cp313-cp313-macosx_11_0_arm64",
        "cp313-cp313-win_amd64",
    ],
)
def test_a_wheel_for_something_else_does_not(tag: str) -> None:
    assert not fits(LINUX, tag)


def test_an_exact_wheel_is_better_than_a_stable_abi_and_that_than_pure_python() -> None:
    order = [str(tag) for tag in LINUX.tags()]
    names = ["cp313-cp313-manylinux_2_41_x86_64", "cp313-cp313-manylinux_2_17_x86_64"]
    names += ["cp310-abi3-manylinux_2_17_x86_64", "py3-none-manylinux_2_17_x86_64", "py3-none-any"]

    assert [order.index(name) for name in names] == sorted(order.index(name) for name in names)


def test_an_older_base_takes_only_older_wheels() -> None:
    base = target().debian[1].model_copy(update={"suite": "bookworm", "python": "3.11"})
    environment = environment_of(target(base=base), ARM64)

    assert environment.uv_platform == "aarch64-manylinux_2_36"
    assert fits(environment, "cp311-cp311-manylinux_2_36_aarch64")
    assert not fits(environment, "cp311-cp311-manylinux_2_37_aarch64")


def test_arm64_has_no_manylinux_older_than_2014() -> None:
    assert not fits(environment_of(target(), ARM64), "cp313-cp313-manylinux_2_12_aarch64")


@pytest.mark.parametrize(
    ("requires", "newest"), [(None, "15_0"), (">=14", "14_0"), (">=15.2,<20", "15_0"), (">=26", "26_0")]
)
def test_a_mac_wheel_may_not_ask_for_more_than_the_target_does(requires: str | None, newest: str) -> None:
    environment = environment_of(target(requires=Requires(macos=requires)), MAC)
    platforms = {tag.platform for tag in environment.tags() if tag.platform.endswith("_arm64")}

    assert max(platforms, key=lambda name: int(name.split("_")[1])) == f"macosx_{newest}_arm64"
    assert environment.uv_platform == "aarch64-apple-darwin"


def test_uv_is_never_asked_for_a_manylinux_that_it_does_not_know() -> None:
    assert LINUX.system == (2, 41)
    assert LINUX.uv_platform == "x86_64-manylinux_2_40"


@pytest.mark.parametrize(
    ("platform", "marker", "holds"),
    [
        (AMD64, "sys_platform == 'linux' and platform_machine == 'x86_64'", True),
        (ARM64, "platform_machine == 'aarch64'", True),
        (MAC, "platform_system == 'Darwin' and platform_machine == 'arm64'", True),
        (MAC, "sys_platform == 'linux'", False),
        (AMD64, "python_version >= '3.14'", False),
        (AMD64, "python_full_version < '3.13.1'", True),
        (AMD64, "extra == 'all'", False),
        (AMD64, "platform_python_implementation == 'PyPy'", False),
    ],
)
def test_markers_are_the_images(platform: Platform, marker: str, holds: bool) -> None:
    assert environment_of(target(), platform).holds(Marker(marker)) is holds


def test_an_extra_holds_when_it_is_the_one_asked_for() -> None:
    assert LINUX.holds(Marker("extra == 'all'"), extra="all")
    assert LINUX.holds(None)


def test_the_widest_environment_takes_every_wheel_of_a_lock_of_that_platform() -> None:
    base = target().debian[1].model_copy(update={"suite": "bookworm"})
    narrow = environment_of(target(base=base), AMD64)

    assert set(narrow.tags()) <= set(widest_environment(wheel_lock()).tags())


def test_tags_are_the_same_under_another_interpreter_flag_and_locale() -> None:
    script = (
        "import json; from tests.support.locks import *; from trainyard.lock.environment import *; "
        "print(json.dumps([str(tag) for tag in environment_of(target(), AMD64).tags()]))"
    )
    done = subprocess.run(
        [sys.executable, "-X", "utf8=0", "-c", script],
        env={"PYTHONHASHSEED": "7", "LC_ALL": "C", "_PYTHON_HOST_PLATFORM": "macosx-11.0-arm64"},
        capture_output=True,
        check=True,
    )

    assert json.loads(done.stdout) == [str(tag) for tag in LINUX.tags()]


def test_inputs_change_with_each_thing_that_the_lock_is_resolved_from() -> None:
    other_base = target().debian[1].model_copy(update={"python": "3.14"})
    older = target().debian[1].model_copy(update={"suite": "bookworm"})
    changed = [
        wheel_inputs(target(), AMD64),
        wheel_inputs(target(), ARM64),
        wheel_inputs(target(base=other_base), AMD64),
        wheel_inputs(target(base=older), AMD64),
        wheel_inputs(target(requirements=("torch==2.15.0", "numpy")), AMD64),
    ]

    assert len(set(changed)) == len(changed)


def test_inputs_do_not_change_with_order_title_or_name() -> None:
    one = target(requirements=("a", "b"), title="x")
    two = target(requirements=("b", "a", "b"), title="y", name="other", env=(("A", "b"),))

    assert wheel_inputs(one, AMD64) == wheel_inputs(two, AMD64)
