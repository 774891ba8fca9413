"""A wheel as entries: what is installed, how it is verified, how it is cut into parts."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.wheels import (
    Member,
    Rows,
    build_wheel,
    forge,
    installed,
    locked,
    record_hash,
    replace_bytes,
)
from trainyard.digest import CHUNK
from trainyard.errors import InputError
from trainyard.oci.entry import Entry, Kind
from trainyard.wheels import archive as module
from trainyard.wheels.archive import Site, WheelArchive

PACKAGES = "opt/venv/lib/python3.13/site-packages"
INFO = f"{PACKAGES}/demo-1.0.dist-info"


def archive_of(path: Path, site: Site | None = None) -> WheelArchive:
    return WheelArchive(path, locked(path), site or Site())


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        archive_of(path).check()
    return caught.value.message


def drain(entry: Entry) -> bytes:
    return b"".join(entry.content)


def test_opening_costs_nothing_and_reads_nothing(tmp_path: Path) -> None:
    path = build_wheel(tmp_path)
    wheel = locked(path)
    path.unlink()

    WheelArchive(path, wheel, Site())


def test_a_plain_wheel_becomes_its_files_its_metadata_installer_and_record(tmp_path: Path) -> None:
    found = installed(
        archive_of(build_wheel(tmp_path, files={"demo/__init__.py": "x = 1\n", "demo/data.bin": b"\0"}))
    )

    assert list(found) == [
        f"{INFO}/INSTALLER",
        f"{INFO}/METADATA",
        f"{INFO}/RECORD",
        f"{INFO}/WHEEL",
        f"{PACKAGES}/demo/__init__.py",
        f"{PACKAGES}/demo/data.bin",
    ]
    assert found[f"{PACKAGES}/demo/__init__.py"] == (0o664, b"x = 1\n")
    assert found[f"{INFO}/INSTALLER"] == (0o664, b"trainyard\n")


def test_entries_are_plain_files_of_root_s_group_in_path_order(tmp_path: Path) -> None:
    """The venv is group 0 writable; the layer's own mtime applies; the origin names the wheel in messages."""
    path = build_wheel(tmp_path, files={"b.py": "", "a/z.py": "", "a.py": ""}, executable=["a.py"])
    entries = list(archive_of(path).entries())

    assert [entry.path for entry in entries] == sorted(entry.path for entry in entries)
    assert {(entry.kind, entry.uid, entry.gid, entry.mtime, entry.origin) for entry in entries} == {
        (Kind.FILE, 0, 0, None, "demo==1.0")
    }
    assert {entry.path: entry.mode for entry in entries if entry.mode == 0o775} == {f"{PACKAGES}/a.py": 0o775}


@pytest.mark.parametrize(
    ("mode", "expected"),
    [(0o100, 0o775), (0o010, 0o775), (0o001, 0o775), (0o4755, 0o775), (0o666, 0o664), (0, 0o664)],
)
def test_any_execute_bit_makes_an_executable_and_no_other_bit_counts(
    tmp_path: Path, mode: int, expected: int
) -> None:
    path = build_wheel(tmp_path, files={"tool.py": "x\n"})
    forge(path, "tool.py", mode=0o100000 | mode)

    assert installed(archive_of(path))[f"{PACKAGES}/tool.py"][0] == expected


def test_a_file_without_a_type_in_its_mode_is_a_plain_file(tmp_path: Path) -> None:
    """Several build backends write .dist-info like this."""
    path = build_wheel(tmp_path)
    forge(path, "demo-1.0.dist-info/METADATA", mode=0o644)

    archive_of(path).check()


@pytest.mark.parametrize("purelib", ["true", "false"])
def test_root_is_purelib_changes_nothing(tmp_path: Path, purelib: str) -> None:
    path = build_wheel(tmp_path, wheel=f"Wheel-Version: 1.0\nRoot-Is-Purelib: {purelib}\n")

    assert f"{PACKAGES}/demo/__init__.py" in installed(archive_of(path))


def test_data_schemes_are_installed_in_their_folders(tmp_path: Path) -> None:
    schemes = {
        "purelib/p.py": "p",
        "platlib/q.py": "q",
        "data/share/d": "d",
        "headers/h.h": "h",
        "scripts/s": "s",
    }
    found = installed(archive_of(build_wheel(tmp_path, data=schemes)))

    assert found[f"{PACKAGES}/p.py"] == (0o664, b"p")
    assert found[f"{PACKAGES}/q.py"] == (0o664, b"q")
    assert found["opt/venv/share/d"] == (0o664, b"d")
    assert found["opt/venv/include/site/python3.13/demo/h.h"] == (0o664, b"h")
    assert found["opt/venv/bin/s"] == (0o775, b"s")


def test_a_placeholder_script_names_the_image_s_python_and_record_knows_its_new_hash(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, data={"scripts/tool": "#!python\nprint(1)\n", "scripts/sh": "#!/bin/sh\n"})
    found = installed(archive_of(path))
    script = b"#!/opt/venv/bin/python\nprint(1)\n"

    assert found["opt/venv/bin/tool"] == (0o775, script)
    assert found["opt/venv/bin/sh"] == (0o775, b"#!/bin/sh\n")
    assert f"../../../bin/tool,{record_hash(script)},{len(script)}\n" in found[f"{INFO}/RECORD"][1].decode()


def test_a_file_in_bin_from_the_data_scheme_is_left_as_it_is(tmp_path: Path) -> None:
    found = installed(archive_of(build_wheel(tmp_path, data={"data/bin/tool": "#!python\n"})))

    assert found["opt/venv/bin/tool"] == (0o664, b"#!python\n")


def test_entry_points_become_executable_launchers_in_bin(tmp_path: Path) -> None:
    found = installed(
        archive_of(
            build_wheel(tmp_path, entry_points="demo = demo:main", gui_scripts="demo-gui = demo.gui:App.run")
        )
    )

    mode, launcher = found["opt/venv/bin/demo"]
    assert mode == 0o775
    assert launcher.startswith(b"#!/opt/venv/bin/python\n")
    assert b"from demo import main\n" in launcher
    assert b"sys.exit(App.run())\n" in found["opt/venv/bin/demo-gui"][1]
    compile(launcher, "demo", "exec")


def test_record_lists_every_installed_file_with_its_hash_sorted(tmp_path: Path) -> None:
    path = build_wheel(
        tmp_path,
        files={"demo/__init__.py": "x = 1\n", "demo/a,b.txt": "y"},
        data={"scripts/tool": "#!python\n", "data/etc/conf": "z"},
        entry_points="run = demo:main",
    )
    found = installed(archive_of(path))
    relative = {name.removeprefix(f"{PACKAGES}/"): content for name, (_, content) in found.items()}
    rows = []
    for name, content in relative.items():
        shown = name.replace("opt/venv/", "../../../")
        quoted = f'"{shown}"' if "," in shown else shown
        rows.append(
            f"{quoted},," if shown.endswith("RECORD") else f"{quoted},{record_hash(content)},{len(content)}"
        )

    assert found[f"{INFO}/RECORD"][1].decode().splitlines() == sorted(
        rows, key=lambda row: row.replace('"', "")
    )
    assert found[f"{INFO}/RECORD"][1].endswith(b"\n")
    assert b"\r" not in found[f"{INFO}/RECORD"][1]


def test_no_note_of_an_installer_is_taken_from_the_wheel(tmp_path: Path) -> None:
    files = {f"demo-1.0.dist-info/{name}": "x" for name in ("INSTALLER", "REQUESTED", "direct_url.json")}
    found = installed(archive_of(build_wheel(tmp_path, files=files)))

    assert found[f"{INFO}/INSTALLER"] == (0o664, b"trainyard\n")
    assert f"{INFO}/REQUESTED" not in found
    assert b"direct_url.json" not in found[f"{INFO}/RECORD"][1]


def test_bytecode_in_a_wheel_is_neither_installed_nor_listed(tmp_path: Path) -> None:
    found = installed(
        archive_of(build_wheel(tmp_path, files={"a.py": "", "__pycache__/a.cpython-313.pyc": b"\0"}))
    )

    assert not [name for name in found if "__pycache__" in name]
    assert b"__pycache__" not in found[f"{INFO}/RECORD"][1]


def test_the_site_decides_every_path(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, entry_points="demo = demo:main")
    found = installed(archive_of(path, Site("srv/env", "3.14")))

    assert "srv/env/lib/python3.14/site-packages/demo/__init__.py" in found
    assert found["srv/env/bin/demo"][1].startswith(b"#!/srv/env/bin/python\n")


def test_the_same_wheel_gives_the_same_entries_every_time(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, entry_points="demo = demo:main")

    assert installed(archive_of(path)) == installed(archive_of(path))


def test_an_empty_file_has_no_content_and_is_listed(tmp_path: Path) -> None:
    found = installed(archive_of(build_wheel(tmp_path, files={"py.typed": ""})))

    assert found[f"{PACKAGES}/py.typed"] == (0o664, b"")
    assert f"py.typed,{record_hash(b'')},0\n".encode() in found[f"{INFO}/RECORD"][1]


# --- verified in flight


def test_wrong_content_is_refused_before_its_last_chunk(tmp_path: Path) -> None:
    """All chunks but the last may have gone out; a reader that waits for the end never has the whole file."""
    content = b"a" * (2 * CHUNK) + b"end"
    path = build_wheel(tmp_path, files={"big.bin": content}, compression=zipfile.ZIP_STORED)
    replace_bytes(path, b"aend", b"bend")
    entry = next(entry for entry in archive_of(path).entries() if entry.path.endswith("big.bin"))
    received = bytearray()

    with pytest.raises(InputError, match=r"demo-1\.0-py3-none-any\.whl: 'big\.bin' does not have the sha256"):
        for chunk in entry.content:
            received += chunk
    assert len(received) <= 2 * CHUNK


def test_a_hash_in_record_that_is_another_file_s_is_refused(tmp_path: Path) -> None:
    def wrong(rows: Rows) -> Rows:
        return [(rows[0][0], record_hash(b"something else"), rows[0][2]), *rows[1:]]

    entries = list(archive_of(build_wheel(tmp_path, record=wrong)).entries())

    with pytest.raises(InputError, match="does not have the sha256 that RECORD gives"):
        for entry in entries:
            drain(entry)


@pytest.mark.parametrize("algorithm", ["sha384", "sha512"])
def test_stronger_hashes_are_verified_and_kept(tmp_path: Path, algorithm: str) -> None:
    content = b'"""demo."""\n'

    def stronger(rows: Rows) -> Rows:
        return [(rows[0][0], record_hash(content, algorithm), rows[0][2]), *rows[1:]]

    found = installed(archive_of(build_wheel(tmp_path, record=stronger)))

    assert f"demo/__init__.py,{record_hash(content, algorithm)},12\n".encode() in found[f"{INFO}/RECORD"][1]


@pytest.mark.parametrize(
    ("claimed", "problem"), [(5, "holds more than the 5 bytes"), (100, "holds 12 bytes, and claims 100")]
)
def test_a_size_that_the_content_does_not_have_is_refused(tmp_path: Path, claimed: int, problem: str) -> None:
    """RECORD gives no size here, so only the stream can tell."""
    path = build_wheel(tmp_path, record=lambda rows: [(name, digest, "") for name, digest, _ in rows])
    forge(path, "demo/__init__.py", size=claimed)
    entry = next(entry for entry in archive_of(path).entries() if entry.path.endswith("demo/__init__.py"))

    with pytest.raises(InputError, match=problem):
        drain(entry)


def test_a_bomb_stops_at_the_size_that_it_claimed(tmp_path: Path) -> None:
    path = build_wheel(
        tmp_path,
        files={"bomb": bytes(64 << 20)},
        record=lambda rows: [(name, digest, "") for name, digest, _ in rows],
    )
    forge(path, "bomb", size=1000)
    entry = next(entry for entry in archive_of(path).entries() if entry.path.endswith("bomb"))
    received = 0

    with pytest.raises(InputError, match="holds more than the 1000 bytes that it claims"):
        for chunk in entry.content:
            received += len(chunk)
    assert received == 0


def test_a_signature_without_a_line_in_record_is_checked_by_crc(tmp_path: Path) -> None:
    signature = Member(name="demo-1.0.dist-info/RECORD.p7s", data=b"signature")
    path = build_wheel(tmp_path, members=[signature])
    assert installed(archive_of(path))[f"{INFO}/RECORD.p7s"] == (0o664, b"signature")

    forge(path, signature.name, crc=1)
    with pytest.raises(InputError, match=r"'demo-1\.0\.dist-info/RECORD\.p7s' does not have the CRC-32"):
        installed(archive_of(path))


def test_tampered_metadata_is_refused_by_the_check_already(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, requires=["numpy"], compression=zipfile.ZIP_STORED)
    replace_bytes(path, b"Requires-Dist: numpy", b"Requires-Dist: nvmpy")

    assert "'demo-1.0.dist-info/METADATA' does not have the sha256" in refused(path)


def test_an_endless_metadata_file_is_not_read_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_IN_MEMORY", 100)
    path = build_wheel(tmp_path, metadata="Name: demo\nVersion: 1.0\n" + "x" * 200)

    assert "bytes long, too many" in refused(path)


# --- RECORD against the zip


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda rows: rows[1:], "RECORD has no line for 'demo/__init__.py'"),
        (lambda rows: [(rows[0][0], "", ""), *rows[1:]], "RECORD has no hash of 'demo/__init__.py'"),
        (
            lambda rows: [*rows, ("ghost.py", record_hash(b""), "0")],
            "RECORD lists 'ghost.py', which the wheel does not have",
        ),
        (
            lambda rows: [(rows[0][0], rows[0][1], "99"), *rows[1:]],
            "'demo/__init__.py' is 12 bytes long, RECORD says 99",
        ),
        (
            lambda rows: [(rows[0][0], record_hash(b"x", "md5"), "12"), *rows[1:]],
            "hash 'md5' is not sha256 or better",
        ),
        (
            lambda rows: [(rows[0][0], record_hash(b"x", "sha1"), "12"), *rows[1:]],
            "hash 'sha1' is not sha256 or better",
        ),
        (
            lambda rows: [("demo\\__init__.py", *rows[0][1:]), *rows[1:]],
            "RECORD has no line for 'demo/__init__.py'",
        ),
    ],
)
def test_where_record_and_zip_disagree_the_check_says_so(
    tmp_path: Path, change: Callable[[Rows], Rows], problem: str
) -> None:
    assert problem in refused(build_wheel(tmp_path, record=change))


def test_a_record_without_a_line_for_itself_is_fine(tmp_path: Path) -> None:
    archive_of(build_wheel(tmp_path, record=lambda rows: rows[:-1])).check()


def test_a_file_outside_record_is_refused(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, members=[Member(name="demo/extra.so")])

    assert "RECORD has no line for 'demo/extra.so'" in refused(path)


# --- two files, one path


@pytest.mark.parametrize(
    "data",
    [
        {"purelib/demo/__init__.py": "other"},
        {"platlib/demo/__init__.py": "other"},
        {"data/lib/python3.13/site-packages/demo/__init__.py": "other"},
    ],
)
def test_two_members_installed_at_one_path_are_refused(tmp_path: Path, data: dict[str, str]) -> None:
    assert "two files would be installed as" in refused(build_wheel(tmp_path, data=data))


def test_a_launcher_over_a_script_is_refused(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, data={"scripts/demo": "x"}, entry_points="demo = demo:main")

    assert "two files would be installed as /opt/venv/bin/demo" in refused(path)


def test_nothing_flows_from_a_wheel_that_does_not_pass_the_check(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, omit=["WHEEL"])

    with pytest.raises(InputError, match="has no WHEEL file"):
        next(archive_of(path).entries())
    with pytest.raises(InputError, match="has no WHEEL file"):
        next(archive_of(path).sources())


# --- parts


def sized(folder: Path) -> Path:
    return build_wheel(folder, files={f"f{number:02}": bytes(number * 997 % 4001) for number in range(40)})


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 100])
def test_the_parts_together_are_the_whole_in_order(tmp_path: Path, parts: int) -> None:
    path = sized(tmp_path)
    whole = [(entry.path, entry.mode, drain(entry)) for entry in archive_of(path).entries()]
    pieces = [
        [(entry.path, entry.mode, drain(entry)) for entry in archive_of(path).entries(part, parts)]
        for part in range(parts)
    ]

    assert [item for piece in pieces for item in piece] == whole


@pytest.mark.parametrize("parts", [2, 3, 5])
def test_parts_differ_in_size_by_at_most_two_files(tmp_path: Path, parts: int) -> None:
    path = sized(tmp_path)
    sizes = [sum(entry.size for entry in archive_of(path).entries(part, parts)) for part in range(parts)]
    largest = max(entry.size for entry in archive_of(path).entries())

    assert max(sizes) - min(sizes) <= 2 * largest
    assert min(sizes) > 0


def test_the_cut_follows_the_documented_formula(tmp_path: Path) -> None:
    """A recorded layer depends on it, so it is written down twice."""
    path = sized(tmp_path)
    entries = list(archive_of(path).entries())
    total, start = sum(entry.size for entry in entries), 0
    expected: list[list[str]] = [[], [], []]
    for entry in entries:
        expected[min(2, (2 * start + entry.size) * 3 // (2 * total))].append(entry.path)
        start += entry.size

    assert [[entry.path for entry in archive_of(path).entries(part, 3)] for part in range(3)] == expected


@pytest.mark.parametrize(("part", "parts"), [(1, 1), (-1, 2), (0, 0)])
def test_a_part_that_does_not_exist_is_a_mistake(tmp_path: Path, part: int, parts: int) -> None:
    with pytest.raises(ValueError, match="no part"):
        list(archive_of(build_wheel(tmp_path)).entries(part, parts))


# --- sources


def test_sources_are_the_python_files_below_site_packages_in_order(tmp_path: Path) -> None:
    path = build_wheel(
        tmp_path,
        files={"b.py": "b\n", "a/c.py": "c\n", "a/d.pyi": "", "e.txt": ""},
        data={"purelib/f.py": "f\n", "scripts/g.py": "#!python\n", "data/share/h.py": "h\n"},
    )

    assert list(archive_of(path).sources()) == [
        (f"{PACKAGES}/a/c.py", b"c\n"),
        (f"{PACKAGES}/b.py", b"b\n"),
        (f"{PACKAGES}/f.py", b"f\n"),
    ]


def test_a_source_is_verified_before_anybody_compiles_it(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, files={"a.py": "x = 12345\n"}, compression=zipfile.ZIP_STORED)
    replace_bytes(path, b"12345", b"54321")

    with pytest.raises(InputError, match=r"'a\.py' does not have the sha256"):
        list(archive_of(path).sources())


def test_sources_are_the_same_bytes_as_the_entries(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, files={f"m{number}.py": f"x = {number}\n" for number in range(20)})
    digests = {entry.path: hashlib.sha256(drain(entry)).digest() for entry in archive_of(path).entries()}

    assert all(
        hashlib.sha256(source).digest() == digests[name] for name, source in archive_of(path).sources()
    )
