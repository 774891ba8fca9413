"""One compile server as a process: its failures name the file, and it leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from dataclasses import replace

import pytest

from tests.support.compilers import child_of, gone, host_python, running
from trainyard.bytecode.process import CompileServer
from trainyard.errors import TrainyardError

PATH = "opt/venv/lib/m.py"
# Takes far longer to compile than a test waits.
ENDLESS = b"".join(b"def f%d(a): return [a * %d for x in a]\n" % (n, n) for n in range(200_000))


def leader(marker: str) -> int:
    """The server among the processes of a run: the one with the lowest number."""
    return running(marker)[0]


def test_the_name_that_the_code_carries_is_absolute() -> None:
    with CompileServer(host_python()) as server:
        pyc, reason = server.compile(PATH, b"x = 1")

    assert pyc is not None
    assert b"/opt/venv/lib/m.py" in pyc
    assert reason == ""


def test_a_refusal_has_no_bytecode_and_a_reason() -> None:
    with CompileServer(host_python()) as server:
        assert server.compile(PATH, b"x =") == (None, "SyntaxError: invalid syntax (m.py, line 1)")


@pytest.mark.parametrize("victim", ["server", "child"])
def test_a_killed_process_is_an_error_that_names_the_file(victim: str) -> None:
    with CompileServer(host_python("killed")) as server:
        parent = leader("killed")
        os.kill(parent if victim == "server" else child_of(parent), signal.SIGKILL)

        with pytest.raises(TrainyardError, match=re.escape(PATH)) as caught:
            server.compile(PATH, b"x = 1")

    assert "invoke build" in caught.value.hint
    assert gone("killed")


def test_what_the_server_said_last_is_in_the_error() -> None:
    """A Python that is told to load a standard library that is not there says so."""
    python = replace(host_python(), env={"PYTHONHOME": "/nowhere"})

    with CompileServer(python) as server, pytest.raises(TrainyardError, match="encodings"):
        server.compile(PATH, b"x = 1")


def test_no_memory_is_an_error_and_not_a_source_that_does_not_compile() -> None:
    python = host_python(wrapped=("/bin/sh", "-c", 'ulimit -v 200000; exec "$@"', "sh"))
    huge = b"x = [" + b"1.5," * 4_000_000 + b"]"

    with CompileServer(python) as server:
        assert server.compile(PATH, b"x = 1")[0] is not None
        with pytest.raises(TrainyardError, match=r"(?s)opt/venv/lib/m\.py.*MemoryError"):
            server.compile(PATH, huge)


def test_a_python_that_cannot_be_started_is_an_expected_error() -> None:
    python = replace(host_python(), argv=("/nowhere/ld.so",))

    with pytest.raises(TrainyardError, match=r"/nowhere/ld\.so") as caught:
        CompileServer(python)

    assert "TRAINYARD_CACHE" in caught.value.hint


def test_a_python_that_ends_at_once_is_an_expected_error() -> None:
    with (
        CompileServer(replace(host_python(), argv=("/bin/false",))) as server,
        pytest.raises(TrainyardError, match="ended with status 1"),
    ):
        server.compile(PATH, b"x = 1")


@pytest.mark.parametrize("asked", [True, False], ids=["idle", "never asked"])
def test_the_end_of_the_context_is_the_end_of_the_processes(asked: bool) -> None:
    with CompileServer(host_python("context")) as server:
        if asked:
            server.compile(PATH, b"x = 1")
        assert running("context")

    assert not running("context")


def test_a_server_that_is_compiling_is_stopped_with_its_child_within_a_second() -> None:
    failures: list[Exception] = []

    def ask() -> None:
        try:
            server.compile(PATH, ENDLESS)
        except TrainyardError as error:
            failures.append(error)

    with CompileServer(host_python("busy")) as server:
        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(0.5)
        began = time.monotonic()
        server.kill()
        took = time.monotonic() - began
        left = running("busy")
        thread.join(10)

    assert not left, "a zombie or an orphan"
    assert took < 1
    assert len(failures) == 1


def test_killing_twice_is_killing_once() -> None:
    with CompileServer(host_python("twice")) as server:
        server.kill()
        server.kill()

    assert not running("twice")


def test_a_signal_from_the_terminal_is_for_us_and_not_for_the_servers() -> None:
    """Ctrl-C goes to the foreground process group; ours ends the servers when it is ready to."""
    with CompileServer(host_python("group")):
        assert os.getpgid(leader("group")) == leader("group") != os.getpgid(0)
