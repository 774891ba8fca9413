"""Files of guarded packages: as RECORD has them, and without a second copy of a library beside them."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import stat
import subprocess
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from .installed import Finding, Installed, Row, folder_of, record

LIBRARY = re.compile(r"lib[^/]+\.so(\.\d+)*")
# The compiler's, which every toolkit brings and none minds.
TOOLCHAIN = ("libgomp.", "libgfortran.", "libquadmath.", "libstdc++.", "libgcc_s.")
LDCONFIG = "/sbin/ldconfig"
MAX_FILES = 20


def check_files(installed: Installed, name: str, *, full: bool) -> Iterator[Finding]:
    """Whether every file of a distribution is there and as RECORD has it.

    A file that has its size and the time of its own RECORD is as it was unpacked, and is read only if `full`.
    """
    one = installed.found[name][0]
    rows, base = record(one), folder_of(one)
    own = next((row.path for row in rows if row.path.endswith(".dist-info/RECORD")), None)
    if own is None:
        yield Finding(name, "altered", "a RECORD of its files", "none")
        return
    unpacked = (base / own).stat().st_mtime_ns
    wrong = {row.path: text for row in rows if row.hash and (text := difference(base, row, unpacked, full))}
    if not wrong:
        return
    others = installed.owners(next(iter(wrong)))
    also = [other for other in others if other != f"{name} {one.version}"]
    yield Finding(
        name,
        "altered",
        f"{len(rows)} files as RECORD has them",
        f"{len(wrong)} are not" + (f"; {', '.join(also)} has files of the same name" if also else ""),
        [f"{path}: {wrong[path]}" for path in sorted(wrong, key=importance)][:MAX_FILES],
    )


def importance(path: str) -> tuple[bool, str]:
    """Libraries first: they are what a job fails on."""
    return LIBRARY.fullmatch(path.rpartition("/")[2]) is None, path


def difference(base: Path, row: Row, unpacked: int, full: bool) -> str:
    """How a file is not what RECORD says, empty if it is; `unpacked` is RECORD's own time in nanoseconds."""
    path = base / row.path
    try:
        status = os.lstat(path)
        if stat.S_ISREG(status.st_mode):
            if row.size and status.st_size != int(row.size):
                return f"{row.size} bytes expected, {status.st_size} found"
            if status.st_mtime_ns == unpacked and not full:
                return ""
        algorithm, _, expected = row.hash.partition("=")
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, algorithm).digest()
    except FileNotFoundError:
        return "missing"
    except (OSError, ValueError) as error:
        return str(error)
    found = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    return (
        "" if found == expected.rstrip("=") else f"{algorithm}={expected} expected, {algorithm}={found} found"
    )


def check_libraries(installed: Installed, names: Sequence[str]) -> Iterator[Finding]:
    """Whether another copy of one of their libraries lies where the loader, or a package, would find it."""
    own: dict[str, set[Path]] = {}
    owner: dict[str, str] = {}
    for name in names:
        for row in record(installed.found[name][0]):
            library = row.path.rpartition("/")[2]
            if LIBRARY.fullmatch(library) and not library.startswith(TOOLCHAIN):
                own.setdefault(library, set()).add((installed.site / row.path).resolve())
                owner.setdefault(library, name)
    copies: dict[str, set[str]] = {}
    for path in candidates(installed.site, own.keys()):
        if path.resolve() not in own[path.name]:
            copies.setdefault(path.name, set()).add(str(path))
    for library, paths in sorted(copies.items()):
        places = ", ".join(str(path) for path in sorted(own[library]))
        yield Finding(owner[library], "second copy", f"{library} only in {places}", "", sorted(paths))


def candidates(site: Path, wanted: Collection[str]) -> Iterator[Path]:
    """Files of those names in site-packages, in LD_LIBRARY_PATH and in the loader's cache."""
    for folder, _, files in os.walk(site):
        yield from (Path(folder, file) for file in files if file in wanted)
    for entry in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")):
        yield from (path for path in Path(entry).glob("lib*.so*") if path.name in wanted)
    try:
        listed = subprocess.run([LDCONFIG, "-p"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return
    for name, path in re.findall(r"^\s+(\S+) \(.*\) => (\S+)$", listed, re.MULTILINE):
        if name in wanted:
            yield Path(path).with_name(name)
