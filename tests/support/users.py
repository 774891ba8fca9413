"""Run a piece of a test in a fork: as an ordinary user, or with less than root may."""

from __future__ import annotations

import os
import pickle
import shutil
import traceback
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")
# Belongs to nobody: not to a user of this machine, and not to the image's.
ORDINARY = 54321
# Root's own interpreter may be below /root, where nobody else comes.
SYSTEM_PYTHON = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")


def as_ordinary_user(action: Callable[[], Result]) -> Result:
    """What `action` returns in a fork that has given up root."""
    return in_fork(action, before=become_ordinary)


def become_ordinary() -> None:
    """Give up root for good."""
    os.setgroups([])
    os.setresgid(ORDINARY, ORDINARY, ORDINARY)
    os.setresuid(ORDINARY, ORDINARY, ORDINARY)


def in_fork(action: Callable[[], Result], *, before: Callable[[], object]) -> Result:
    """What `action` returns in a fork, after `before`; it must pickle. Its exception comes back too."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(read)
            before()
            try:
                outcome: tuple[object, object] = (action(), None)
            except Exception as error:
                outcome = (None, error)
            with os.fdopen(write, "wb") as stream:
                pickle.dump(outcome, stream)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        data = stream.read()
    os.waitpid(child, 0)
    value, raised = pickle.loads(data)
    if raised is not None:
        raise raised
    return value  # type: ignore[no-any-return]
