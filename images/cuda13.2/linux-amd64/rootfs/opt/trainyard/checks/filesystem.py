"""Group 0 can install into the venv, HOME and temp can be written, and no setuid file is unexpected."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path

from _lib import fail

NEEDS = ("image",)
GROUP_WRITE = stat.S_IWGRP | stat.S_IXGRP


def run(claims: dict) -> dict:
    site = next(Path(entry) for entry in sys.path if entry.endswith("site-packages"))
    for folder in (Path(sys.prefix), Path(sys.prefix, "bin"), site):
        mode = folder.stat().st_mode
        # The bits and not access(2): the root may be read-only here.
        if mode & GROUP_WRITE != GROUP_WRITE or folder.stat().st_gid not in {0, os.getgid()}:
            fail(f"{folder} is {stat.filemode(mode)}, a derived image's group 0 cannot install into it")
    writable = {"HOME": os.environ.get("HOME", ""), "temp": tempfile.gettempdir()}
    for name, folder in writable.items():
        try:
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            fail(f"{name} ({folder or 'not set'}) cannot be written: {error.strerror}")
    count, special, open_to_all = walk()
    if unexpected := sorted(special - set(claims.get("setuid", ()))):
        fail(f"setuid or setgid: {', '.join(unexpected[:5])}", unexpected=unexpected)
    if open_to_all:
        fail(f"writable by everybody: {', '.join(open_to_all[:5])}", paths=open_to_all[:100])
    return {"files": count, "setuid": sorted(special), "writable": writable}


def walk() -> tuple[int, set[str], list[str]]:
    """All files on the image's own file system: how many, setuid and setgid ones, and those open to all."""
    # Of directories only: under an overlay a file keeps the device of the layer that it is from.
    device = Path("/").stat().st_dev
    count, special, open_to_all = 0, set(), []
    stack = [Path("/")]
    while stack:
        try:
            entries = list(os.scandir(stack.pop()))
        except PermissionError:
            continue
        for entry in entries:
            found = entry.stat(follow_symlinks=False)
            count += 1
            if stat.S_ISDIR(found.st_mode):
                if found.st_dev == device:
                    stack.append(Path(entry.path))
                    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
                        open_to_all.append(entry.path)
            elif stat.S_ISREG(found.st_mode):
                if found.st_mode & (stat.S_ISUID | stat.S_ISGID):
                    special.add(entry.path)
                if found.st_mode & stat.S_IWOTH:
                    open_to_all.append(entry.path)
    return count, special, sorted(open_to_all)
