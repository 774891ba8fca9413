"""The content-addressed store: whole or absent, never half."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trainyard.digest import sha256_hex
from trainyard.errors import TrainyardError
from trainyard.store import LayerRecord, Store

DATA = b"layer bytes"


def keep(store: Store, *, data: bytes = DATA) -> LayerRecord:
    with store.scratch() as folder:
        blob = folder / "blob"
        blob.write_bytes(data)
        record = LayerRecord(
            key="k-zstd",
            diff_id="sha256:d",
            digest=f"sha256:{sha256_hex(data)}",
            size=len(data),
            content_size=3,
            files=1,
            media_type="m",
        )
        store.keep_layer(record, blob)
    return record


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def test_a_kept_layer_is_found_again_with_its_blob(store: Store) -> None:
    record = keep(store)

    assert store.layer("k-zstd") == record
    assert store.blob(sha256_hex(DATA)).read_bytes() == DATA


def test_an_unknown_key_has_no_layer(store: Store) -> None:
    assert store.layer("k-zstd") is None


def test_a_record_whose_blob_is_gone_is_no_layer(store: Store) -> None:
    keep(store)
    store.blob(sha256_hex(DATA)).unlink()

    assert store.layer("k-zstd") is None


def test_a_record_whose_blob_was_cut_short_is_no_layer(store: Store) -> None:
    keep(store)
    blob = store.blob(sha256_hex(DATA))
    blob.chmod(0o644)
    blob.write_bytes(DATA[:-1])

    assert store.layer("k-zstd") is None


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", '{"key": "k"}'])
def test_a_damaged_record_is_no_layer_and_no_crash(store: Store, text: str) -> None:
    keep(store)
    (store.root / "layers" / "k-zstd.json").write_text(text)

    assert store.layer("k-zstd") is None


def test_blobs_are_read_only(store: Store) -> None:
    keep(store)

    assert store.blob(sha256_hex(DATA)).stat().st_mode & 0o777 == 0o444


def test_facts_are_computed_once(store: Store) -> None:
    calls: list[int] = []

    def compute() -> object:
        calls.append(1)
        return {"a": [1]}

    assert store.facts("f", compute) == store.facts("f", compute) == {"a": [1]}
    assert len(calls) == 1


def test_damaged_facts_are_computed_again(store: Store) -> None:
    store.facts("f", lambda: 1)
    (store.root / "facts" / "f.json").write_text("{")

    assert store.facts("f", lambda: 2) == 2


def test_a_scratch_folder_is_gone_even_when_its_user_failed(store: Store) -> None:
    with pytest.raises(RuntimeError), store.scratch() as folder:
        (folder / "x").write_text("x")
        raise RuntimeError

    assert not folder.exists()


def test_a_second_process_is_refused_while_the_store_is_held(store: Store) -> None:
    program = f"""
import sys; sys.path.insert(0, {str(Path.cwd())!r})
from pathlib import Path; from trainyard.store import Store; from trainyard.errors import TrainyardError
try:
    with Store(Path({str(store.root)!r})).exclusive(): print("got it")
except TrainyardError as error: print(error.message, error.hint)
"""
    with store.exclusive():
        refused = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout
    granted = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout

    assert "another trainyard is using" in refused
    assert "TRAINYARD_CACHE" in refused
    assert granted == "got it\n"


def test_what_a_killed_run_left_in_tmp_is_removed_by_the_next(store: Store) -> None:
    left = store.root / "tmp" / "abc"
    left.mkdir(parents=True)

    with store.exclusive():
        assert not left.exists()


def test_a_killed_holder_does_not_keep_the_store(store: Store) -> None:
    program = f"""
import sys, time; sys.path.insert(0, {str(Path.cwd())!r})
from pathlib import Path; from trainyard.store import Store
with Store(Path({str(store.root)!r})).exclusive():
    print("held", flush=True); time.sleep(60)
"""
    holder = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(TrainyardError), store.exclusive():
        pass

    holder.kill()
    holder.communicate()

    with store.exclusive():
        pass


def test_a_record_is_written_after_its_blob(store: Store) -> None:
    """Seen from the files: a record on disk always names a blob that is there."""
    record = keep(store)
    written = json.loads((store.root / "layers" / "k-zstd.json").read_text())

    assert written["digest"] == record.digest
    assert store.blob(record.digest.removeprefix("sha256:")).exists()
