"""Layers from their specs into the store: built once, stopped together, refused whole."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from tests.support.plans import Yard, file_layer, plan_of, wheel_layer
from tests.support.wheels import Rows, build_wheel
from trainyard.assemble import Progress, check_conflicts, store_bytes_needed
from trainyard.errors import InputError
from trainyard.layers import LayerKind, LayerSpec
from trainyard.oci.layer import StoppedError
from trainyard.store import LayerRecord


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


def lying(rows: Rows) -> Rows:
    """A RECORD whose first hash is of other bytes."""
    path, _, size = rows[0]
    return [(path, "sha256=" + "A" * 43, size), *rows[1:]]


def test_layers_come_back_in_the_order_of_the_plan_not_of_their_sizes(yard: Yard, tmp_path: Path) -> None:
    small = build_wheel(tmp_path, name="small")
    large = build_wheel(tmp_path, name="large", files={"large.bin": bytes(range(256)) * 4000})
    plan = yard.plan([small, large], files={"etc/x": b"x"})

    built = yard.assembler().build(plan.layers)

    assert [layer.spec for layer in built] == list(plan.layers)


def test_what_is_in_the_store_is_not_built_again(yard: Yard, tmp_path: Path) -> None:
    plan = yard.plan([build_wheel(tmp_path)], files={"etc/x": b"x"})
    first = yard.assembler().build(plan.layers)
    before = [(blob.stat().st_ino, blob.stat().st_mtime_ns) for blob in yard.blobs()]

    begun: list[str] = []
    progress = Progress(begin=lambda spec: begun.append(spec.title))
    second = yard.assembler(progress=progress).build(plan.layers)

    assert [layer.cached for layer in first] == [False, False]
    assert [layer.cached for layer in second] == [True, True]
    assert begun == []
    assert [(blob.stat().st_ino, blob.stat().st_mtime_ns) for blob in yard.blobs()] == before


def test_only_the_layer_that_changed_is_built(yard: Yard, tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path)
    yard.assembler().build(yard.plan([wheel], files={"etc/x": b"x"}).layers)

    built = yard.assembler().build(yard.plan([wheel], files={"etc/x": b"y"}).layers)

    assert [layer.cached for layer in built] == [True, False]


def test_a_blob_that_was_cut_short_is_built_again(yard: Yard) -> None:
    plan = plan_of(file_layer({"etc/x": b"x"}))
    before = yard.assembler().build(plan.layers)
    (blob,) = yard.blobs()
    blob.chmod(0o644)
    blob.write_bytes(b"cut")

    after = yard.assembler().build(plan.layers)

    assert not after[0].cached
    assert after[0].record == before[0].record


def test_one_bad_wheel_is_named_and_stops_the_others_and_leaves_nothing(yard: Yard, tmp_path: Path) -> None:
    """The good layer is larger, so it is under way: it must stop, and its half must go."""
    under_way = threading.Event()
    bad = build_wheel(tmp_path, name="liar", record=lying)
    good = build_wheel(tmp_path, name="good", files={"big.bin": bytes(1 << 24)}, compression=0)
    plan = yard.plan([bad, good])

    def begin(spec: LayerSpec) -> None:
        if spec is plan.layers[0]:
            under_way.wait(10)

    def flow(spec: LayerSpec, _count: int) -> None:
        if spec is plan.layers[1]:
            under_way.set()
            assembler._stop.wait(10)

    assembler = yard.assembler(progress=Progress(begin=begin, flow=flow))

    with pytest.raises(InputError, match=r"^liar-1\.0-py3-none-any\.whl: ") as caught:
        assembler.build(plan.layers)

    assert not isinstance(caught.value, StoppedError)
    assert yard.blobs() == []
    assert yard.leftovers() == []
    assert assembler.missing(plan.layers) == list(plan.layers)


def test_what_was_finished_before_the_failure_is_taken_next_time(yard: Yard, tmp_path: Path) -> None:
    liar = build_wheel(tmp_path, name="liar", files={"liar.py": "x = 1\n"}, record=lying)
    larger = build_wheel(tmp_path, name="larger", files={"larger.bin": bytes(100_000)}, compression=0)
    plan = yard.plan([liar, larger])

    with pytest.raises(InputError):
        yard.assembler(workers=1).build(plan.layers)

    assert yard.assembler().build(plan.layers[1:])[0].cached


def test_an_input_that_is_not_there_is_an_error_not_an_empty_layer(yard: Yard, tmp_path: Path) -> None:
    plan = yard.plan([build_wheel(tmp_path)])
    yard.store.input(plan.layers[0].wheels[0].sha256).unlink()

    with pytest.raises((InputError, FileNotFoundError)):
        yard.assembler().build(plan.layers)
    assert yard.blobs() == []


def test_progress_hears_of_each_layer_once_and_of_all_its_bytes(yard: Yard, tmp_path: Path) -> None:
    said: list[tuple[str, str]] = []
    flown: dict[str, int] = {}
    lock = threading.Lock()

    def flow(spec: LayerSpec, count: int) -> None:
        with lock:
            flown[spec.title] = flown.get(spec.title, 0) + count

    def done(spec: LayerSpec, record: LayerRecord) -> None:
        said.append(("done", spec.title))
        assert flown[spec.title] >= record.content_size

    progress = Progress(begin=lambda spec: said.append(("begin", spec.title)), flow=flow, done=done)
    plan = yard.plan([build_wheel(tmp_path)], files={"etc/x": bytes(100_000)})
    yard.assembler(progress=progress).build(plan.layers)

    assert sorted(said) == sorted((what, spec.title) for spec in plan.layers for what in ("begin", "done"))


def test_parts_of_one_wheel_hold_each_of_its_files_once(yard: Yard, tmp_path: Path) -> None:
    files = {f"demo/{number:02}.bin": bytes([number]) * 5000 for number in range(20)}
    wheel = yard.admit(build_wheel(tmp_path, files=files))
    plan = plan_of(*(wheel_layer(wheel, part=part, parts=3) for part in range(3)))

    yard.assembler().build(plan.layers)

    members = [
        [row[0] for row in json.loads((yard.store.root / "facts" / f"members-{spec.key}.json").read_text())]
        for spec in plan.layers
    ]
    paths = [path for part in members for path in part]
    assert all(members)
    assert len(paths) == len(set(paths)) == len(files) + 4  # METADATA, WHEEL, INSTALLER, RECORD


def test_two_wheels_that_own_one_path_are_refused_by_both_names(yard: Yard, tmp_path: Path) -> None:
    one = build_wheel(tmp_path, name="first", files={"shared.py": "x = 1\n"})
    two = build_wheel(tmp_path, name="second", files={"shared.py": "x = 1\n"})
    plan = yard.plan([one, two])
    yard.assembler().build(plan.layers)

    with pytest.raises(InputError, match=r"shared\.py.*first==1\.0.*second==1\.0") as caught:
        check_conflicts(yard.store, plan.layers)
    assert "matrix.yaml" in caught.value.hint


def test_all_conflicts_are_said_at_once(yard: Yard, tmp_path: Path) -> None:
    files = {"one.py": "", "two.py": ""}
    plan = yard.plan([build_wheel(tmp_path, name=name, files=files) for name in ("first", "second")])
    yard.assembler().build(plan.layers)

    with pytest.raises(InputError, match=r"(?s)one\.py.*two\.py"):
        check_conflicts(yard.store, plan.layers)


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_lost_facts_of_a_layer_are_no_proof_that_it_fits(yard: Yard, tmp_path: Path, damage: str) -> None:
    """An empty list of members would let every conflict pass."""
    plan = yard.plan([build_wheel(tmp_path, name=name, files={"x.py": ""}) for name in ("a", "b")])
    yard.assembler().build(plan.layers)
    facts = yard.store.root / "facts" / f"members-{plan.layers[0].key}.json"
    facts.unlink() if damage == "gone" else facts.write_text('[["x.py"')

    with pytest.raises(InputError, match=r"wheels: a==1\.0") as caught:
        check_conflicts(yard.store, plan.layers)
    assert "invoke clean --layers" in caught.value.hint


def test_the_largest_layer_begins_first(yard: Yard, tmp_path: Path) -> None:
    """It decides when the build ends."""
    begun: list[str] = []
    wheels = [
        build_wheel(tmp_path, name=f"w{size}", files={f"w{size}.bin": bytes(size)}, compression=0)
        for size in (10, 1000, 100_000)
    ]
    plan = yard.plan(wheels)
    progress = Progress(begin=lambda spec: begun.append(spec.title))

    yard.assembler(workers=1, progress=progress).build(plan.layers)

    assert begun == [spec.title for spec in reversed(plan.layers)]


def test_bytes_needed_count_a_split_wheel_once_and_bytecode_as_what_it_is(yard: Yard, tmp_path: Path) -> None:
    """Bytecode of 3 GB of wheels is 65 MB: asking for 3 GB more would refuse disks that are large enough."""
    wheel = yard.admit(build_wheel(tmp_path, files={"x.bin": bytes(1_000_000)}, compression=0))
    parts = [wheel_layer(wheel, part=part, parts=2) for part in range(2)]
    compiled = LayerSpec(kind=LayerKind.BYTECODE, title="", mtime=0, wheels=(wheel,))

    assert wheel.size <= store_bytes_needed(parts) <= 1.3 * wheel.size
    assert 0 < store_bytes_needed([compiled]) < wheel.size / 4
    assert store_bytes_needed([]) == 0


def test_modes_do_not_follow_the_umask_of_the_process(yard: Yard, tmp_path: Path) -> None:
    plan = yard.plan([build_wheel(tmp_path)], files={"etc/x": b"x"})
    first = [layer.record for layer in yard.assembler().build(plan.layers)]
    old = os.umask(0o077)
    try:
        other = Yard(tmp_path / "other")
        again = other.plan([tmp_path / "demo-1.0-py3-none-any.whl"], files={"etc/x": b"x"})
        second = [layer.record for layer in other.assembler().build(again.layers)]
    finally:
        os.umask(old)

    assert second == first
