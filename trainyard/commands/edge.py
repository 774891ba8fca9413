"""The command line's edge: expected failures to exit codes, one JSON document to stdout, and a bare `--target`."""

from __future__ import annotations

import functools
import json
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from invoke import Exit, task

from trainyard.errors import TrainyardError, UsageError

PIPE_CLOSED = 141


class _Ended(KeyboardInterrupt):
    """A CI that cancels sends SIGTERM, a terminal that closes SIGHUP: as Ctrl-C, what was started is ended."""

    def __init__(self, number: int) -> None:
        self.number = number


def _listen() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, _end)


def _end(number: int, _frame: object) -> None:
    raise _Ended(number)


def command(**options: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A task whose expected failures print as `error:` and `hint:`; bugs keep their traceback."""

    def wrap(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> None:
            _listen()
            try:
                function(*args, **kwargs)
                sys.stdout.flush()
            except BrokenPipeError:
                end_if_nobody_reads()
                raise
            except TrainyardError as error:
                hint = f"\nhint: {error.hint}" if error.hint else ""
                raise Exit(f"error: {error.message}{hint}", code=error.exit_code) from None
            except KeyboardInterrupt as error:
                number = error.number if isinstance(error, _Ended) else signal.SIGINT
                raise Exit("\ninterrupted; the same command goes on from here", code=128 + number) from None

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
