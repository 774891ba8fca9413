"""The loader's cache is byte for byte what ldconfig writes."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.elf import shared_object
from trainyard.debian.elf import shared_library
from trainyard.debian.ldcache import (
    CacheEntry,
    cache_bytes,
    compare_names,
    folder_entries,
    is_library_name,
    library_folders,
)
from trainyard.platforms import Platform

AMD64 = Platform("linux", "amd64")
LDCONFIG = shutil.which("ldconfig", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def entries_of(folder: Path, name: str) -> list[CacheEntry]:
    """folder_entries over a real folder, under the name that ldconfig knows it by."""

    def soname(file: str) -> str | None:
        library = shared_library((folder / file).read_bytes())
        return None if library is None else library.soname

    names = [path.name for path in folder.iterdir() if path.is_file()]
    return folder_entries(name, names, soname=soname, is_link=lambda file: (folder / file).is_symlink())


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        ("libz.so", "libz.so.1"),
        ("libx.so.2", "libx.so.10"),
        ("liba.so.1", "libb.so.1"),
        ("libBrokenLocale.so.1", "liba.so.1"),
        ("lib.so", "lib1.so"),
        ("libc++.so.1", "libc1.so.1"),
        ("libx-1.so", "libx1.so"),
    ],
)
def test_names_are_ordered_by_numbers_not_by_digits(lower: str, higher: str) -> None:
    assert compare_names(lower, higher) < 0 < compare_names(higher, lower)
    assert compare_names(lower, lower) == 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("libz.so.1", True),
        ("ld-linux-x86-64.so.2", True),
        ("libz.a", False),
        ("python.so", False),
        ("libstdc++.so.6.0.33-gdb.py", False),
    ],
)
def test_only_names_of_libraries_and_loaders_are_looked_at(name: str, expected: bool) -> None:
    assert is_library_name(name) is expected


def test_the_folders_are_those_of_the_configuration_then_the_built_in_ones() -> None:
    config = {
        "etc/ld.so.conf": "include /etc/ld.so.conf.d/*.conf\n/opt/late # comment\n",
        "etc/ld.so.conf.d/b.conf": "/lib/x\n/usr/lib/x\n",
        "etc/ld.so.conf.d/a.conf": "# first\n/usr/local/lib\n",
        "etc/ld.so.conf.d/ignored.txt": "/nowhere\n",
    }

    assert library_folders(config) == ["/usr/local/lib", "/lib/x", "/opt/late", "/lib"]


def test_a_link_for_the_linker_is_an_entry_and_one_for_the_loader_is_not(tmp_path: Path) -> None:
    (tmp_path / "libx.so.1.2").write_bytes(shared_object("libx.so.1"))
    (tmp_path / "libx.so.1").symlink_to("libx.so.1.2")
    (tmp_path / "libx.so").symlink_to("libx.so.1.2")
    (tmp_path / "libx-old.so.1").symlink_to("libx.so.1.2")

    found = entries_of(tmp_path, "/lib")

    assert sorted(entry.path for entry in found) == ["/lib/libx.so", "/lib/libx.so.1"]


def test_a_library_without_soname_goes_by_its_file_name(tmp_path: Path) -> None:
    (tmp_path / "libplain.so").write_bytes(shared_object(None))
    (tmp_path / "libscript.so").write_bytes(b"/* GNU ld script */")

    assert [entry.name for entry in entries_of(tmp_path, "/lib")] == ["libplain.so"]


def test_arm64_has_its_own_flag() -> None:
    entry = CacheEntry(name="libx.so.1", path="/lib/libx.so.1")
    cache = cache_bytes([entry], Platform("linux", "arm64"), generator="g")

    assert cache[48:52] == (0x0A03).to_bytes(4, "little")
    assert cache_bytes([entry], AMD64, generator="g")[48:52] == (0x0303).to_bytes(4, "little")


def test_a_name_is_stored_within_the_path_that_it_ends() -> None:
    cache = cache_bytes([CacheEntry(name="libx.so.1", path="/lib/libx.so.1")], AMD64, generator="g")

    assert cache.count(b"libx.so.1") == 1


def test_equal_names_keep_the_order_of_their_folders() -> None:
    first, second = (CacheEntry(name="libx.so.1", path=f"/{folder}/libx.so.1") for folder in ("b", "a"))
    cache = cache_bytes([first, second], AMD64, generator="g")
    offsets = [int.from_bytes(cache[start : start + 4], "little") for start in (48 + 8, 72 + 8)]

    assert [cache[offset : offset + 3] for offset in offsets] == [b"/b/", b"/a/"]


@pytest.mark.skipif(LDCONFIG is None or os.geteuid() != 0, reason="needs ldconfig, which needs root for -r")
def test_the_cache_equals_that_of_this_machines_ldconfig(tmp_path: Path) -> None:
    """A folder with every trap, through the real ldconfig of this host."""
    assert LDCONFIG is not None
    arch = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    lib, etc = tmp_path / "usr/local/lib", tmp_path / "etc"
    lib.mkdir(parents=True)
    etc.mkdir()
    (etc / "ld.so.conf").write_text("/usr/local/lib\n")
    for name, soname in (
        ("liba.so.2", "liba.so.2"),
        ("liba.so.10", "liba.so.10"),
        ("libB.so.1", "libB.so.1"),
        ("libz.so.1.3.1", "libz.so.1"),
        ("libz1.so.1", "libz1.so.1"),
        ("libplain.so", None),
        ("libc++.so.1.0", "libc++.so.1"),
        ("ld-own.so.2", "ld-own.so.2"),
    ):
        (lib / name).write_bytes(shared_object(soname, arch=arch))
    (lib / "libz.so.1").symlink_to("libz.so.1.3.1")
    (lib / "libz.so").symlink_to("libz.so.1.3.1")
    (lib / "libc++.so.1").symlink_to("libc++.so.1.0")
    (lib / "libother.so.5").symlink_to("libz.so.1.3.1")
    (lib / "libscript.so").write_text("/* GNU ld script */")
    subprocess.run([LDCONFIG, "-r", str(tmp_path)], check=True, capture_output=True)
    theirs = (etc / "ld.so.cache").read_bytes()
    listing = subprocess.run([LDCONFIG, "-p"], check=True, capture_output=True, text=True).stdout
    generator = listing.rstrip().rpartition("Cache generated by: ")[2]

    ours = cache_bytes(entries_of(lib, "/usr/local/lib"), Platform("linux", arch), generator=generator)

    assert ours == theirs
