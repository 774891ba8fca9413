"""The zip file itself: what a wheel's central directory may not claim, and reading members by position."""

from __future__ import annotations

import random
import stat
import struct
import threading
import zipfile
from pathlib import Path

import pytest

from tests.support.wheels import (
    Member,
    build_wheel,
    forge,
    installed,
    locked,
    replace_bytes,
    symlink_member,
    write_zip,
)
from trainyard.digest import CHUNK
from trainyard.errors import InputError
from trainyard.wheels import zipped
from trainyard.wheels.archive import Site, WheelArchive
from trainyard.wheels.zipped import ZipReader


def refused(path: Path) -> str:
    """The message of the one InputError that checking this wheel raises."""
    with pytest.raises(InputError) as caught:
        WheelArchive(path, locked(path), Site()).check()
    assert path.name in caught.value.message
    assert "`invoke " in caught.value.hint
    return caught.value.message


def test_a_truncated_wheel_is_told_by_its_length(tmp_path: Path) -> None:
    """The lock knows the size: no need to guess from a broken central directory."""
    path = build_wheel(tmp_path)
    wheel = locked(path)
    path.write_bytes(path.read_bytes()[:-10])

    with pytest.raises(
        InputError, match=f"is {wheel.size - 10} bytes long, the lock says {wheel.size}"
    ) as caught:
        WheelArchive(path, wheel, Site()).check()
    assert "invoke clean --inputs" in caught.value.hint


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\3\4" + bytes(100)])
def test_what_is_no_zip_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "demo-1.0-py3-none-any.whl"
    path.write_bytes(content)

    assert "is not a readable zip file" in refused(path)


@pytest.mark.parametrize(
    ("member", "problem"),
    [
        (symlink_member("demo/link", "/etc/passwd"), "'demo/link' is a symbolic link"),
        (Member(name="demo/null", mode=stat.S_IFCHR | 0o666), "'demo/null' is a special file"),
        (Member(name="demo/pipe", mode=stat.S_IFIFO | 0o666), "'demo/pipe' is a special file"),
        (Member(name="demo/folder", mode=stat.S_IFDIR | 0o755), "'demo/folder' is a folder by its mode"),
        (Member(name="../evil.py"), "'../evil.py' escapes the environment"),
        (Member(name="demo/../../evil.py"), "'demo/../../evil.py' escapes the environment"),
        (Member(name="/etc/cron.d/evil"), "'/etc/cron.d/evil' is an absolute path"),
        (Member(name="demo\\evil.py"), "has a backslash in its name"),
        (Member(name="demo/\0evil.py"), "has a control character in its name"),
        (Member(name="../evil/", mode=stat.S_IFDIR | 0o755), "'../evil' escapes"),
        (Member(name="demo/a.bz2", data=b"x", compression=zipfile.ZIP_BZIP2), "is compressed by method 12"),
        (Member(name="demo/a.xz", data=b"x", compression=zipfile.ZIP_LZMA), "is compressed by method 14"),
        (Member(name="demo/sub/", data=b"x", mode=stat.S_IFDIR | 0o755), "is a folder with content"),
    ],
)
def test_a_member_that_is_no_plain_file_below_the_environment_is_named(
    tmp_path: Path, member: Member, problem: str
) -> None:
    message = refused(build_wheel(tmp_path, members=[member]))

    assert problem.replace("'../evil' escapes", "'../evil/' escapes") in message


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_refused(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, members=[Member(name="demo/__init__.py", data=b"other")])

    assert "'demo/__init__.py' is in the zip file twice" in refused(path)


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    assert "'demo/__init__.py' is encrypted" in refused(
        forge(build_wheel(tmp_path), "demo/__init__.py", flags=1)
    )


def test_a_stored_member_cannot_claim_another_size(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, compression=zipfile.ZIP_STORED)

    assert "is stored, and claims 1000000 bytes of 12" in refused(
        forge(path, "demo/__init__.py", size=1_000_000)
    )


def test_members_that_share_bytes_are_refused(tmp_path: Path) -> None:
    """Many names over one compressed body: how a zip of 10 MB holds 281 TB."""
    path = build_wheel(tmp_path, files={"a.py": "x = 1\n", "b.py": "x = 1\n"})

    assert "overlaps" in refused(forge(path, "b.py", offset=0))


def test_a_member_that_reaches_into_the_central_directory_is_refused(tmp_path: Path) -> None:
    path = build_wheel(tmp_path)

    assert "overlaps the central directory" in refused(
        forge(path, "demo-1.0.dist-info/RECORD", compressed=1 << 20)
    )


def test_too_many_members_and_too_much_content_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zipped, "MAX_MEMBERS", 3)
    monkeypatch.setattr(zipped, "MAX_CONTENT", 10)

    message = refused(build_wheel(tmp_path))

    assert "has 4 members, more than 3" in message
    assert "bytes, more than 10" in message


def test_all_problems_of_a_zip_come_in_one_message(tmp_path: Path) -> None:
    message = refused(
        build_wheel(tmp_path, members=[Member(name="../a"), symlink_member("b", "c"), Member(name="d\\e")])
    )

    assert "'../a' escapes" in message
    assert "'b' is a symbolic link" in message
    assert "has a backslash" in message


def test_a_very_bad_wheel_has_a_message_that_ends(tmp_path: Path) -> None:
    message = refused(build_wheel(tmp_path, members=[Member(name=f"../{number}") for number in range(500)]))

    assert len(message.splitlines()) < 30
    assert "more" in message.splitlines()[-1]


def test_folders_are_allowed_and_ignored(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, members=[Member(name="demo/", mode=stat.S_IFDIR | 0o755)])

    WheelArchive(path, locked(path), Site()).check()


def test_a_local_header_that_names_another_file_is_refused(tmp_path: Path) -> None:
    """Two readers of one zip must not see two wheels."""
    path = build_wheel(tmp_path, files={"aaaa.py": "x = 1\n"})
    data = path.read_bytes()
    path.write_bytes(data.replace(b"aaaa.py", b"bbbb.py", 1))
    reader = ZipReader(path, locked(path))

    with pytest.raises(InputError, match=r"'aaaa\.py': its local header is missing or names another file"):
        list(reader.stream(reader.members[0]))


def test_corrupt_compressed_bytes_are_refused_by_name(tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(1000))
    path = build_wheel(tmp_path, files={"demo.py": text})
    with zipfile.ZipFile(path) as archive:
        start = archive.infolist()[0].header_offset + 30 + len("demo.py")
    data = bytearray(path.read_bytes())
    data[start : start + 40] = b"\xff" * 40
    path.write_bytes(data)
    reader = ZipReader(path, locked(path))

    with pytest.raises(InputError, match=r"demo-1\.0-py3-none-any\.whl: 'demo\.py'"):
        list(reader.stream(reader.members[0]))


def test_a_member_with_an_extra_field_is_read_from_behind_it(tmp_path: Path) -> None:
    """A zip64 field stands between name and content, of another length than in the central directory."""
    path = tmp_path / "demo-1.0-py3-none-any.whl"
    write_zip(path, [Member(name="a", data=b"content", compression=zipfile.ZIP_STORED)])
    data = path.read_bytes()
    extra = struct.pack("<HH4s", 0xCAFE, 4, b"abcd")
    header = bytearray(data[:30])
    struct.pack_into("<H", header, 28, len(extra))
    end = bytearray(data[data.index(b"PK\5\6") :])
    directory = data.index(b"PK\1\2")
    struct.pack_into("<I", end, 16, directory + len(extra))
    path.write_bytes(
        header + b"a" + extra + data[31:directory] + data[directory : data.index(b"PK\5\6")] + end
    )
    reader = ZipReader(path, locked(path))

    assert b"".join(reader.stream(reader.members[0])) == b"content"


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_large_members_come_in_chunks_of_at_most_one_mebibyte(tmp_path: Path, compression: int) -> None:
    content = bytes(range(256)) * (10 << 10)
    path = build_wheel(tmp_path, files={"big.bin": content}, compression=compression)
    reader = ZipReader(path, locked(path))

    chunks = list(reader.stream(reader.members[0]))

    assert b"".join(chunks) == content
    assert max(map(len, chunks)) <= CHUNK


def test_threads_read_members_of_one_reader_at_the_same_time(tmp_path: Path) -> None:
    """Reads are by position: no thread moves another's place in the file."""
    contents = {f"f{number}.bin": bytes([number]) * (2 * CHUNK + number) for number in range(8)}
    path = build_wheel(tmp_path, files=contents, compression=zipfile.ZIP_STORED)
    reader = ZipReader(path, locked(path))
    found: dict[str, bytes] = {}

    def read(info: zipfile.ZipInfo) -> None:
        found[info.orig_filename] = b"".join(reader.stream(info))

    threads = [threading.Thread(target=read, args=(info,)) for info in reader.members[:8]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == contents


def test_the_descriptor_is_closed_when_the_last_stream_is_gone(tmp_path: Path) -> None:
    """Content may be read after its archive is out of sight, and nothing stays open after it."""
    path = build_wheel(tmp_path, files={"demo.py": "x = 1\n"})
    descriptors = Path("/dev/fd")
    before = len(list(descriptors.iterdir()))
    entry = next(
        entry
        for entry in WheelArchive(path, locked(path), Site()).entries()
        if entry.path.endswith("demo.py")
    )

    assert b"".join(entry.content) == b"x = 1\n"
    del entry
    assert len(list(descriptors.iterdir())) == before


def test_a_directory_that_places_members_before_the_file_is_refused(tmp_path: Path) -> None:
    path = build_wheel(tmp_path)
    data = bytearray(path.read_bytes())
    where = data.index(b"PK\5\6") + 16
    struct.pack_into("<I", data, where, struct.unpack_from("<I", data, where)[0] + 5000)
    path.write_bytes(data)

    assert "'demo/__init__.py' lies before the start of the file" in refused(path)


def test_no_damage_to_a_wheel_gets_past_the_check_or_crashes_it(tmp_path: Path) -> None:
    """Bytes flipped, cut and inserted anywhere: an InputError, or exactly the content that was there."""
    path = build_wheel(
        tmp_path,
        files={"a/b.py": "x = 1\n" * 50, "c": "d"},
        data={"scripts/s": "#!python\n"},
        entry_points="e = a.b:f",
        requires=["x"],
    )
    good = path.read_bytes()
    expected = {
        name: content for name, (_, content) in installed(WheelArchive(path, locked(path), Site())).items()
    }
    refusals = 0
    for seed in range(400):
        path.write_bytes(damaged(good, random.Random(seed)))
        try:
            found = installed(WheelArchive(path, locked(path), Site()))
        except InputError:
            refusals += 1
        else:
            assert {name: content for name, (_, content) in found.items()} == expected, seed

    assert refusals > 300


def damaged(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        kind, at = chance.random(), chance.randrange(len(changed))
        if kind < 0.7:
            changed[at] = chance.choice(
                (0, 255, chance.randrange(256), changed[at] ^ (1 << chance.randrange(8)))
            )
        elif kind < 0.85:
            del changed[at : at + chance.randrange(1, 20)]
        else:
            changed[at:at] = chance.randbytes(chance.randrange(1, 20))
    return bytes(changed)


def test_stored_content_changed_in_place_does_not_reach_the_last_chunk(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, files={"demo.py": "x = 12345\n"}, compression=zipfile.ZIP_STORED)
    replace_bytes(path, b"x = 12345", b"x = 54321")
    entries = {entry.path: entry for entry in WheelArchive(path, locked(path), Site()).entries()}
    stream = iter(entries["opt/venv/lib/python3.13/site-packages/demo.py"].content)

    with pytest.raises(InputError, match=r"demo-1\.0-py3-none-any\.whl: 'demo\.py' does not have the sha256"):
        next(stream)
