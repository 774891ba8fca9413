"""Sonames are read from real ELF files, and nothing else is taken for a library."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from tests.support.elf import shared_object
from trainyard.debian.elf import SharedLibrary, shared_library

LIBC = Path(f"/lib/{platform.machine()}-linux-gnu/libc.so.6")


@pytest.mark.parametrize("arch", ["amd64", "arm64"])
def test_the_soname_and_architecture_of_a_library_are_read(arch: str) -> None:
    assert shared_library(shared_object("libx.so.3", arch=arch)) == SharedLibrary(arch, "libx.so.3")


def test_a_library_without_a_soname_is_one_all_the_same() -> None:
    assert shared_library(shared_object(None)) == SharedLibrary("amd64", "")


@pytest.mark.skipif(not LIBC.exists(), reason="no glibc where Debian has it")
def test_the_soname_of_this_machines_libc_is_the_one_that_programs_ask_for() -> None:
    library = shared_library(LIBC.read_bytes())

    assert library is not None
    assert library.soname == "libc.so.6"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"/* GNU ld script */ GROUP ( /lib/libc.so.6 )",
        b"!<arch>\n",
        b"\x7fELF",
        b"\x7fELF\x01\x01" + shared_object("libx.so.1")[6:],
        b"\x7fELF\x02\x02" + shared_object("libx.so.1")[6:],
    ],
    ids=["empty", "linker script", "static library", "cut header", "32 bit", "big endian"],
)
def test_other_files_are_no_libraries(data: bytes) -> None:
    assert shared_library(data) is None


def test_a_library_cut_anywhere_is_refused_without_an_exception() -> None:
    whole = shared_object("libx.so.1")

    assert all(shared_library(whole[:size]) is None for size in range(0, len(whole) - 16, 7))


def test_a_program_is_no_library() -> None:
    data = bytearray(shared_object("libx.so.1"))
    data[16] = 2  # ET_EXEC

    assert shared_library(bytes(data)) is None


def test_an_unknown_machine_is_no_library() -> None:
    data = bytearray(shared_object("libx.so.1"))
    data[18] = 243  # RISC-V

    assert shared_library(bytes(data)) is None
