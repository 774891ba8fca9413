"""(Target, locks) -> Plan: what moves it, what does not, and what it says of itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.locks import (
    AMD64,
    ARM64,
    MiB,
    deb,
    deb_lock,
    fake_hash,
    target,
    wheel,
    wheel_lock,
)
from trainyard.errors import TrainyardError
from trainyard.layering import MAX_LAYERS, SPLIT
from trainyard.layers import CONSTANT_MTIME, LayerKind, LayerSpec
from trainyard.lock.model import DebLock, WheelLock
from trainyard.matrix.model import Base, Requires, Target
from trainyard.plan import Plan, make_plan, seconds
from trainyard.platforms import Platform

NATIVE = "cp313-cp313-manylinux_2_28_x86_64"
TORCH = wheel("torch", "2.15.0", size=3 * SPLIT, tag=NATIVE)
NUMPY = wheel("numpy", "2.4.0", size=16 * MiB, tag=NATIVE)
PURE, FAST = wheel("pure"), wheel("fast", tag=NATIVE)
WHEELS = wheel_lock(TORCH, NUMPY, PURE, FAST)
DEBS = deb_lock(deb("base-files"), deb("gcc-14", size=20 * MiB), deb("tini"))
PAYLOAD = {"usr/local/bin/trainyard-entrypoint": b"#!/bin/sh\n", "opt/trainyard/doctor.py": b"x = 1\n"}
REVIEWED = fake_hash("reviewed")


def plan(
    of: Target | None = None,
    platform: Platform = AMD64,
    *,
    wheels: WheelLock = WHEELS,
    debs: DebLock = DEBS,
    payload: Mapping[str, bytes] = PAYLOAD,
    reviewed: str = REVIEWED,
) -> Plan:
    return make_plan(of or target(), platform, wheels=wheels, debs=debs, payload=payload, reviewed=reviewed)


def moved(before: Plan, after: Plan) -> set[LayerKind]:
    """The kinds of the layers that `after` has and `before` has not."""
    known = {spec.key for spec in before.layers}
    return {spec.kind for spec in after.layers if spec.key not in known}


def base(**changes: object) -> Base:
    return Base.model_validate(target().debian[1].model_dump() | changes)


# What changes which layers


def test_the_layers_lie_from_the_base_to_our_own_files() -> None:
    kinds = [spec.kind for spec in plan().layers]
    order = list(dict.fromkeys(kinds))

    assert order == [
        LayerKind.DEBS,
        LayerKind.STATE,
        LayerKind.STDLIB,
        LayerKind.WHEELS,
        LayerKind.BYTECODE,
        LayerKind.FILES,
    ]


def test_every_deb_is_unpacked_once_and_every_wheel_is_installed_and_compiled_once() -> None:
    layers = plan().layers
    unpacked = [one.name for spec in layers if spec.kind is LayerKind.DEBS for one in spec.debs]
    compiled = [one.name for spec in layers if spec.kind is LayerKind.BYTECODE for one in spec.wheels]

    assert sorted(unpacked) == [one.name for one in DEBS.debs]
    assert sorted(compiled) == [one.name for one in WHEELS.wheels]


def test_a_changed_small_wheel_moves_its_layer_its_bytecode_and_our_files_alone() -> None:
    after = plan(wheels=wheel_lock(TORCH, NUMPY, wheel("pure", "1.1"), FAST))
    changed = [spec for spec in after.layers if spec.key not in {one.key for one in plan().layers}]

    assert [spec.title for spec in changed] == [
        "wheels: 1 small, pure Python",
        "bytecode: 2 small wheels",
        "trainyard: venv, entrypoint and checks of cuda13.2",
    ]


def test_another_python_of_debian_moves_no_wheel_layer() -> None:
    newer = deb_lock(
        *(one for one in DEBS.debs if one.name != "python3.13-minimal"), deb("python3.13-minimal", "3.13.6-1")
    )

    assert LayerKind.WHEELS not in moved(plan(), plan(debs=newer))
    assert {LayerKind.STDLIB, LayerKind.BYTECODE} <= moved(plan(), plan(debs=newer))


def test_a_deb_that_is_not_python_moves_no_bytecode() -> None:
    newer = deb_lock(*(one for one in DEBS.debs if one.name != "tini"), deb("tini", "2.0-1"))

    assert moved(plan(), plan(debs=newer)) == {LayerKind.DEBS, LayerKind.STATE, LayerKind.FILES}


def test_a_changed_file_of_ours_moves_the_top_layer_alone() -> None:
    after = plan(payload={**PAYLOAD, "opt/trainyard/doctor.py": b"x = 2\n"})

    assert moved(plan(), after) == {LayerKind.FILES}


def test_what_is_known_of_maintainer_scripts_moves_the_state_layer_alone() -> None:
    assert moved(plan(), plan(reviewed=fake_hash("other"))) == {LayerKind.STATE}


def test_another_snapshot_archive_moves_the_state_layer_alone() -> None:
    other = target(base=base(snapshot="https://copy.example.com/archive"))

    assert moved(plan(), plan(other)) == {LayerKind.STATE}


def test_another_snapshot_time_moves_the_state_layer_and_what_is_dated_by_it() -> None:
    """Only the newer of both dates is the image's, so an older snapshot leaves the top layer."""
    after = plan(debs=replace(DEBS, snapshot="2026-11-29T20:15:00Z"))

    assert moved(plan(), after) == {LayerKind.STATE}
    assert moved(plan(), plan(debs=replace(DEBS, snapshot="2026-12-02T20:15:00Z"))) == {
        LayerKind.STATE,
        LayerKind.FILES,
    }


def test_two_platforms_share_no_state_and_no_claims() -> None:
    assert {LayerKind.STATE, LayerKind.FILES} <= moved(plan(), plan(platform=ARM64))


def test_layers_of_debs_and_wheels_have_a_time_that_never_moves() -> None:
    """An unchanged wheel keeps its layer for ever, so no date may reach it."""
    dated = {spec.kind for spec in plan().layers if spec.mtime != CONSTANT_MTIME}

    assert dated == {LayerKind.STATE, LayerKind.FILES}


def test_two_targets_of_one_base_share_every_layer_but_our_own_files() -> None:
    other = target(name="xpu", accelerator="xpu", toolkit="2026.1", requires=Requires())

    assert moved(plan(), plan(other)) == {LayerKind.FILES}


def test_the_image_is_as_old_as_its_newest_lock() -> None:
    assert plan().config.created == WHEELS.until
    assert plan(debs=replace(DEBS, snapshot="2026-12-02T20:15:00Z")).config.created == "2026-12-02T20:15:00Z"


def test_an_instant_is_read_as_utc_wherever_the_host_is() -> None:
    assert seconds("2000-01-01T00:00:00Z") == CONSTANT_MTIME


# The key, plan8 and the tag


CHANGES: dict[str, Callable[[], Plan]] = {
    "a wheel": lambda: plan(wheels=wheel_lock(TORCH, NUMPY, PURE, wheel("fast", "2.0", tag=NATIVE))),
    "one wheel more": lambda: plan(wheels=wheel_lock(*WHEELS.wheels, wheel("new"))),
    "a deb": lambda: plan(debs=deb_lock(*DEBS.debs[:-1], deb("zlib1g"))),
    "platform": lambda: plan(platform=ARM64),
    "a variable": lambda: plan(target(env=(("A", "1"),))),
    "target name": lambda: plan(target(name="cuda13.4")),
    "accelerator": lambda: plan(target(accelerator="rocm")),
    "toolkit": lambda: plan(target(toolkit="13.4")),
    "what the host must have": lambda: plan(target(requires=Requires(driver=">=590"))),
    "cut-off": lambda: plan(wheels=replace(WHEELS, until="2026-12-03T00:00:00Z")),
    "snapshot": lambda: plan(debs=replace(DEBS, snapshot="2026-11-29T00:00:00Z")),
    "payload": lambda: plan(payload={**PAYLOAD, "opt/trainyard/new.py": b""}),
    "reviewed scripts": lambda: plan(reviewed=fake_hash("other")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_decides_the_image_changes_its_key_and_its_tag(change: str) -> None:
    assert CHANGES[change]().key != plan().key
    assert CHANGES[change]().tag != plan().tag


def test_labels_are_in_the_key_and_not_in_the_tag_that_they_hold() -> None:
    renamed = plan(target(title="another title"))

    assert renamed.key != plan().key
    assert renamed.tag == plan().tag


@pytest.mark.parametrize(
    "same",
    [
        pytest.param(lambda: plan(target(requirements=("torch", "numpy"))), id="how a lock was asked for"),
        pytest.param(lambda: plan(target(platforms=(AMD64,))), id="other platforms of the target"),
        pytest.param(lambda: plan(target(base=base(mirror="http://other.example.com"))), id="mirror"),
        pytest.param(lambda: plan(wheels=replace(WHEELS, inputs=fake_hash("x"))), id="inputs of the lock"),
        pytest.param(lambda: plan(payload=dict(reversed(PAYLOAD.items()))), id="order of the payload"),
        pytest.param(plan, id="the same again"),
    ],
)
def test_what_decides_no_byte_leaves_the_plan(same: Callable[[], Plan]) -> None:
    assert (same().key, same().tag) == (plan().key, plan().tag)


def test_the_format_is_in_the_key_and_in_the_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    before = plan()
    monkeypatch.setattr("trainyard.plan.FORMAT", 2)

    assert plan().key != before.key
    assert plan().tag != before.tag


def test_a_tag_names_target_torch_python_cut_off_and_plan() -> None:
    assert re.fullmatch(r"cuda13\.2-torch2\.15\.0-py313-20261201-[0-9a-f]{8}", plan().tag)


def test_the_tag_of_another_torch_says_so() -> None:
    other = wheel_lock(wheel("torch", "2.16.0", size=3 * SPLIT, tag=NATIVE), NUMPY, PURE, FAST)

    assert "torch2.16.0" in plan(wheels=other).tag
    assert plan(wheels=other).tag != plan().tag


def test_a_local_version_is_written_so_that_a_registry_takes_the_tag() -> None:
    local = wheel_lock(wheel("torch", "2.15.0+cu134", tag=NATIVE))

    assert re.fullmatch(r"\w[\w.-]{0,127}", plan(wheels=local).tag)
    assert "torch2.15.0-cu134" in plan(wheels=local).tag


def test_an_image_without_torch_has_a_tag_and_no_label_of_torch() -> None:
    bare = plan(wheels=wheel_lock(PURE))

    assert "torch" not in bare.tag
    assert "dev.trainyard.torch" not in dict(bare.config.labels)


def test_the_labels_say_what_the_image_is() -> None:
    assert dict(plan().config.labels) == {
        "org.opencontainers.image.title": "a test target",
        "org.opencontainers.image.version": plan().tag,
        "org.opencontainers.image.created": "2026-12-01T00:00:00Z",
        "org.opencontainers.image.licenses": "NOASSERTION",
        "dev.trainyard.format": "1",
        "dev.trainyard.target": "cuda13.2",
        "dev.trainyard.platform": "linux/amd64",
        "dev.trainyard.accelerator": "cuda",
        "dev.trainyard.toolkit": "13.2",
        "dev.trainyard.python": "3.13",
        "dev.trainyard.debian": "trixie 2026-11-30T20:15:00Z",
        "dev.trainyard.until": "2026-12-01T00:00:00Z",
        "dev.trainyard.torch": "2.15.0",
        "dev.trainyard.requires.driver": ">=580",
    }


def test_every_requirement_of_the_host_is_a_label() -> None:
    wanted = Requires(kernel=">=6.8", modules=["xe", "i915"], compute_capability=">=7.5")
    labels = dict(plan(target(requires=wanted)).config.labels)

    assert {name: text for name, text in labels.items() if ".requires." in name} == {
        "dev.trainyard.requires.compute-capability": ">=7.5",
        "dev.trainyard.requires.kernel": ">=6.8",
        "dev.trainyard.requires.modules": "xe or i915",
    }


def test_labels_are_sorted_and_stand_in_the_config() -> None:
    names = [name for name, _ in plan().config.labels]
    config = plan().config.to_config()["config"]

    assert names == sorted(names)
    assert isinstance(config, dict)
    assert list(config["Labels"]) == names


def test_process_one_is_tini_and_the_user_is_no_root() -> None:
    config = plan().config

    assert config.entrypoint[0] == "/usr/bin/tini"
    assert config.user == "1000:0"
    assert config.stop_signal == "SIGTERM"


# Limits


def test_sixty_layers_are_made_and_one_more_is_refused_with_the_number() -> None:
    fixed = len(plan(wheels=wheel_lock(NUMPY)).layers) - 1
    large = [wheel(f"w{number:02}", size=16 * MiB, tag=NATIVE) for number in range(MAX_LAYERS - fixed + 1)]

    assert len(plan(wheels=wheel_lock(*large[:-1])).layers) == MAX_LAYERS == 60
    with pytest.raises(TrainyardError, match="61 layers, more than the 60") as caught:
        plan(wheels=wheel_lock(*large))
    assert "cuda13.2 linux/amd64" in caught.value.message
    assert "invoke lock" in caught.value.hint


def test_no_two_layers_of_a_plan_have_one_key() -> None:
    keys = [spec.key for spec in plan().layers]

    assert len(set(keys)) == len(keys)


_CHILD = """
import sys
sys.path.insert(0, {root!r})
from tests.test_plan import plan
print(plan().key, plan().tag)
"""


@pytest.mark.parametrize(
    "environ",
    [
        {"PYTHONHASHSEED": "1", "TZ": "Pacific/Chatham", "LC_ALL": "C"},
        {"PYTHONHASHSEED": "77", "TZ": "America/St_Johns", "LANG": "tr_TR.UTF-8"},
    ],
    ids=["one", "another"],
)
def test_the_plan_is_the_same_in_another_environment(environ: dict[str, str], tmp_path: Path) -> None:
    root = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", _CHILD.format(root=root)],
        env={**os.environ, **environ},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split() == [plan().key, plan().tag]


def test_the_history_of_an_image_is_one_line_for_each_layer() -> None:
    titles = [spec.title for spec in plan().layers]

    assert len(set(titles)) == len(titles)
    assert not [title for title in titles if "\n" in title or not title]


def test_a_layer_is_a_function_of_the_lock_and_not_of_the_order_it_was_read_in() -> None:
    """Locks are read sorted, and refuse to be read otherwise: so their order is no input."""

    def of(spec: LayerSpec) -> tuple[str, ...]:
        return tuple(item.name for item in spec.inputs)

    assert all(
        list(of(spec)) == sorted(of(spec)) for spec in plan().layers if spec.kind is not LayerKind.FILES
    )
