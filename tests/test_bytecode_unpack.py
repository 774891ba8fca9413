"""Unpacking debs for running what is in them: nothing is written outside the folder, nothing twice."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from trainyard.bytecode.unpack import unpack
from trainyard.errors import InputError
from trainyard.oci.entry import Entry, Kind, directory_entry, file_entry, symlink_entry


def hardlink(path: str, target: str) -> Entry:
    return Entry(path=path, kind=Kind.HARDLINK, link=target, origin="demo=1")


def test_files_folders_and_links_are_where_they_belong(tmp_path: Path) -> None:
    root = tmp_path / "tree"

    unpack(
        [
            directory_entry("empty/folder"),
            file_entry("usr/bin/tool", b"#!/bin/sh\n", mode=0o755),
            symlink_entry("usr/lib/libx.so.1", "libx.so.1.2"),
            file_entry("usr/lib/libx.so.1.2", b"\x7fELF"),
            hardlink("usr/bin/alias", "usr/bin/tool"),
        ],
        root,
    )

    assert (root / "empty/folder").is_dir()
    assert (root / "usr/lib/libx.so.1").read_bytes() == b"\x7fELF"
    assert (root / "usr/bin/alias").samefile(root / "usr/bin/tool")


@pytest.mark.parametrize(
    ("mode", "expected"), [(0o644, 0o444), (0o755, 0o555), (0o4755, 0o555), (0o2755, 0o555), (0o600, 0o444)]
)
def test_files_are_read_only_and_without_setuid(mode: int, expected: int, tmp_path: Path) -> None:
    unpack([file_entry("usr/bin/tool", b"x", mode=mode)], tmp_path / "tree")

    assert stat.S_IMODE((tmp_path / "tree/usr/bin/tool").stat().st_mode) == expected


def test_a_callers_umask_takes_no_right_from_a_file(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        unpack([file_entry("usr/bin/tool", b"x", mode=0o755)], tmp_path / "tree")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "tree/usr/bin/tool").stat().st_mode) == 0o555


def test_a_file_below_a_link_stays_inside(tmp_path: Path) -> None:
    """A link to the outside comes last, so what lies below its name was written into a real folder before."""
    outside = tmp_path / "outside"
    outside.mkdir()
    hostile = [symlink_entry("usr/lib", str(outside), origin="demo=1"), file_entry("usr/lib/x", b"x")]

    with pytest.raises(InputError, match=r"demo=1: usr/lib "):
        unpack(hostile, tmp_path / "tree")

    assert not list(outside.iterdir())


def test_a_link_below_a_link_stays_inside(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    hostile = [symlink_entry("a", str(outside)), symlink_entry("a/b", "anything")]

    with pytest.raises(InputError):
        unpack(hostile, tmp_path / "tree")

    assert not list(outside.iterdir())


def test_a_hard_link_reaches_no_file_outside(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    hostile = [symlink_entry("a", str(tmp_path)), hardlink("b", "a/secret")]

    with pytest.raises(InputError, match="demo=1: b "):
        unpack(hostile, tmp_path / "tree")

    assert (tmp_path / "secret").stat().st_nlink == 1


@pytest.mark.parametrize(
    "second",
    [
        file_entry("usr/x", b"2", origin="other=2"),
        file_entry("usr/x/y", b"2", origin="other=2"),
        directory_entry("usr/x", origin="other=2"),
        symlink_entry("usr/x", "y", origin="other=2"),
        symlink_entry("usr/x/y", "z", origin="other=2"),
        Entry(path="usr/x", kind=Kind.HARDLINK, link="usr/x", origin="other=2"),
        Entry(path="usr/y", kind=Kind.HARDLINK, link="usr/missing", origin="other=2"),
    ],
    ids=["file", "file below", "folder", "link", "link below", "hard link", "hard link to nothing"],
)
def test_a_path_that_does_not_fit_names_the_package(second: Entry, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"other=2: usr/[xy]"):
        unpack([file_entry("usr/x", b"1"), second], tmp_path / "tree")


def test_a_folder_that_is_there_is_not_added_to(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError):
        unpack([file_entry("x", b"1")], tmp_path)
