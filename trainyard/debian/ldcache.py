"""/etc/ld.so.cache as ldconfig writes it (glibc 2.41, elf/cache.c and elf/ldconfig.c), without running it.

Layout: header, entries in descending order of name, strings with shared tails, then the extension that names
the generator. A path is always folder/soname: the links that sonames need are in the packages.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cmp_to_key

from trainyard.platforms import Platform

_MAGIC = b"glibc-ld.so.cache1.1"
_LITTLE_ENDIAN = 2
_HEADER, _ENTRY = 48, 24
_EXTENSION_MAGIC = 0xEAA42174
_FLAGS = {"amd64": 0x0303, "arm64": 0x0A03}  # FLAG_ELF_LIBC6 with FLAG_X8664_LIB64, FLAG_AARCH64_LIB64
_TOKEN = re.compile(r"\d+|.", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheEntry:
    """One line of `ldconfig -p`: the name that a program asks for, and the file that it gets."""

    name: str
    path: str


def is_library_name(name: str) -> bool:
    """Whether ldconfig looks at a file of that name at all."""
    return name.startswith(("lib", "ld-")) and ".so" in name and not name.endswith("-gdb.py")


def compare_names(left: str, right: str) -> int:
    """Like _dl_cache_libcmp, < 0, 0 or > 0: digits compare as numbers, and come after other characters."""
    for ours, theirs in itertools.zip_longest(_TOKEN.findall(left), _TOKEN.findall(right), fillvalue=""):
        if ours == theirs:
            continue
        if ours.isdigit() and theirs.isdigit():
            if int(ours) != int(theirs):
                return int(ours) - int(theirs)
            continue
        if ours.isdigit() or theirs.isdigit():
            return 1 if ours.isdigit() else -1
        return (ord(ours) if ours else 0) - (ord(theirs) if theirs else 0)
    return 0


def library_folders(config: Mapping[str, str]) -> list[str]:
    """The folders to search in order, from the contents of /etc/ld.so.conf and its includes (by path)."""
    lines = _config_lines(config.get("etc/ld.so.conf", ""), config)
    found = [*lines, "/lib", "/usr/lib"]
    folders: dict[str, str] = {}
    for folder in found:
        # /lib and /usr/lib are one folder, and ldconfig keeps the name that it met first.
        real = folder if folder.startswith("/usr/") else f"/usr{folder}"
        folders.setdefault(real, folder)
    return list(folders.values())


def _config_lines(text: str, config: Mapping[str, str]) -> Iterator[str]:
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if words[:1] == ["include"]:
            prefix, _, suffix = words[1].lstrip("/").partition("*")
            for path in sorted(config):
                if path.startswith(prefix) and path.endswith(suffix):
                    yield from _config_lines(config[path], config)
        elif words:
            yield words[0]


def folder_entries(
    folder: str, names: Iterable[str], *, soname: Callable[[str], str | None], is_link: Callable[[str], bool]
) -> list[CacheEntry]:
    """What ldconfig keeps of one folder.

    `soname` is the DT_SONAME of the file that a name leads to: None if it is no library, "" if it has none.
    """
    chosen: dict[str, tuple[bool, str]] = {}
    for name in sorted(names):
        own = soname(name) if is_library_name(name) else None
        if own is None:
            continue
        own = own or name
        # A development link (libz.so, of libz.so.1) is an entry by itself; other links stand for the soname.
        stays_link = is_link(name) and (name == own or (name.endswith(".so") and own.startswith(name)))
        key = name if stays_link else own
        before = chosen.get(key)
        if before is None or _is_better((stays_link, name), before):
            chosen[key] = (stays_link, name)
    return [CacheEntry(name=key, path=f"{folder}/{key}") for key in chosen]


def _is_better(new: tuple[bool, str], old: tuple[bool, str]) -> bool:
    return (not new[0] and old[0]) or (new[0] == old[0] and compare_names(old[1], new[1]) < 0)


def cache_bytes(entries: Sequence[CacheEntry], platform: Platform, *, generator: str) -> bytes:
    """The file, from `entries` in the order of the folders; `generator` is what ldconfig calls itself."""
    ordered = sorted(entries, key=cmp_to_key(_descending))
    strings = [text.encode("ascii") for entry in ordered for text in (entry.name, entry.path)]
    table, offsets = _string_table(strings)
    base = _HEADER + _ENTRY * len(ordered)
    rows = b"".join(
        struct.pack(
            "<iIIIQ",
            _FLAGS[platform.arch],
            base + offsets[entry.name.encode("ascii")],
            base + offsets[entry.path.encode("ascii")],
            0,
            0,
        )
        for entry in ordered
    )
    extension = -(-(base + len(table)) // 4) * 4
    header = struct.pack("<20sIIB3xI12x", _MAGIC, len(ordered), len(table), _LITTLE_ENDIAN, extension)
    padding = b"\0" * (extension - base - len(table))
    return header + rows + table + padding + _extension(extension, generator.encode("ascii"))


def _descending(ours: CacheEntry, theirs: CacheEntry) -> int:
    return compare_names(theirs.name, ours.name)


def _extension(offset: int, generator: bytes) -> bytes:
    # Magic, one section: tag 0 (generator), flags 0, offset in the file, size.
    return struct.pack("<IIIIII", _EXTENSION_MAGIC, 1, 0, 0, offset + 24, len(generator)) + generator


def _string_table(strings: Iterable[bytes]) -> tuple[bytes, dict[bytes, int]]:
    """NUL-terminated strings, a string that ends another one stored within it (elf/stringtable.c)."""
    # Sorted by their reversals, longest first, so that a tail directly follows what it ends.
    ordered = sorted(set(strings), key=lambda text: text[::-1], reverse=True)
    table = bytearray()
    offsets: dict[bytes, int] = {}
    previous = b""
    for text in ordered:
        if previous.endswith(text):
            offsets[text] = offsets[previous] + len(previous) - len(text)
        else:
            offsets[text] = len(table)
            table += text + b"\0"
        previous = text
    return bytes(table), offsets
