"""A layer's key: changed by everything that decides its bytes, and by nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.locks import deb, fake_hash, wheel
from trainyard.digest import is_sha256
from trainyard.layers import CONSTANT_MTIME, ImageFile, LayerKind, LayerSpec

FILE = ImageFile(path="etc/x", data=b"one", mode=0o644)
SPEC = LayerSpec(
    kind=LayerKind.WHEELS,
    title="wheels",
    mtime=CONSTANT_MTIME,
    debs=(deb("tini"), deb("zlib1g")),
    wheels=(wheel("a"), wheel("b")),
    files=(FILE, ImageFile(path="etc/y", link="x")),
    part=0,
    parts=2,
    parameters=(("python", "3.13"),),
)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(replace(SPEC, kind=LayerKind.BYTECODE), id="kind"),
        pytest.param(replace(SPEC, mtime=SPEC.mtime + 1), id="mtime"),
        pytest.param(replace(SPEC, debs=SPEC.debs[:1]), id="a deb less"),
        pytest.param(replace(SPEC, debs=SPEC.debs[::-1]), id="debs in another order"),
        pytest.param(replace(SPEC, wheels=(wheel("a"), wheel("b", "1.1"))), id="another wheel"),
        pytest.param(replace(SPEC, wheels=SPEC.wheels[::-1]), id="wheels in another order"),
        pytest.param(replace(SPEC, part=1), id="part"),
        pytest.param(replace(SPEC, parts=3), id="parts"),
        pytest.param(replace(SPEC, parameters=(("python", "3.14"),)), id="a parameter's value"),
        pytest.param(replace(SPEC, parameters=(("pithon", "3.13"),)), id="a parameter's name"),
        pytest.param(replace(SPEC, parameters=()), id="no parameter"),
        pytest.param(replace(SPEC, files=SPEC.files[:1]), id="a file less"),
        pytest.param(replace(SPEC, files=(replace(FILE, data=b"two"), SPEC.files[1])), id="content"),
        pytest.param(replace(SPEC, files=(replace(FILE, mode=0o755), SPEC.files[1])), id="mode"),
        pytest.param(replace(SPEC, files=(replace(FILE, path="etc/z"), SPEC.files[1])), id="path"),
        pytest.param(replace(SPEC, files=(FILE, replace(SPEC.files[1], link="z"))), id="link"),
    ],
)
def test_whatever_decides_a_byte_changes_the_key(changed: LayerSpec) -> None:
    assert changed.key != SPEC.key


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(replace(SPEC, title="another title"), id="title"),
        pytest.param(
            replace(
                SPEC, wheels=(replace(SPEC.wheels[0], filename="a-1.0-py2.py3-none-any.whl"), SPEC.wheels[1])
            ),
            id="file name",
        ),
        pytest.param(
            replace(SPEC, debs=(replace(SPEC.debs[0], path="elsewhere"), SPEC.debs[1])), id="pool path"
        ),
    ],
)
def test_what_is_only_said_of_a_layer_leaves_the_key(changed: LayerSpec) -> None:
    assert changed.key == SPEC.key


def test_the_format_number_is_part_of_every_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = SPEC.key
    monkeypatch.setattr("trainyard.layers.FORMAT", 2)

    assert SPEC.key != before


def test_the_key_of_a_known_layer_is_this_one() -> None:
    """A golden value: keys are names in caches and in images/, and may not move by accident."""
    spec = LayerSpec(kind=LayerKind.FILES, title="t", mtime=1, files=(ImageFile(path="a", data=b"b"),))

    assert spec.key == "1da67d66df2fd458d4740262bc4439ced444f83249a6e1094b57313d0575eab3"


def test_a_key_is_a_bare_sha256() -> None:
    assert is_sha256(SPEC.key)


def test_a_file_cannot_pass_for_another_by_moving_bytes_between_its_fields() -> None:
    one = LayerSpec(kind=LayerKind.FILES, title="", mtime=0, files=(ImageFile(path="ab", link="c"),))
    two = LayerSpec(kind=LayerKind.FILES, title="", mtime=0, files=(ImageFile(path="a", link="bc"),))

    assert one.key != two.key


def test_two_parts_of_one_wheel_have_two_keys_and_half_its_size_each() -> None:
    whole = wheel("torch", size=600)
    first, second = (
        LayerSpec(kind=LayerKind.WHEELS, title="", mtime=0, wheels=(whole,), part=part, parts=2)
        for part in (0, 1)
    )

    assert first.key != second.key
    assert (first.input_size, second.input_size) == (300, 300)


def test_inputs_are_the_debs_and_then_the_wheels() -> None:
    assert [item.name for item in SPEC.inputs] == ["tini", "zlib1g", "a", "b"]


def test_a_deb_and_a_wheel_of_one_hash_are_told_apart_by_kind() -> None:
    same = fake_hash("bytes")
    debs = LayerSpec(kind=LayerKind.DEBS, title="", mtime=0, debs=(replace(deb("x"), sha256=same),))
    wheels = LayerSpec(kind=LayerKind.WHEELS, title="", mtime=0, wheels=(replace(wheel("x"), sha256=same),))

    assert debs.key != wheels.key
