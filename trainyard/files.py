"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_CHUNK = 1 << 20
# Linux, ioctl_ficlone(2): share the blocks of another file; any other system or file system says no.
_FICLONE = 0x40049409


@contextlib.contextmanager
def atomic_writer(path: Path, *, mode: int = 0o644) -> Iterator[BinaryIO]:
    """A binary stream whose content appears at `path` whole, or not at all: temp file, fsync, rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_atomic(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write `data` to `path` through a temporary file and a rename."""
    with atomic_writer(path, mode=mode) as stream:
        stream.write(data)


def link_or_copy(source: Path, target: Path, *, mode: int) -> None:
    """A large file at a new path: the same file, else the same blocks, else a copy with `mode`."""
    try:
        target.hardlink_to(source)
    except OSError:  # another disk, a file system without links, or a file of another user
        with source.open("rb") as reader, target.open("xb") as writer:
            try:
                fcntl.ioctl(writer, _FICLONE, reader.fileno())
            except OSError:
                shutil.copyfileobj(reader, writer, _CHUNK)
            writer.flush()
            os.fsync(writer.fileno())
        target.chmod(mode)
