"""The tar writer: frozen bytes, and two other programs that read them as we mean them."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from trainyard.digest import sha256_hex
from trainyard.errors import InputError
from trainyard.oci.entry import Entry, Kind, directory_entry, file_entry, symlink_entry
from trainyard.oci.tar import TarWriter

MTIME = 946_684_800
LONG = "opt/" + "d" * 90 + "/" + "é" * 60 + "/" + "f" * 100 + "/ü.txt"
OVER_100 = "opt/" + "x" * 97


def write(entries: Iterable[Entry], *, mtime: int = MTIME) -> bytes:
    stream = io.BytesIO()
    tar = TarWriter(stream.write)
    for entry in entries:
        tar.add(entry, mtime=mtime)
    tar.close()
    return stream.getvalue()


def members(data: bytes) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
        return tar.getmembers()


def every_kind() -> list[Entry]:
    return [
        directory_entry("opt"),
        file_entry("opt/a", b"content\n", mode=0o755, uid=1000, gid=42),
        Entry(path="opt/b", kind=Kind.HARDLINK, link="opt/a"),
        symlink_entry("opt/c", "../opt/a"),
        Entry(path="opt/own time", mtime=1_000_000_000),
        file_entry(LONG, b"x" * 512),
        symlink_entry("opt/to long", LONG),
        Entry(path=LONG + ".link", kind=Kind.HARDLINK, link=LONG),
    ]


def test_the_bytes_are_frozen() -> None:
    """A change here changes every diff id that was ever recorded: it needs a new layers.FORMAT."""
    assert (
        sha256_hex(write(every_kind())) == "31984c7655d53d2f59399670a10338dfdc47edc205411e5c451284882b099cff"
    )


def test_an_empty_archive_is_two_zero_blocks() -> None:
    assert write([]) == bytes(1024)


def test_python_reads_back_what_was_written() -> None:
    data = write(every_kind())

    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
        found = [
            (
                item.name,
                item.type,
                item.mode,
                item.uid,
                item.gid,
                item.mtime,
                item.size,
                item.linkname,
                item.uname + item.gname,
            )
            for item in tar.getmembers()
        ]
        content = tar.extractfile(LONG)
        assert content is not None
        assert content.read() == b"x" * 512
    assert found == [
        ("opt", tarfile.DIRTYPE, 0o755, 0, 0, MTIME, 0, "", ""),
        ("opt/a", tarfile.REGTYPE, 0o755, 1000, 42, MTIME, 8, "", ""),
        ("opt/b", tarfile.LNKTYPE, 0o644, 0, 0, MTIME, 0, "opt/a", ""),
        ("opt/c", tarfile.SYMTYPE, 0o777, 0, 0, MTIME, 0, "../opt/a", ""),
        ("opt/own time", tarfile.REGTYPE, 0o644, 0, 0, 1_000_000_000, 0, "", ""),
        (LONG, tarfile.REGTYPE, 0o644, 0, 0, MTIME, 512, "", ""),
        ("opt/to long", tarfile.SYMTYPE, 0o777, 0, 0, MTIME, 0, LONG, ""),
        (LONG + ".link", tarfile.LNKTYPE, 0o644, 0, 0, MTIME, 0, LONG, ""),
    ]


def test_gnu_tar_unpacks_every_kind_without_a_warning(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(write(every_kind()))
    (tmp_path / "root").mkdir()

    done = subprocess.run(
        ["tar", "-xf", "a.tar", "-C", "root", "--no-same-owner"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, b"")
    root = tmp_path / "root"
    assert (root / LONG).read_bytes() == b"x" * 512
    assert (root / f"{LONG}.link").samefile(root / LONG)
    assert str((root / "opt/to long").readlink()) == LONG
    assert (root / "opt/c").read_bytes() == b"content\n"
    assert (root / "opt/a").stat().st_mtime == MTIME
    assert (root / "opt/own time").stat().st_mtime == 1_000_000_000


@pytest.mark.parametrize("count", [99, 100, 101, 155, 156, 255, 256, 300, 4000])
@pytest.mark.parametrize("letter", ["a", "ő"])
def test_paths_of_any_length_come_back_whole_from_both_readers(
    tmp_path: Path, count: int, letter: str
) -> None:
    text = letter * count
    path = "/".join(text[start : start + 100] for start in range(0, count, 100))
    data = write([directory_entry(path), Entry(path=f"{path}/link", kind=Kind.SYMLINK, link=path)])
    (tmp_path / "a.tar").write_bytes(data)

    listed = subprocess.run(
        ["tar", "-tf", "a.tar", "--quoting-style=literal"], cwd=tmp_path, capture_output=True, check=True
    )

    assert [item.name for item in members(data)] == [path, f"{path}/link"]
    assert members(data)[1].linkname == path
    assert listed.stdout.decode() == f"{path}/\n{path}/link\n"


def test_short_ascii_names_need_no_extended_header() -> None:
    assert len(write([file_entry("a" * 100, b"")])) == 512 + 1024


def test_one_more_byte_needs_an_extended_header() -> None:
    assert len(write([file_entry("a" * 101, b"")])) == 3 * 512 + 1024


def test_the_slash_of_a_directory_counts() -> None:
    assert len(write([directory_entry("a" * 99)])) == 512 + 1024
    assert len(write([directory_entry("a" * 100)])) == 3 * 512 + 1024


@pytest.mark.parametrize("count", range(80, 120))
def test_the_length_of_a_pax_record_counts_its_own_digits(count: int) -> None:
    """From 99 to 101 characters the length field itself grows."""
    path = "é" + "x" * count

    assert members(write([file_entry(path, b"")]))[0].pax_headers == {"path": path}


def test_a_file_over_8_gib_keeps_its_size_in_both_readers(tmp_path: Path) -> None:
    """The content is a hole in a sparse file: the octal field ends at 8 GiB."""
    hole = bytes(1 << 20)
    size = (8 << 30) + (1 << 20)
    with (tmp_path / "big.tar").open("wb") as stream:

        def sparse(data: bytes) -> None:
            if data is hole:
                stream.seek(len(data), 1)
            else:
                stream.write(data)

        tar = TarWriter(sparse)
        tar.add(Entry(path="big", size=size, content=(hole for _ in range(size >> 20))), mtime=MTIME)
        tar.add(file_entry("after", b"end"), mtime=MTIME)
        tar.close()

    with tarfile.open(tmp_path / "big.tar", mode="r:") as archive:
        assert [(item.name, item.size) for item in archive.getmembers()] == [("big", size), ("after", 3)]
    listed = subprocess.run(
        ["tar", "-tvf", "big.tar"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert [line.split()[2] for line in listed.stdout.splitlines()] == [str(size), "3"]


def test_the_largest_size_of_the_octal_field_has_no_extended_header() -> None:
    written: list[bytes] = []
    chunk = bytes(1 << 20)
    last = bytes((1 << 20) - 1)
    content = [*(chunk for _ in range((8 << 10) - 1)), last]

    TarWriter(written.append).add(Entry(path="f", size=(8 << 30) - 1, content=content), mtime=MTIME)

    assert len(written[0]) == 512
    assert b"77777777777\0" in written[0]


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513])
def test_content_is_padded_to_whole_blocks(size: int) -> None:
    assert len(write([file_entry("f", b"x" * size)])) == 512 + -(-size // 512) * 512 + 1024


def test_a_large_chunk_is_passed_on_and_not_copied() -> None:
    chunk = bytes(1 << 20)
    written: list[bytes] = []

    TarWriter(written.append).add(Entry(path="f", size=1 << 20, content=(chunk,)), mtime=MTIME)

    assert written[1] is chunk


def test_how_content_is_cut_does_not_show() -> None:
    whole = Entry(path="f", size=6, content=(b"abcdef",))
    cut = Entry(path="f", size=6, content=iter([b"a", b"", b"bcd", b"ef"]))

    assert write([whole]) == write([cut])


def test_content_shorter_than_announced_names_path_and_origin() -> None:
    with pytest.raises(
        InputError, match=r"^demo==1\.0: 'opt/f': 3 bytes of content, 2 fewer than announced$"
    ):
        write([Entry(path="opt/f", size=5, content=(b"abc",), origin="demo==1.0")])


def test_content_longer_than_announced_names_path_and_origin() -> None:
    with pytest.raises(InputError, match=r"^demo==1\.0: 'opt/f': more content than its 2 bytes$"):
        write([Entry(path="opt/f", size=2, content=(b"ab", b"c"), origin="demo==1.0")])


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        (Entry(path="f", mtime=-1), "mtime"),
        (Entry(path="f", mtime=1 << 33), "mtime"),
        (Entry(path="f", uid=1 << 21), "uid"),
        (Entry(path="f", gid=-1), "gid"),
        (Entry(path="f", mode=0o10000), "mode"),
        (Entry(path="f", size=-1), "size"),
    ],
)
def test_a_number_that_a_header_cannot_hold_is_refused(entry: Entry, field: str) -> None:
    with pytest.raises(InputError, match=f"'f': {field} "):
        write([entry])


def test_a_name_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(InputError, match="path is not UTF-8"):
        write([file_entry("caf\udce9", b"")])


def test_the_members_own_time_wins_over_the_layers() -> None:
    found = members(write([Entry(path="a", mtime=7), Entry(path="b")], mtime=9))

    assert [item.mtime for item in found] == [7, 9]
