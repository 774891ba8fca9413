"""A .deb becomes entries of a layer, or is refused by name."""

from __future__ import annotations

import tarfile
import tracemalloc
from pathlib import Path

import pytest

from tests.support.debs import ar, build_deb, tar_member
from trainyard.debian.archive import DebArchive, merged
from trainyard.errors import InputError
from trainyard.oci.entry import Entry, Kind


def deb(folder: Path, *, name: str = "pkg", version: str = "1.0-1", **options: object) -> DebArchive:
    """A tiny .deb with one file, and what else is asked for."""
    options.setdefault("files", {"usr/bin/tool": b"#!/bin/sh\n"})
    path = build_deb(folder, name, version, **options)  # type: ignore[arg-type]
    return DebArchive(path, name=name, version=version)


def by_path(archive: DebArchive) -> dict[str, Entry]:
    return {entry.path: entry for entry in archive.entries()}


@pytest.mark.parametrize("compression", ["", "gz", "xz", "zst"])
def test_every_compression_of_deb_5_is_read(tmp_path: Path, compression: str) -> None:
    archive = deb(tmp_path, compression=compression)

    contents = {entry.path: b"".join(entry.content) for entry in archive.entries() if entry.kind is Kind.FILE}

    assert contents == {"usr/bin/tool": b"#!/bin/sh\n"}


def test_entries_come_in_the_archives_order_with_the_debs_own_times(tmp_path: Path) -> None:
    entries = list(deb(tmp_path, files={"usr/bin/b": b"b", "usr/bin/a": b"a"}).entries())

    assert [entry.path for entry in entries] == ["usr", "usr/bin", "usr/bin/a", "usr/bin/b"]
    assert {entry.mtime for entry in entries} == {1_700_000_000}
    assert {entry.origin for entry in entries} == {"pkg=1.0-1"}


@pytest.mark.parametrize("written", [0, 1, -1, 100])
def test_a_time_before_1980_becomes_1980(tmp_path: Path, written: int) -> None:
    member = tar_member("./usr/old", size=0)
    member.mtime = written

    assert by_path(deb(tmp_path, members=[(member, b"")]))["usr/old"].mtime == 315_532_800


def test_owners_are_numbers_and_modes_are_kept(tmp_path: Path) -> None:
    archive = deb(
        tmp_path,
        files={"etc/secret": b"x"},
        modes={"etc/secret": 0o640},
        owners={"etc/secret": (0, 42)},
    )

    entry = by_path(archive)["etc/secret"]

    assert (entry.mode, entry.uid, entry.gid) == (0o640, 0, 42)


def test_links_are_kept_as_they_are(tmp_path: Path) -> None:
    archive = deb(
        tmp_path,
        files={"usr/bin/perl": b"x"},
        symlinks={"usr/bin/sh": "dash"},
        hardlinks={"usr/bin/perl5": "usr/bin/perl"},
    )

    entries = by_path(archive)

    assert (entries["usr/bin/sh"].kind, entries["usr/bin/sh"].link) == (Kind.SYMLINK, "dash")
    assert (entries["usr/bin/perl5"].kind, entries["usr/bin/perl5"].link) == (Kind.HARDLINK, "usr/bin/perl")


def test_paths_below_an_alias_move_into_usr_and_the_alias_itself_stays(tmp_path: Path) -> None:
    archive = deb(
        tmp_path,
        files={"lib/x86_64-linux-gnu/libx.so.1": b"x", "bin/tool": b"y"},
        hardlinks={"bin/tool2": "bin/tool"},
    )
    links = deb(tmp_path / "base", files={}, symlinks={"lib": "usr/lib", "lib64": "usr/lib64"})

    entries = by_path(archive)

    assert "usr/lib/x86_64-linux-gnu/libx.so.1" in entries
    assert entries["usr/bin/tool2"].link == "usr/bin/tool"
    assert not {"lib", "bin"} & set(entries)
    assert by_path(links)["lib"].link == "usr/lib"


@pytest.mark.parametrize(
    ("path", "expected"),
    [("lib/x", "usr/lib/x"), ("lib", "lib"), ("libexec/x", "libexec/x"), ("usr/lib/x", "usr/lib/x")],
)
def test_only_paths_below_an_alias_are_moved(path: str, expected: str) -> None:
    assert merged(path) == expected


def test_documents_manuals_and_translations_are_left_out_but_not_licences(tmp_path: Path) -> None:
    archive = deb(
        tmp_path,
        files={
            "usr/share/doc/pkg/copyright": b"free",
            "usr/share/doc/pkg/changelog.gz": b"x",
            "usr/share/man/man1/tool.1.gz": b"x",
            "usr/share/locale/de/LC_MESSAGES/tool.mo": b"x",
            "usr/share/mandala/x": b"x",
        },
    )

    files = {path for path, entry in by_path(archive).items() if entry.kind is Kind.FILE}

    assert files == {"usr/share/doc/pkg/copyright", "usr/share/mandala/x"}


def test_directories_that_scripts_turn_into_links_are_left_to_the_state_layer(tmp_path: Path) -> None:
    archive = deb(tmp_path, directories=["var/run", "var/lock", "var/log"])

    assert {"var/run", "var/lock"} & set(by_path(archive)) == set()
    assert "var/log" in by_path(archive)


def test_a_directory_has_the_attributes_of_the_plan_wide_table(tmp_path: Path) -> None:
    """apt ships `partial` as 0755 and changes it at run time; the table has the final word."""
    archive = deb(tmp_path, directories=["tmp", "var/cache/apt/archives/partial"], modes={"tmp": 0o1777})

    entries = by_path(archive)

    assert entries["tmp"].mode == 0o1777
    assert (
        entries["var/cache/apt/archives/partial"].mode,
        entries["var/cache/apt/archives/partial"].uid,
    ) == (0o700, 42)


def test_an_odd_directory_that_the_table_does_not_have_is_refused(tmp_path: Path) -> None:
    archive = deb(tmp_path, directories=["var/odd"], modes={"var/odd": 0o2775})

    with pytest.raises(
        InputError, match=r"pkg=1\.0-1: var/odd: directory 2775 0:0 is not in oci/directories\.py"
    ):
        list(archive.entries())


def test_a_known_setuid_file_loses_the_bit(tmp_path: Path) -> None:
    archive = deb(tmp_path, files={"usr/bin/su": b"x"}, modes={"usr/bin/su": 0o4755})

    assert by_path(archive)["usr/bin/su"].mode == 0o755


@pytest.mark.parametrize("mode", [0o4755, 0o2755])
def test_an_unknown_setuid_or_setgid_file_is_refused(tmp_path: Path, mode: int) -> None:
    archive = deb(tmp_path, files={"usr/bin/gain": b"x"}, modes={"usr/bin/gain": mode})

    with pytest.raises(InputError, match=rf"pkg=1\.0-1: usr/bin/gain: setuid or setgid .{mode:o}.") as caught:
        list(archive.entries())
    assert "reviewed*.toml" in caught.value.hint


@pytest.mark.parametrize(
    "name",
    [
        "../etc/passwd",
        "./usr/../../etc/passwd",
        "/etc/passwd",
        "./usr//x",
        "./usr/./x",
        "./usr/.wh.x",
        "./a\nb",
    ],
)
def test_a_path_that_escapes_hides_or_breaks_lists_is_refused(tmp_path: Path, name: str) -> None:
    archive = deb(tmp_path, members=[(tar_member(name), b"")])

    with pytest.raises(InputError, match=r"pkg=1\.0-1: "):
        list(archive.entries())


def test_a_hard_link_out_of_the_tree_is_refused(tmp_path: Path) -> None:
    member = tar_member("./usr/x", kind=tarfile.LNKTYPE, link="../../etc/shadow")

    with pytest.raises(InputError, match="escapes"):
        list(deb(tmp_path, members=[(member, b"")]).entries())


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE])
def test_devices_pipes_and_sparse_files_are_refused(tmp_path: Path, kind: bytes) -> None:
    with pytest.raises(InputError, match=r"pkg=1\.0-1"):
        list(deb(tmp_path, members=[(tar_member("./dev/x", kind=kind), b"")]).entries())


@pytest.mark.parametrize(("name", "version"), [("other", "1.0-1"), ("pkg", "1.0-2")])
def test_a_deb_that_is_not_the_locked_one_says_what_it_is(tmp_path: Path, name: str, version: str) -> None:
    path = build_deb(tmp_path, "pkg", "1.0-1")

    with pytest.raises(InputError, match=f"{name}={version}: the file says that it is pkg=1"):
        list(DebArchive(path, name=name, version=version).entries())


def test_a_deb_cut_anywhere_is_refused_by_name(tmp_path: Path) -> None:
    whole = build_deb(tmp_path, "pkg", "1.0-1", files={"usr/x": bytes(range(256)) * 300}).read_bytes()
    for size in range(0, len(whole) - 1, 97):
        path = tmp_path / "cut.deb"
        path.write_bytes(whole[:size])
        archive = DebArchive(path, name="pkg", version="1.0-1")

        with pytest.raises(InputError, match=r"pkg=1\.0-1"):
            for entry in archive.entries():
                assert len(b"".join(entry.content)) == entry.size


def test_damage_in_the_middle_is_refused_by_name(tmp_path: Path) -> None:
    path = build_deb(tmp_path, "pkg", "1.0-1", files={"usr/x": bytes(range(256)) * 300})
    data = bytearray(path.read_bytes())
    data[-60] ^= 0xFF
    path.write_bytes(data)

    with pytest.raises(InputError, match=r"pkg=1\.0-1: cannot be decompressed"):
        for entry in DebArchive(path, name="pkg", version="1.0-1").entries():
            list(entry.content)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"PK\x03\x04", "not a .deb"),
        (ar({"debian-binary": b"2.0\n"}), "has 0 members control.tar"),
        (ar({"control.tar.rar": b"x", "data.tar": b""}), "compressed in a way that we cannot read"),
        (ar({"control.tar": b"\0" * 10240}), "has no control file"),
        (ar({str(number): b"" for number in range(40)}), "more than 16 ar members"),
    ],
    ids=["zip", "no control", "unknown compression", "empty control", "many members"],
)
def test_what_is_no_deb_is_refused(tmp_path: Path, data: bytes, problem: str) -> None:
    path = tmp_path / "x.deb"
    path.write_bytes(data)

    with pytest.raises(InputError, match=f"pkg=1: .*{problem}"):
        list(DebArchive(path, name="pkg", version="1").entries())


def test_a_large_file_is_streamed_in_constant_memory(tmp_path: Path) -> None:
    archive = deb(tmp_path, files={"usr/lib/big": b"\0" * (96 << 20)})
    tracemalloc.start()

    total = sum(len(chunk) for entry in archive.entries() for chunk in entry.content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert total == 96 << 20
    assert peak < 40 << 20


def test_skipping_content_loses_no_entry(tmp_path: Path) -> None:
    archive = deb(tmp_path, files={f"usr/{index}": bytes(5000 * index) for index in range(9)})

    assert len([entry for entry in archive.entries() if entry.kind is Kind.FILE]) == 9


def test_the_control_file_and_its_companions_are_read(tmp_path: Path) -> None:
    archive = deb(
        tmp_path,
        scripts={"postinst": "#!/bin/sh\nexit 0\n", "prerm": "#!/bin/sh\n"},
        conffiles=["etc/pkg.conf"],
        files={"etc/pkg.conf": b"x"},
        control_files={"triggers": "# comment\nactivate-noawait ldconfig\n"},
    )

    control = archive.control

    assert control.fields["Package"] == "pkg"
    assert control.conffiles == ("/etc/pkg.conf",)
    assert control.install_scripts == {"postinst": "#!/bin/sh\nexit 0\n"}
    assert control.triggers == (("activate-noawait", "ldconfig"),)


def test_conffiles_that_an_upgrade_drops_are_told_apart(tmp_path: Path) -> None:
    archive = deb(tmp_path, control_files={"conffiles": "/etc/a\nremove-on-upgrade /etc/b\n"})

    assert archive.control.conffiles == ("/etc/a",)
    assert archive.control.dropped_conffiles == ("/etc/b",)
