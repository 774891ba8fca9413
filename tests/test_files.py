"""Atomic writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainyard.files import atomic_writer, write_atomic


def test_a_written_file_has_the_bytes_and_the_mode(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a" / "b", b"data", mode=0o600)

    assert (tmp_path / "a" / "b").read_bytes() == b"data"
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o600


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")

    with pytest.raises(RuntimeError), atomic_writer(path) as stream:
        stream.write(b"half")
        raise RuntimeError

    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_reader_never_sees_the_file_before_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with atomic_writer(path) as stream:
        stream.write(b"half")
        assert not path.exists()
        stream.write(b" whole")

    assert path.read_bytes() == b"half whole"


def test_the_umask_does_not_decide_the_mode(tmp_path: Path) -> None:
    import os

    old = os.umask(0o077)
    try:
        write_atomic(tmp_path / "f", b"")
    finally:
        os.umask(old)

    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o644
