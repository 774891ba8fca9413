"""The command line's edge: expected failures to exit codes, one JSON document to stdout, and a bare `--target`."""

from __future__ import annotations

import functools
import json
import os
import select
import sys
from collections.abc import Callable, Sequence
from typing import Any

from invoke import Exit, task

from trainyard.errors import TrainyardError, UsageError

INTERRUPTED = 130
PIPE_CLOSED = 141


def command(**options: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A task whose expected failures print as `error:` and `hint:`; bugs keep their traceback."""

    def wrap(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> None:
            try:
                function(*args, **kwargs)
                sys.stdout.flush()
            except BrokenPipeError:
                end_if_nobody_reads()
                raise
            except TrainyardError as error:
                hint = f"\nhint: {error.hint}" if error.hint else ""
                raise Exit(f"error: {error.message}{hint}", code=error.exit_code) from None
            except KeyboardInterrupt:
                raise Exit("\ninterrupted; the same command goes on from here", code=INTERRUPTED) from None

        decorated: Callable[..., None] = task(**options)(run)
        return decorated

    return wrap


def end_if_nobody_reads() -> None:
    """`invoke plan | head -1`: the reader of stdout has seen enough, and that is no failure of ours."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    if any(state & (select.POLLERR | select.POLLHUP) for _, state in poll.poll(0)):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at its end
        raise Exit(code=PIPE_CLOSED)


def emit(document: object) -> None:
    """The data of a command: one JSON document on stdout."""
    print(json.dumps(document, indent=1, default=str))


def chosen(names: Sequence[str]) -> Sequence[str]:
    """The `--target` values; invoke turns a bare `--target` into nothing, which must not mean `the default`."""
    words = sys.argv[1:]
    bare = any(
        word in ("--target", "-t") and (not words[at + 1 :] or words[at + 1].startswith("-"))
        for at, word in enumerate(words)
    )
    if bare or "" in names:
        raise UsageError("--target needs a value", hint="`invoke list` shows the targets")
    return names
