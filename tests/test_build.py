"""From a plan to an OCI layout and its golden record, of tiny real wheels."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest

from tests.support.plans import Yard, file_layer, plan_of, wheel_layer
from tests.support.wheels import Rows, build_wheel
from trainyard.build import (
    MARGIN,
    build_image,
    hold_against_golden,
    image_of,
    read_golden,
    record_golden,
    require_space,
)
from trainyard.errors import InputError, ReproducibilityError, SpaceError
from trainyard.golden import GoldenRecord
from trainyard.layers import LayerSpec
from trainyard.oci.layout import read_layout
from trainyard.oci.validate import validate_layout
from trainyard.plan import Plan

ROOT = Path(__file__).parents[1]


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path / "yard")


@pytest.fixture
def plan(yard: Yard, tmp_path: Path) -> Plan:
    """Two wheels and a layer of files."""
    one = build_wheel(tmp_path, name="one", entry_points="one = one:main")
    two = build_wheel(tmp_path, name="two", files={"two/data.bin": bytes(range(256)) * 999})
    return yard.plan([one, two], files={"etc/motd": b"hello\n"})


def lying(rows: Rows) -> Rows:
    path, _, size = rows[0]
    return [(path, "sha256=" + "A" * 43, size), *rows[1:]]


def state(folder: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of every file below a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}


# The layout


def test_the_layout_is_valid_and_holds_the_image_of_the_plan(yard: Yard, plan: Plan) -> None:
    built = yard.build(plan)
    (image,) = read_layout(built.layout).images

    assert validate_layout(built.layout) == []
    assert built.layout == yard.project.root / "dist" / "tiny" / "linux-amd64"
    assert image.digest == built.image.digest
    assert [layer.diff_id for layer in image.layers] == [layer.record.diff_id for layer in built.layers]


def test_the_history_says_what_each_layer_is(yard: Yard, plan: Plan) -> None:
    built = yard.build(plan)
    history = json.loads(built.image.config)["history"]

    assert [line["created_by"] for line in history] == [spec.title for spec in plan.layers]


def test_a_second_build_touches_nothing_and_says_so(yard: Yard, plan: Plan) -> None:
    first = yard.build(plan)
    store, dist = state(yard.store.root), state(first.layout)

    second = yard.build(plan)

    assert [layer.cached for layer in first.layers] == [False] * 3
    assert [layer.cached for layer in second.layers] == [True] * 3
    assert second.image == first.image
    assert (state(yard.store.root), state(first.layout)) == (store, dist)


def test_blobs_of_the_layout_are_those_of_the_store_and_take_no_room(yard: Yard, plan: Plan) -> None:
    built = yard.build(plan)
    layers = read_layout(built.layout).images[0].layers

    assert {layer.path.stat().st_ino for layer in layers} == {blob.stat().st_ino for blob in yard.blobs()}
    assert {layer.path.stat().st_mode & 0o777 for layer in layers} == {0o444}


def test_a_lost_layout_is_made_again_from_the_store(yard: Yard, plan: Plan) -> None:
    first = yard.build(plan)
    shutil.rmtree(first.layout)

    second = yard.build(plan)

    assert all(layer.cached for layer in second.layers)
    assert validate_layout(second.layout) == []


def test_a_damaged_layout_is_written_again(yard: Yard, plan: Plan) -> None:
    layout = yard.build(plan).layout
    (layout / "index.json").write_text("{", "utf-8")

    assert validate_layout(yard.build(plan).layout) == []


def test_the_layout_of_an_older_plan_is_replaced_whole(yard: Yard, plan: Plan) -> None:
    yard.build(plan)
    newer = plan_of(plan.layers[0])

    built = yard.build(newer)

    assert validate_layout(built.layout) == []
    assert len(read_layout(built.layout).images[0].layers) == 1
    assert [path.name for path in built.layout.parent.iterdir()] == ["linux-amd64"]


def test_a_layer_without_a_file_is_left_out_of_the_image(yard: Yard, tmp_path: Path) -> None:
    """An engine that sees an empty layer drops it, and its history no longer fits."""
    wheel = yard.admit(build_wheel(tmp_path, files={"demo.py": "x = 1\n"}))
    parts = [wheel_layer(wheel, part=part, parts=40) for part in range(40)]
    built = yard.build(plan_of(*parts))
    empty = [layer for layer in built.layers if layer.record.files == 0]

    assert empty
    assert len(built.image.layers) == 40 - len(empty)
    assert validate_layout(built.layout) == []


def test_the_size_is_what_a_pull_moves(yard: Yard, tmp_path: Path) -> None:
    """Layers that the image leaves out are not pulled."""
    wheel = yard.admit(build_wheel(tmp_path, files={"demo.py": "x = 1\n"}))
    built = yard.build(plan_of(*(wheel_layer(wheel, part=part, parts=40) for part in range(40))))
    blobs = (built.layout / "blobs" / "sha256").iterdir()

    assert built.size == sum(path.stat().st_size for path in blobs)


# Refusals


def test_a_wheel_that_lies_leaves_no_image_and_no_layer(yard: Yard, tmp_path: Path) -> None:
    plan = yard.plan([build_wheel(tmp_path, name="liar", record=lying)])

    with pytest.raises(InputError, match=r"^liar-1\.0-py3-none-any\.whl: "):
        yard.build(plan)

    assert yard.dist() == []
    assert yard.blobs() == []
    assert yard.leftovers() == []


def test_two_wheels_that_own_one_path_leave_no_image(yard: Yard, tmp_path: Path) -> None:
    wheels = [build_wheel(tmp_path, name=name, files={"shared.py": "x = 1\n"}) for name in ("one", "two")]

    with pytest.raises(InputError, match=r"shared\.py.*one==1\.0.*two==1\.0"):
        yard.build(yard.plan(wheels))

    assert yard.dist() == []


def test_a_conflict_is_found_again_when_all_layers_come_from_the_store(yard: Yard, tmp_path: Path) -> None:
    plan = yard.plan([build_wheel(tmp_path, name=name, files={"x.py": ""}) for name in ("one", "two")])
    for _ in range(2):
        with pytest.raises(InputError, match=r"x\.py"):
            yard.build(plan)


def test_a_failing_build_leaves_the_image_that_was_there(yard: Yard, plan: Plan, tmp_path: Path) -> None:
    good = yard.build(plan)
    bad = yard.plan([build_wheel(tmp_path, name="liar", record=lying)])

    with pytest.raises(InputError):
        yard.build(bad)

    assert read_layout(good.layout).images[0].digest == good.image.digest


class Disk(NamedTuple):
    total: int
    used: int
    free: int


def test_a_disk_that_is_too_small_is_refused_with_figures_before_anything_is_built(
    yard: Yard, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _path: Disk(10**9, 7 * 10**8, 3 * 10**8))

    with pytest.raises(SpaceError, match=r"need 1\.1 GB in .*store, 0\.3 GB are free") as caught:
        yard.build(plan)

    assert "invoke clean" in caught.value.hint
    assert yard.blobs() == []


def test_a_disk_that_just_holds_it_is_taken_and_a_full_one_too_when_nothing_is_missing(
    yard: Yard, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = sum(spec.input_size for spec in plan.layers) * 5 // 4
    free = needed + MARGIN
    monkeypatch.setattr("shutil.disk_usage", lambda _path: Disk(free, 0, free))
    require_space(yard.assembler(), plan.layers)
    free -= 2
    with pytest.raises(SpaceError):
        require_space(yard.assembler(), plan.layers)
    free += 2
    yard.build(plan)
    free = 0

    yard.build(plan)


# Reproducibility


def test_gzip_and_zstd_give_the_same_diff_ids_and_lie_side_by_side(yard: Yard, plan: Plan) -> None:
    zstd, gzip = yard.build(plan), yard.build(plan, compression="gzip")

    assert [layer.record.diff_id for layer in zstd.layers] == [layer.record.diff_id for layer in gzip.layers]
    assert zstd.image.digest != gzip.image.digest
    assert gzip.layout.name == "linux-amd64.gzip"
    assert validate_layout(gzip.layout) == []


_CHILD = """
import os, sys
umask, workers, folder, *wheels = sys.argv[1:]
os.umask(int(umask, 8))
from pathlib import Path
from tests.support.plans import Yard
yard = Yard(Path(folder))
built = yard.build(yard.plan([Path(w) for w in wheels], files={"etc/motd": b"hello"}), workers=int(workers))
print(built.image.digest)
"""


def in_child(
    folder: Path,
    wheels: Sequence[Path],
    *,
    umask: str = "022",
    workers: int = 2,
    environ: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The digest that another process gives, in another folder and environment."""
    folder.mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, umask, str(workers), str(folder), *map(str, wheels)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **environ},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_nothing_around_the_process_changes_the_digest(tmp_path: Path) -> None:
    files = {f"many/{name}.py": f"{name} = 1\n" for name in ("a", "I", "\u0131", "z", "_")}
    wheels = [
        build_wheel(tmp_path, name="many", files=files, entry_points="many = many:main"),
        build_wheel(tmp_path, name="large", files={"large.bin": bytes(range(256)) * 10_000}),
    ]
    usual = in_child(tmp_path / "usual", wheels)
    elsewhere = {"TZ": "Pacific/Chatham", "LANG": "tr_TR.UTF-8", "LC_ALL": "C", "HOME": "/nonexistent"}
    odd = {"PYTHONHASHSEED": "4242", "SOURCE_DATE_EPOCH": "1", "PYTHONUTF8": "0", "PYTHONOPTIMIZE": "2"}

    assert usual.startswith("sha256:")
    assert in_child(tmp_path / "umask", wheels, umask="077", workers=1) == usual
    assert in_child(tmp_path / "open", wheels, umask="000", workers=7) == usual
    assert in_child(tmp_path / "sönst wo", wheels, environ={**elsewhere, **odd}) == usual


# A stopped build

_SLOW = """
import os, sys, time
from pathlib import Path
from tests.support.plans import Yard
from trainyard.assemble import Progress
from trainyard.build import build_image
yard = Yard(Path(sys.argv[1]))
plan = yard.plan([Path(w) for w in sys.argv[2:]], files={"etc/motd": b"hello"})

def flow(spec, count):
    os.write(1, b"flowing\\n")
    time.sleep(1)  # sixteen times for each layer: time enough for a signal on a busy machine

with yard.store.exclusive():
    build_image(yard.project, plan, yard.assembler(progress=Progress(flow=flow)))
"""


@pytest.fixture
def slow_wheels(tmp_path: Path) -> list[Path]:
    return [
        build_wheel(tmp_path, name=name, files={f"{name}.bin": bytes(16 << 20)}, compression=0)
        for name in ("slow", "tardy")
    ]


@pytest.fixture
def stopped(yard: Yard, slow_wheels: list[Path]) -> Iterator[subprocess.Popen[str]]:
    """A build of another process, in the middle of both of its layers."""
    with subprocess.Popen(
        [sys.executable, "-c", _SLOW, str(yard.folder), *map(str, slow_wheels)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "flowing\n"
        yield process
        process.kill()


def end(process: subprocess.Popen[str], number: int) -> None:
    process.send_signal(number)
    process.communicate(timeout=30)


def test_ctrl_c_ends_every_thread_and_leaves_nothing(yard: Yard, stopped: subprocess.Popen[str]) -> None:
    """A thread that went on would have kept its layer."""
    end(stopped, signal.SIGINT)

    assert stopped.returncode == -signal.SIGINT
    assert yard.blobs() == []
    assert yard.leftovers() == []
    assert yard.dist() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_after_a_stop_the_next_run_gives_the_digest_of_an_undisturbed_one(
    yard: Yard, stopped: subprocess.Popen[str], slow_wheels: list[Path], number: int
) -> None:
    end(stopped, number)
    plan = yard.plan(slow_wheels, files={"etc/motd": b"hello"})

    with yard.store.exclusive():  # the kernel gave the lock back
        built = yard.build(plan)

    undisturbed = Yard(yard.folder / "undisturbed")
    undisturbed.plan(slow_wheels)
    assert built.image.digest == undisturbed.build(plan).image.digest
    assert yard.leftovers() == []
    assert validate_layout(built.layout) == []


# The golden record


def provide_nothing(_specs: Sequence[LayerSpec]) -> None:
    """All inputs are here."""


def record(yard: Yard, plan: Plan) -> tuple[GoldenRecord, bool]:
    return record_golden(yard.project, plan, yard.assembler(), provide=provide_nothing)


def golden_path(yard: Yard) -> Path:
    return yard.project.root / "images" / "tiny" / "linux-amd64.json"


def test_what_was_recorded_is_what_a_build_gives(yard: Yard, plan: Plan) -> None:
    golden, moved = record(yard, plan)
    built = yard.build(plan)

    assert moved
    assert golden == built.golden()
    assert (golden.manifest_digest, golden.plan_key) == (built.image.digest, plan.key)
    hold_against_golden(yard.project, built, compression="zstd")


def test_recording_again_changes_nothing_and_says_so(yard: Yard, plan: Plan) -> None:
    record(yard, plan)
    before = state(yard.project.root)

    assert record(yard, plan)[1] is False
    assert state(yard.project.root) == before


def test_a_build_without_a_record_is_refused_with_the_command_that_makes_one(yard: Yard, plan: Plan) -> None:
    built = yard.build(plan)

    with pytest.raises(ReproducibilityError, match=r"images/tiny/linux-amd64\.json is missing") as caught:
        hold_against_golden(yard.project, built, compression="zstd")
    assert "--target tiny --platform linux/amd64 --record" in caught.value.hint


def test_gzip_is_held_against_the_record_of_zstd(yard: Yard, plan: Plan) -> None:
    record(yard, plan)

    hold_against_golden(yard.project, yard.build(plan, compression="gzip"), compression="gzip")


def test_an_unchanged_layer_comes_from_the_old_record_without_its_wheel(
    yard: Yard, plan: Plan, tmp_path: Path
) -> None:
    """A new lock moves one wheel, and the other three gigabytes need not be here."""
    old, _ = record(yard, plan)
    shutil.rmtree(yard.store.root)
    newer = yard.admit(build_wheel(tmp_path, name="two", version="2.0"))
    moved_plan = plan_of(plan.layers[0], wheel_layer(newer), plan.layers[2])
    asked: list[LayerSpec] = []

    new, moved = record_golden(yard.project, moved_plan, yard.assembler(), provide=asked.extend)

    assert moved
    assert asked == [moved_plan.layers[1]]
    assert new.layers[::2] == old.layers[::2]
    assert new.manifest_digest != old.manifest_digest


def test_a_record_made_without_inputs_is_the_one_of_a_whole_build(
    yard: Yard, plan: Plan, tmp_path: Path
) -> None:
    record(yard, plan_of(*plan.layers[:2]))
    partly, _ = record(yard, plan)
    other = Yard(tmp_path / "other")
    shutil.copytree(yard.store.root / "inputs", other.store.root / "inputs")

    assert record(other, plan)[0] == partly


def forge(path: Path, change: Callable[[dict[str, object]], None]) -> None:
    document = json.loads(path.read_text("utf-8"))
    change(document)
    path.write_text(json.dumps(document), "utf-8")


def other_bytes(document: dict[str, object]) -> None:
    layers = document["layers"]
    assert isinstance(layers, list)
    layers[0]["diff_id"] = "sha256:" + "0" * 64


def test_other_bytes_of_a_recorded_key_fail_the_build_and_name_the_layer(yard: Yard, plan: Plan) -> None:
    record(yard, plan)
    forge(golden_path(yard), other_bytes)

    with pytest.raises(ReproducibilityError, match=r"(?s)NOT REPRODUCIBLE.*wheels: one==1\.0: diff id"):
        hold_against_golden(yard.project, yard.build(plan), compression="zstd")


def test_other_bytes_of_a_recorded_key_are_never_recorded_over(yard: Yard, plan: Plan) -> None:
    record(yard, plan)
    forge(golden_path(yard), other_bytes)
    forged = golden_path(yard).read_bytes()

    with pytest.raises(ReproducibilityError, match=r"(?s)NOT REPRODUCIBLE.*wheels: one==1\.0"):
        record(yard, plan)
    assert golden_path(yard).read_bytes() == forged


def test_other_bytes_that_record_could_not_see_are_seen_by_the_build_after_it(yard: Yard, plan: Plan) -> None:
    """Without the layer here, its old record is all there is."""
    record(yard, plan)
    forge(golden_path(yard), other_bytes)
    for folder in ("layers", "blobs"):
        shutil.rmtree(yard.store.root / folder)
    record(yard, plan)

    with pytest.raises(ReproducibilityError, match="NOT REPRODUCIBLE"):
        hold_against_golden(yard.project, yard.build(plan), compression="zstd")


def test_a_record_of_another_format_fails_a_build_and_is_replaced_by_record(yard: Yard, plan: Plan) -> None:
    golden, _ = record(yard, plan)
    forge(golden_path(yard), lambda document: document.update(format=99))

    with pytest.raises(ReproducibilityError, match="format 99") as caught:
        hold_against_golden(yard.project, yard.build(plan), compression="zstd")
    assert "--record" in caught.value.hint
    assert record(yard, plan) == (golden, True)
    assert read_golden(yard.project, golden_path(yard)) == golden


def test_a_damaged_record_is_not_taken_for_one_of_another_format(yard: Yard, plan: Plan) -> None:
    golden_path(yard).parent.mkdir(parents=True)
    golden_path(yard).write_text('{"format": 1, "layers"', "utf-8")

    with pytest.raises(ReproducibilityError, match="not a golden record"):
        record(yard, plan)
    assert golden_path(yard).read_text("utf-8") == '{"format": 1, "layers"'


def test_a_failing_build_records_nothing(yard: Yard, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        record(yard, yard.plan([build_wheel(tmp_path, name="liar", record=lying)]))

    assert not golden_path(yard).exists()


def test_a_changed_label_moves_the_record_and_no_layer(yard: Yard, plan: Plan) -> None:
    old, _ = record(yard, plan)
    labelled = replace(plan, config=plan.config.with_labels((("a", "b"),)))

    new, moved = record(yard, labelled)

    assert moved
    assert new.layers == old.layers
    assert new.config_digest != old.config_digest


def test_an_image_is_made_without_reading_a_blob(yard: Yard, plan: Plan) -> None:
    built = build_image(yard.project, plan, yard.assembler())
    pairs = [(layer.spec, layer.record) for layer in built.layers]
    shutil.rmtree(yard.store.root)

    assert image_of(plan, pairs) == built.image


def test_files_of_two_plans_that_differ_in_one_byte_share_no_digest(yard: Yard) -> None:
    digests = {yard.build(plan_of(file_layer({"etc/x": data}))).image.digest for data in (b"a", b"b", b"a")}

    assert len(digests) == 2
