"""Packages.xz: every stanza read, nothing believed."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from debian.deb822 import Packages

from trainyard.debian import index
from trainyard.debian.index import Package, read_index
from trainyard.errors import InputError

SHA256 = "0" * 64
STANZA = f"""\
Package: libdemo1
Source: demo
Version: 1:2.0-1+b1
Installed-Size: 12
Maintainer: Nobody <nobody@example.org>
Architecture: amd64
Essential: yes
Provides: libdemo (= 1:2.0-1),
 demo-abi-3
Depends: libc6 (>= 2.36), liba | libb
Pre-Depends: dpkg
Breaks: old (<< 1)
Conflicts: other
Description: a demo: with Depends: in its text
Multi-Arch: same
Section: libs
Priority: important
Filename: pool/main/d/demo/libdemo1_2.0-1+b1_amd64.deb
Size: 1234
SHA256: {SHA256}
"""


def read(folder: Path, text: str) -> list[Package]:
    path = folder / "Packages.xz"
    path.write_bytes(lzma.compress(text.encode()))
    return list(read_index(path, archive="debian"))


def test_every_field_lands_where_it_belongs(tmp_path: Path) -> None:
    assert read(tmp_path, STANZA) == [
        Package(
            name="libdemo1",
            version="1:2.0-1+b1",
            arch="amd64",
            path="debian/pool/main/d/demo/libdemo1_2.0-1+b1_amd64.deb",
            size=1234,
            sha256=SHA256,
            is_essential=True,
            priority="important",
            multi_arch="same",
            pre_depends="dpkg",
            depends="libc6 (>= 2.36), liba | libb",
            provides="libdemo (= 1:2.0-1),\n demo-abi-3",
            conflicts="other",
            breaks="old (<< 1)",
        )
    ]


def test_what_a_stanza_does_not_say_has_debians_defaults(tmp_path: Path) -> None:
    lines = [
        line for line in STANZA.splitlines() if line.startswith(("Package", "Version", "File", "Size", "SHA"))
    ]

    (package,) = read(tmp_path, "\n".join(lines))

    assert (package.is_essential, package.priority, package.multi_arch, package.depends) == (
        False,
        "optional",
        "no",
        "",
    )


@pytest.mark.parametrize("separator", ["\n", "\n\n", "\n\n\n"])
def test_stanzas_are_parted_by_empty_lines(tmp_path: Path, separator: str) -> None:
    other = STANZA.replace("libdemo1", "libdemo2")

    assert [package.name for package in read(tmp_path, STANZA + separator + other)] == [
        "libdemo1",
        "libdemo2",
    ]


@pytest.mark.parametrize("text", ["", "\n", "\n\n\n"])
def test_an_empty_index_has_no_packages(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("Package", "../evil"),
        ("Package", ""),
        ("Version", "1 2"),
        ("Version", ""),
        ("Filename", "pool/../../etc/passwd.deb"),
        ("Filename", "/pool/a.deb"),
        ("Filename", "pool/a b.deb"),
        ("Filename", "pool/a.udeb"),
        ("Filename", "http://elsewhere.example/a.deb"),
        ("Size", "-1"),
        ("Size", "many"),
        ("SHA256", "abc"),
        ("SHA256", ""),
    ],
)
def test_a_bad_field_is_refused_with_the_stanzas_number(tmp_path: Path, field: str, value: str) -> None:
    lines = [f"{field}: {value}" if line.startswith(f"{field}:") else line for line in STANZA.splitlines()]

    with pytest.raises(InputError, match="stanza 2 of the package index"):
        read(tmp_path, STANZA + "\n" + "\n".join(lines))


def test_an_index_that_is_no_xz_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "Packages.xz"
    path.write_bytes(STANZA.encode())

    with pytest.raises(InputError, match="cannot be decompressed"):
        list(read_index(path, archive="debian"))


def test_an_index_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "Packages.xz"
    path.write_bytes(lzma.compress(STANZA.encode() * 100)[:-30])

    with pytest.raises(InputError, match="cut short"):
        list(read_index(path, archive="debian"))


def test_a_small_file_that_would_fill_the_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "LIMIT", 1 << 20)

    with pytest.raises(InputError, match="larger than 1048576 bytes"):
        read(tmp_path, "\n" * (2 << 20))


def test_bytes_that_are_not_utf8_do_not_stop_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "Packages.xz"
    path.write_bytes(lzma.compress(b"Maintainer: J\xf6rg\n" + STANZA.encode()))

    assert [package.name for package in read_index(path, archive="debian")] == ["libdemo1"]


def test_python_debian_reads_the_same_fields(tmp_path: Path) -> None:
    (ours,) = read(tmp_path, STANZA)
    (theirs,) = Packages.iter_paragraphs(STANZA, use_apt_pkg=False)

    assert ours.version == theirs["Version"]
    assert ours.provides == theirs["Provides"]
    assert ours.depends == theirs["Depends"]
    assert ours.path == f"debian/{theirs['Filename']}"
