"""Entries of debs -> a folder of the caller's, for running what is in it; no owners, no times, no setuid."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from trainyard.errors import InputError
from trainyard.oci.entry import Entry, Kind


def unpack(entries: Iterable[Entry], root: Path) -> None:
    """Write files and links below `root`, which must not exist; InputError for a path that is taken twice.

    Links come last, when no file can be written through them any more.
    """
    root.mkdir(mode=0o755, parents=True)
    links = []
    for entry in entries:
        if entry.kind is Kind.DIRECTORY:
            _make_directory(root, entry)
        elif entry.kind is Kind.FILE:
            _write_file(root, entry)
        else:
            links.append(entry)
    # Their folders first, and hard links first: a link may not lead to where another one is made.
    for entry in links:
        with _refused(entry):
            (root / entry.path).parent.mkdir(parents=True, exist_ok=True)
    for entry in sorted(links, key=lambda entry: entry.kind is Kind.SYMLINK):
        _make_link(root, entry)


def _make_directory(root: Path, entry: Entry) -> None:
    with _refused(entry):
        (root / entry.path).mkdir(parents=True, exist_ok=True)


def _write_file(root: Path, entry: Entry) -> None:
    path = root / entry.path
    with _refused(entry):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as stream:
        for chunk in entry.content:
            stream.write(chunk)
        os.fchmod(stream.fileno(), 0o555 if entry.mode & 0o111 else 0o444)


def _make_link(root: Path, entry: Entry) -> None:
    path = root / entry.path
    with _refused(entry):
        if entry.kind is Kind.SYMLINK:
            path.symlink_to(entry.link)
        else:
            os.link(root / entry.link, path, follow_symlinks=False)


@contextlib.contextmanager
def _refused(entry: Entry) -> Iterator[None]:
    """What the disk says of a path, as an error that names the package."""
    try:
        yield
    except (FileExistsError, NotADirectoryError, FileNotFoundError) as error:
        raise InputError(
            f"{entry.origin}: {entry.path} does not fit with the other packages: {error.strerror}",
            hint="`invoke clean --inputs` and build again; else ask for other packages in matrix.yaml",
        ) from None
