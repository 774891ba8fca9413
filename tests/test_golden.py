"""The golden record: what a build must produce, and what a difference is called."""

from __future__ import annotations

import json

import pytest

from tests.support.locks import fake_hash
from trainyard.errors import ReproducibilityError
from trainyard.golden import GoldenLayer, GoldenRecord, compare, refuse_other_bytes


def layer(name: str, **changes: object) -> GoldenLayer:
    fields = {
        "key": fake_hash(name),
        "diff_id": f"sha256:{fake_hash(name + ' tar')}",
        "digest": f"sha256:{fake_hash(name + ' zstd')}",
        "size": 10,
        "content_size": 20,
        "files": 2,
        "created_by": f"wheel: {name}",
    }
    return GoldenLayer(**(fields | changes))  # type: ignore[arg-type]


def record(*layers: GoldenLayer, plan: str = "plan", **changes: str) -> GoldenRecord:
    fields = {
        "format": 1,
        "target": "cuda13.2",
        "platform": "linux/amd64",
        "plan_key": fake_hash(plan),
        "tag": "cuda13.2-x",
        "config_digest": "sha256:c",
        "manifest_digest": "sha256:m",
        "layers": layers,
    }
    return GoldenRecord(**(fields | changes))  # type: ignore[arg-type]


def test_a_record_survives_its_own_text() -> None:
    original = record(layer("torch"), layer("numpy"))

    assert GoldenRecord.from_json(original.to_json(), source="x.json") == original


def test_equal_records_compare_quietly() -> None:
    compare(record(layer("torch")), record(layer("torch")))


def test_the_same_key_with_other_bytes_is_not_reproducible_and_names_the_layer() -> None:
    other = layer("torch", diff_id="sha256:other")

    with pytest.raises(
        ReproducibilityError, match=r"NOT REPRODUCIBLE.*\n.*wheel: torch: diff id sha256:other"
    ):
        compare(record(layer("torch")), record(other))


def test_all_layers_with_other_bytes_are_listed_at_once() -> None:
    old = record(layer("a"), layer("b"), layer("c"))
    new = record(layer("a", diff_id="sha256:1"), layer("b"), layer("c", digest="sha256:3"))

    with pytest.raises(ReproducibilityError) as caught:
        compare(old, new)

    assert "2 layers" in caught.value.message
    assert "wheel: a" in caught.value.message
    assert "wheel: b" not in caught.value.message
    assert "(same diff id)" in caught.value.message


def test_moved_inputs_are_not_called_irreproducible_and_the_hint_records() -> None:
    with pytest.raises(ReproducibilityError) as caught:
        compare(record(layer("torch1"), layer("same")), record(layer("torch2"), layer("same"), plan="new"))

    assert "inputs moved" in caught.value.message
    assert "- wheel: torch1" in caught.value.message
    assert "+ wheel: torch2" in caught.value.message
    assert "same" not in caught.value.message
    assert "--record" in caught.value.hint


def test_a_plan_that_moved_in_its_config_alone_says_so() -> None:
    with pytest.raises(ReproducibilityError, match="image config"):
        compare(record(layer("torch")), record(layer("torch"), plan="new"))


def test_other_bytes_win_over_moved_inputs() -> None:
    """A bug must not hide behind a lock that changed in the same commit."""
    with pytest.raises(ReproducibilityError, match="NOT REPRODUCIBLE"):
        compare(record(layer("torch")), record(layer("torch", diff_id="sha256:o"), plan="new"))


def test_gzip_is_held_to_diff_ids_only() -> None:
    gzipped = record(
        layer("torch", digest="sha256:gz", size=11), manifest_digest="sha256:gz", config_digest="sha256:c"
    )

    compare(record(layer("torch")), gzipped, diff_ids_only=True)
    with pytest.raises(ReproducibilityError):
        compare(record(layer("torch")), gzipped)


@pytest.mark.parametrize("field", ["config_digest", "manifest_digest"])
def test_config_and_manifest_are_held_when_all_layers_agree(field: str) -> None:
    with pytest.raises(ReproducibilityError, match="NOT REPRODUCIBLE"):
        compare(record(layer("a")), record(layer("a"), **{field: "sha256:other"}))


def test_refusing_other_bytes_ignores_keys_that_only_one_side_has() -> None:
    refuse_other_bytes(record(layer("old")), record(layer("new")))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', "not json"])
def test_a_damaged_record_is_an_expected_failure(text: str) -> None:
    with pytest.raises(ReproducibilityError, match=r"x\.json"):
        GoldenRecord.from_json(text, source="x.json")


def test_an_unknown_format_is_refused_by_number() -> None:
    document = json.loads(record(layer("a")).to_json()) | {"format": 99}

    with pytest.raises(ReproducibilityError, match="format 99"):
        GoldenRecord.from_json(json.dumps(document), source="x.json")
