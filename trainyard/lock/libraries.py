"""Whether two wheels bring a library of one name: the loader takes whichever comes first, for both of them.

Judged by file names, which for libraries are their sonames: reading every soname would inflate gigabytes.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath

from trainyard.errors import InputError
from trainyard.lock.model import LockedWheel
from trainyard.store import Store

# Python finds an extension module by its path: `.cpython-313-...so` and `.abi3.so` are no libraries.
_LIBRARY = re.compile(r"lib[^/]+\.so(\.\d+)*")
_EXTENSION = re.compile(r".+\.(cpython-[^.]+|abi3)\.so")
# Triton loads its own copies of CUPTI by their full path, in its own processes.
_PRIVATE = ("triton/backends/",)

Members = Callable[[LockedWheel], Iterable[str]]


def members_in(store: Store) -> Members:
    """Names of the files in a wheel that the store has; InputError for one that is no zip."""

    def members(wheel: LockedWheel) -> Iterable[str]:
        try:
            with zipfile.ZipFile(store.input(wheel.sha256)) as archive:
                return archive.namelist()
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise InputError(f"{wheel.name} {wheel.version}: {wheel.filename} is no wheel: {error}") from None

    return members


def libraries_of_two(wheels: Iterable[LockedWheel], members: Members) -> tuple[str, ...]:
    """A sentence for every library name that more than one wheel has."""
    owners: dict[str, dict[str, str]] = {}
    for wheel in wheels:
        for path in _libraries(members(wheel)):
            owners.setdefault(PurePosixPath(path).name, {}).setdefault(wheel.name, path)
    return tuple(
        f"{name} is in two wheels: " + ", ".join(f"{wheel} ({path})" for wheel, path in found.items())
        for name, found in sorted(owners.items())
        if len(found) > 1
    )


def _libraries(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        name = PurePosixPath(path).name
        if path.startswith(_PRIVATE) or not _LIBRARY.fullmatch(name) or _EXTENSION.fullmatch(name):
            continue
        yield path
