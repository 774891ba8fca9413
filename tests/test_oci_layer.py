"""A layer: parents once and from one table, refusals that name origin and path, both digests in one pass."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from tests.support.images import MTIME, packed, unzstd
from trainyard.errors import InputError, SpaceError
from trainyard.oci.codec import codec
from trainyard.oci.directories import attributes_of
from trainyard.oci.entry import Entry, Kind, directory_entry, file_entry, symlink_entry
from trainyard.oci.layer import StoppedError, WrittenLayer, write_layer

MIB = 1 << 20


def tar_of(entries: list[Entry]) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(unzstd(packed(entries)[1])), mode="r:") as tar:
        return tar.getmembers()


def names(entries: list[Entry]) -> list[str]:
    return [member.name for member in tar_of(entries)]


def refused(*entries: Entry) -> str:
    with pytest.raises(InputError) as caught:
        packed(entries)
    return caught.value.message


class TestParents:
    def test_every_missing_parent_comes_before_its_member(self) -> None:
        assert names([file_entry("a/b/c", b"")]) == ["a", "a/b", "a/b/c"]

    def test_each_parent_is_written_once(self) -> None:
        entries = [file_entry("a/b/1", b""), file_entry("a/2", b""), file_entry("a/b/3", b"")]

        assert names(entries) == ["a", "a/b", "a/b/1", "a/2", "a/b/3"]

    def test_parents_have_the_tables_attributes_and_the_layers_time(self) -> None:
        entries = [Entry(path=path, mtime=5) for path in ("tmp/x", "root/x", "opt/venv/bin/x", "usr/lib/x")]

        found = {
            item.name: (item.mode, item.uid, item.gid, item.mtime) for item in tar_of(entries) if item.isdir()
        }

        assert found == {
            path: (attributes_of(path).mode, attributes_of(path).uid, attributes_of(path).gid, MTIME)
            for path in ("tmp", "root", "opt", "opt/venv", "opt/venv/bin", "usr", "usr/lib")
        }
        assert found["tmp"][0] == 0o1777
        assert found["root"][0] == 0o700

    def test_a_directory_that_is_given_has_its_parents_too(self) -> None:
        assert names([directory_entry("a/b")]) == ["a", "a/b"]

    def test_a_directory_given_after_it_was_needed_is_not_written_again(self) -> None:
        assert names([file_entry("a/b", b""), directory_entry("a")]) == ["a", "a/b"]

    def test_two_packages_may_ship_the_same_directory(self) -> None:
        written, _ = packed([directory_entry("usr", origin="one"), directory_entry("usr", origin="two")])

        assert [(member.path, member.origin) for member in written.members] == [("usr", "one")]

    def test_a_directory_has_the_layers_time_whatever_its_package_says(self) -> None:
        """Two layers ship usr/ with two times; the later one would change what the earlier one gave."""
        entry = Entry(path="usr", kind=Kind.DIRECTORY, mode=0o755, mtime=99)

        assert tar_of([entry])[0].mtime == MTIME

    @pytest.mark.parametrize("wrong", [{"mode": 0o700}, {"uid": 1}, {"gid": 1}, {"mode": 0o1755}])
    def test_a_directory_that_differs_from_the_table_is_refused(self, wrong: dict[str, int]) -> None:
        entry = directory_entry("usr/share", origin="demo=1", **({"mode": 0o755} | wrong))

        assert refused(entry).startswith("demo=1: 'usr/share': a directory ")

    def test_a_path_of_two_thousand_directories_needs_no_recursion(self) -> None:
        assert len(names([file_entry("/".join("d" * 2040), b"")])) == 2040


class TestRefusals:
    @pytest.mark.parametrize(
        "path",
        ["/etc/x", "../x", "a/../x", "a/..", "./x", "a/./x", "a//x", "a/", "", "/", ".", ".."],
    )
    @pytest.mark.parametrize("kind", list(Kind))
    def test_a_path_that_is_not_plain_is_refused(self, path: str, kind: Kind) -> None:
        entry = Entry(path=path, kind=kind, mode=0o755, link="x", origin="demo==1")

        assert (
            refused(file_entry("a/first", b""), entry)
            == f"demo==1: {path!r}: not a plain path below the root"
        )

    @pytest.mark.parametrize("letter", ["\0", "\n", "\x1b", "\x7f", "\x9b"])
    def test_a_control_character_in_a_path_is_refused_and_not_printed(self, letter: str) -> None:
        message = refused(file_entry(f"a{letter}b", b""))

        assert "a control character in a path" in message
        assert letter not in message

    @pytest.mark.parametrize("path", [".wh.x", "a/.wh.x", "a/.wh..wh..opq", ".wh.dir/x"])
    def test_a_whiteout_name_is_refused(self, path: str) -> None:
        """An engine would delete what it names (OCI image-spec, layer.md, whiteouts)."""
        assert "an order to delete" in refused(file_entry(path, b""))

    def test_a_name_over_255_bytes_is_refused(self) -> None:
        assert "more than 255 bytes" in refused(file_entry("é" * 128, b""))
        assert names([file_entry("é" * 127, b"")]) == ["é" * 127]

    def test_a_path_over_4095_bytes_is_refused(self) -> None:
        path = "/".join(["d" * 255] * 16)

        assert len(path) == 4095
        assert names([file_entry(path, b"")])[-1] == path
        assert "more than 4095 bytes" in refused(file_entry(f"{path}/x", b""))

    def test_one_path_twice_names_both_origins(self) -> None:
        message = refused(file_entry("a/x", b"1", origin="one==1"), file_entry("a/x", b"1", origin="two==2"))

        assert message == "two==2: 'a/x': is in this layer already, a/x (a file of one==1)"

    @pytest.mark.parametrize("below", ["lib/x", "lib/a/b/x"])
    def test_an_entry_below_a_symlink_names_both_origins(self, below: str) -> None:
        message = refused(
            symlink_entry("lib", "usr/lib", origin="base"), file_entry(below, b"", origin="other")
        )

        assert message == f"other: {below!r}: lies below lib (a symlink to usr/lib of base)"

    def test_an_entry_below_a_file_is_refused(self) -> None:
        assert "lies below a (a file of one)" in refused(
            file_entry("a", b"", origin="one"), directory_entry("a/b", origin="two")
        )

    def test_a_symlink_where_files_lie_already_is_refused(self) -> None:
        message = refused(
            file_entry("lib/x", b"", origin="other"), symlink_entry("lib", "usr/lib", origin="base")
        )

        assert message == "base: 'lib': is a directory already, for other"

    def test_a_directory_where_a_file_is_is_refused(self) -> None:
        assert "is a (a file of one)" in refused(file_entry("a", b"", origin="one"), directory_entry("a"))

    @pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o1644])
    def test_setuid_setgid_and_sticky_files_are_refused(self, mode: int) -> None:
        message = refused(file_entry("bin/su", b"", mode=mode, origin="util-linux"))

        assert message == f"util-linux: 'bin/su': setuid, setgid or sticky ({mode:o})"

    @pytest.mark.parametrize("link", ["", "a\0b", "x" * 4096])
    def test_a_symlink_that_no_kernel_would_make_is_refused(self, link: str) -> None:
        assert "no symlink can hold" in refused(symlink_entry("a", link))

    def test_a_longer_symlink_comes_back_whole(self) -> None:
        assert tar_of([symlink_entry("a", "x" * 4095)])[0].linkname == "x" * 4095

    @pytest.mark.parametrize("target", ["nowhere", "dir", "soft", "other"])
    def test_a_hard_link_needs_an_earlier_file_of_its_layer(self, target: str) -> None:
        first = [directory_entry("dir"), file_entry("f", b""), symlink_entry("soft", "f")]
        link = Entry(path="link", kind=Kind.HARDLINK, link=target)

        assert "which is no earlier file of this layer" in refused(*first, link, file_entry("other", b""))

    def test_a_hard_link_with_another_mode_is_refused(self) -> None:
        link = Entry(path="link", kind=Kind.HARDLINK, link="f", mode=0o600)

        assert "another mode or owner" in refused(file_entry("f", b""), link)

    def test_a_name_that_is_not_utf_8_is_refused(self) -> None:
        assert "not UTF-8" in refused(file_entry("a/caf\udce9", b""))


class TestDigests:
    ENTRIES = (
        file_entry("opt/a", b"x" * 100, origin="one"),
        file_entry("opt/b", b"y" * (3 * MIB), origin="one"),
        symlink_entry("opt/c", "a", origin="two"),
        Entry(path="opt/d", kind=Kind.HARDLINK, link="opt/a", origin="two"),
        directory_entry("opt/e", origin="two"),
    )

    @pytest.mark.parametrize("name", ["zstd", "gzip"])
    def test_the_record_is_what_others_compute_from_the_blob(self, name: str) -> None:
        written, blob = packed(self.ENTRIES, using=codec(name))
        tar = unzstd(blob) if name == "zstd" else gzip.decompress(blob)

        assert written.digest == f"sha256:{hashlib.sha256(blob).hexdigest()}"
        assert written.diff_id == f"sha256:{hashlib.sha256(tar).hexdigest()}"
        assert (written.size, written.media_type) == (len(blob), codec(name).media_type)

    def test_both_compressions_have_one_diff_id(self) -> None:
        assert packed(self.ENTRIES)[0].diff_id == packed(self.ENTRIES, using=codec("gzip"))[0].diff_id

    def test_content_size_counts_files_and_files_counts_all_but_directories(self) -> None:
        written, _ = packed(self.ENTRIES)

        assert written.content_size == 100 + 3 * MIB
        assert written.files == 4

    def test_members_are_what_was_given_without_added_parents(self) -> None:
        written, _ = packed(self.ENTRIES)

        assert [(member.path, member.kind, member.link, member.origin) for member in written.members] == [
            ("opt/a", Kind.FILE, "", "one"),
            ("opt/b", Kind.FILE, "", "one"),
            ("opt/c", Kind.SYMLINK, "a", "two"),
            ("opt/d", Kind.HARDLINK, "opt/a", "two"),
            ("opt/e", Kind.DIRECTORY, "", "two"),
        ]

    def test_no_entries_make_an_empty_tar(self) -> None:
        written, blob = packed([])

        assert unzstd(blob) == bytes(1024)
        assert (written.files, written.content_size, written.members) == (0, 0, ())

    @pytest.mark.parametrize("name", ["zstd", "gzip"])
    @pytest.mark.parametrize("step", [7_000, MIB // 4, MIB, 5 * MIB])
    def test_how_content_is_cut_does_not_show(self, name: str, step: int) -> None:
        data = bytes(range(251)) * 25_000
        cut = [data[start : start + step] for start in range(0, len(data), step)]
        whole = packed([file_entry("f", data), file_entry("g", b"z")], using=codec(name))[0]

        found = packed(
            [Entry(path="f", size=len(data), content=cut), file_entry("g", b"z")], using=codec(name)
        )[0]

        assert found == whole

    def test_another_process_makes_the_same_bytes(self, tmp_path: Path) -> None:
        """Another hash seed, time zone, locale, umask and folder."""
        script = (
            "from tests.test_oci_layer import TestDigests, packed\n"
            "print(packed(TestDigests.ENTRIES)[0].digest, end='')"
        )
        environment = {
            "PYTHONHASHSEED": "77",
            "TZ": "Pacific/Chatham",
            "LC_ALL": "C",
            "SOURCE_DATE_EPOCH": "1",
        }

        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**environment, "PYTHONPATH": str(Path(__file__).parents[1])},
            cwd=tmp_path,
            umask=0o077,
            capture_output=True,
            text=True,
            check=True,
        )

        assert done.stdout == packed(self.ENTRIES)[0].digest


class Sink(io.RawIOBase):
    """A file that takes at most `most` bytes at once, and `room` in all."""

    def __init__(self, *, most: int = 1000, room: int = 1 << 40) -> None:
        self.data = bytearray()
        self.most = most
        self.room = room

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        taken = bytes(memoryview(data))[: self.most]  # type: ignore[arg-type]
        if len(self.data) + len(taken) > self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.data += taken
        return len(taken)


def big(count: int, *, chunk: bytes = b"q" * MIB) -> Iterator[Entry]:
    yield Entry(path="big", size=count * MIB, content=(chunk for _ in range(count)))


def layer_into(
    sink: Sink,
    *,
    stop: Callable[[], bool] | None = None,
    on_bytes: Callable[[int], object] | None = None,
    count: int = 8,
) -> WrittenLayer:
    return write_layer(
        big(count),
        mtime=MTIME,
        codec=codec("zstd"),
        sink=cast("BinaryIO", sink),
        stop=stop,
        on_bytes=on_bytes,
    )


class TestStreaming:
    def test_a_sink_that_takes_a_part_gets_the_rest(self) -> None:
        sink = Sink(most=13)

        written = layer_into(sink)

        assert f"sha256:{hashlib.sha256(sink.data).hexdigest()}" == written.digest

    def test_on_bytes_hears_every_byte_of_the_tar(self) -> None:
        heard: list[int] = []

        layer_into(Sink(), on_bytes=heard.append)

        assert sum(heard) == 512 + 8 * MIB + 1024
        assert max(heard) <= MIB + MIB // 4

    def test_stop_ends_the_layer_at_the_next_chunk(self) -> None:
        heard: list[int] = []

        with pytest.raises(StoppedError):
            layer_into(Sink(), stop=lambda: len(heard) >= 2, on_bytes=heard.append, count=1000)

        assert len(heard) == 2

    def test_entries_that_end_early_because_of_a_stop_never_pass_for_a_whole_layer(self) -> None:
        """A producer may see the flag first and simply end."""
        with pytest.raises(StoppedError):
            layer_into(Sink(), stop=lambda: True, count=0)

    def test_a_full_disk_is_a_space_error_with_a_command(self) -> None:
        with pytest.raises(SpaceError, match="disk was full") as caught:
            layer_into(Sink(room=100))

        assert "invoke clean" in caught.value.hint

    def test_another_failing_write_keeps_its_own_error(self) -> None:
        class Broken(Sink):
            def write(self, data: object) -> int:
                raise OSError(errno.EIO, "Input/output error")

        with pytest.raises(OSError, match="Input/output error"):
            layer_into(Broken())

    def test_an_error_in_the_content_is_not_swallowed(self) -> None:
        def content() -> Iterator[bytes]:
            yield b"x"
            raise InputError("demo==1: RECORD does not agree")

        with pytest.raises(InputError, match="RECORD does not agree"):
            packed([Entry(path="f", size=2, content=content())])

    def test_entries_are_taken_one_at_a_time(self) -> None:
        """A zip member is read before the next one is opened."""
        order: list[str] = []

        def entries() -> Iterator[Entry]:
            for name in "ab":

                def content(name: str = name) -> Iterator[bytes]:
                    order.append(f"read {name}")
                    yield b"x"

                order.append(f"open {name}")
                yield Entry(path=name, size=1, content=content())

        packed(entries())

        assert order == ["open a", "read a", "open b", "read b"]

    def test_a_layer_of_a_gigabyte_stays_under_100_mb_of_memory(self) -> None:
        script = (
            "import resource\n"
            "from tests.test_oci_layer import Sink, layer_into\n"
            "class Null(Sink):\n"
            "    def write(self, data): return len(data)\n"
            "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
            "layer_into(Null(), count=1024)\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
        )

        done = subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONPATH": str(Path(__file__).parents[1])},
            capture_output=True,
            text=True,
            check=True,
        )

        scale = 1 if sys.platform == "darwin" else 1024
        assert int(done.stdout) * scale < 100 * MIB


def test_gnu_tar_with_zstd_unpacks_a_layer(tmp_path: Path) -> None:
    (tmp_path / "layer.tar.zst").write_bytes(packed(TestDigests.ENTRIES)[1])
    (tmp_path / "root").mkdir()

    done = subprocess.run(
        ["tar", "--zstd", "-xf", "layer.tar.zst", "-C", "root", "--no-same-owner"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "root/opt/d").samefile(tmp_path / "root/opt/a")
    assert (tmp_path / "root/opt/c").read_bytes() == b"x" * 100
