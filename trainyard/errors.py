"""The expected failures of trainyard; anything else is a bug and keeps its traceback.

TrainyardError
├── MatrixError        matrix.yaml says something that cannot be
├── UsageError         a value on the command line that we reject (exit 2)
├── LockError          a lock is missing, stale, or cannot be made
│   └── VanishedError  a locked file is no longer where it was published
├── InputError         bytes from outside are not what they must be (hash, size, path, format)
├── FetchError         the network did not deliver
│   └── GoneError      the server says that there is no such file
├── SpaceError         not enough disk
├── ReproducibilityError  same inputs, other bytes; or inputs moved since the golden record
└── RunnerError        an image could not be run
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TrainyardError(Exception):
    """An expected failure: what is wrong, and a hint that names the command to run next."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class MatrixError(TrainyardError):
    """matrix.yaml has one or more problems; the message lists all of them, one a line."""


class UsageError(TrainyardError):
    """A value given by the caller is not one that exists here."""

    exit_code = 2


class LockError(TrainyardError):
    """A lock is missing, stale, malformed, or cannot be resolved."""


class VanishedError(LockError):
    """A locked file is no longer served by the place that published it."""


class InputError(TrainyardError):
    """Bytes from outside the project are not what they must be."""


class FetchError(TrainyardError):
    """The network did not deliver what was asked for."""


class GoneError(FetchError):
    """The server answered, and says that there is no such file (404, 410)."""


class SpaceError(TrainyardError):
    """There is not enough free disk to start."""


class ReproducibilityError(TrainyardError):
    """What was built is not what the repository recorded."""


class RunnerError(TrainyardError):
    """An image could not be run."""


def near(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: ` (did you mean 'x'?)`, or nothing when none is like it."""
    match = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {match[0]!r}?)" if match else ""
