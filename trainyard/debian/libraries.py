"""The base's shared libraries, as ldconfig would find them in its folders."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence

from trainyard.debian.archive import merged
from trainyard.debian.facts import DebFacts
from trainyard.debian.ldcache import cache_bytes, folder_entries, library_folders
from trainyard.errors import InputError
from trainyard.oci.entry import Entry, Kind, file_entry
from trainyard.platforms import Platform

_MAX_LINKS = 8


def cache_entry(packages: Sequence[DebFacts], platform: Platform) -> Entry:
    """/etc/ld.so.cache over those packages."""
    members = {path: member for package in packages for path, member in package.members.items()}
    sonames = {path: soname for package in packages for path, soname in package.sonames.items()}
    config = {
        path: text
        for package in packages
        for path, text in package.contents.items()
        if path.startswith("etc/ld.so.conf")
    }
    if hwcaps := [path for path in members if path.startswith("usr/lib/") and "/glibc-hwcaps/" in path]:
        raise InputError(
            f"{hwcaps[0]}: libraries for certain processors are not known to our ld.so.cache",
            hint="leave out the package that ships it, or teach trainyard/debian/ldcache.py",
        )
    entries = []
    for folder in library_folders(config):
        root = merged(f"{folder}/".lstrip("/")).rstrip("/")
        entries += folder_entries(
            folder,
            _names_in(root, members),
            soname=lambda name, root=root: sonames.get(_target(f"{root}/{name}", members)),  # type: ignore[misc]
            is_link=lambda name, root=root: members[f"{root}/{name}"][0] is Kind.SYMLINK,  # type: ignore[misc]
        )
    return file_entry("etc/ld.so.cache", cache_bytes(entries, platform, generator=_generator(packages)))


def _names_in(folder: str, members: Mapping[str, tuple[Kind, str]]) -> Iterator[str]:
    for path, (kind, _) in members.items():
        parent, _, name = path.rpartition("/")
        if parent == folder and kind is not Kind.DIRECTORY:
            yield name


def _target(path: str, members: Mapping[str, tuple[Kind, str]]) -> str:
    """The file that a path leads to through links; the last path looked at if it leads nowhere."""
    for _ in range(_MAX_LINKS):
        kind, link = members.get(path, (Kind.FILE, ""))
        if kind is not Kind.SYMLINK:
            break
        path = merged(posixpath.normpath(posixpath.join("/", posixpath.dirname(path), link)).lstrip("/"))
    return path


def _generator(packages: Sequence[DebFacts]) -> str:
    """What Debian's ldconfig calls itself, from the version of the package that has it."""
    version = next(package.version for package in packages if package.name == "libc-bin")
    return f"ldconfig (Debian GLIBC {version}) stable release version {version.partition('-')[0]}"
