"""The compile server by its protocol: what it answers, and what it must not survive."""

from __future__ import annotations

import importlib.util
import marshal
import os
import signal
import subprocess
import sys
from types import CodeType

import pytest

from tests.support.compilers import STDLIB, child_of
from trainyard.bytecode.process import SCRIPT

COMMAND = [sys.executable, "-S", "-B", "-W", "ignore", str(SCRIPT)]


def request(name: str, source: bytes) -> bytes:
    data = name.encode()
    return len(data).to_bytes(4, "big") + len(source).to_bytes(4, "big") + data + source


def talk(data: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(COMMAND, input=data, capture_output=True, timeout=30, check=False)


def answers(output: bytes) -> list[tuple[bytes, bytes]]:
    found = []
    while output:
        size = int.from_bytes(output[1:5], "big")
        found.append((output[:1], output[5 : 5 + size]))
        output = output[5 + size :]
    return found


def answer(source: bytes, name: str = "/opt/venv/m.py") -> tuple[bytes, bytes]:
    result = talk(request(name, source))
    assert (result.returncode, result.stderr) == (0, b"")
    [found] = answers(result.stdout)
    return found


def code_of(pyc: bytes) -> CodeType:
    code = marshal.loads(pyc[16:])
    assert isinstance(code, CodeType)
    return code


def test_the_header_says_unchecked_and_has_the_hash_of_the_source() -> None:
    """PEP 552: magic number, flags 0b01, then the source's hash."""
    source = b"x = 1\n"

    kind, pyc = answer(source)

    assert kind == b"P"
    assert pyc[:4] == importlib.util.MAGIC_NUMBER
    assert int.from_bytes(pyc[4:8], "little") == 0b01
    assert pyc[8:16] == importlib.util.source_hash(source)


def test_the_code_carries_the_path_in_the_image_and_no_path_of_the_host() -> None:
    _, pyc = answer(b"def f(): pass\n", name="/opt/venv/lib/m.py")
    code = code_of(pyc)
    inner = next(constant for constant in code.co_consts if isinstance(constant, CodeType))

    assert code.co_filename == inner.co_filename == "/opt/venv/lib/m.py"
    assert os.fsencode(STDLIB) not in pyc


def test_an_empty_source_is_a_module() -> None:
    assert code_of(answer(b"")[1]).co_filename == "/opt/venv/m.py"


@pytest.mark.parametrize(
    ("source", "value"),
    [
        (b"\xef\xbb\xbfx = 'a'\n", "a"),
        (b"# -*- coding: latin-1 -*-\nx = '\xe9'\n", "\u00e9"),
        (b"# coding: cp1252\nx = '\x80'\n", "\u20ac"),
        (b"x = '\xc3\xa9'\r\n", "\u00e9"),
    ],
    ids=["BOM", "latin-1", "cp1252", "CRLF"],
)
def test_a_source_is_decoded_as_import_decodes_it(source: bytes, value: str) -> None:
    kind, pyc = answer(source)
    names: dict[str, object] = {}
    exec(code_of(pyc), names)

    assert (kind, names["x"]) == (b"P", value)
    assert pyc[8:16] == importlib.util.source_hash(source)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (b"x =\n", b"SyntaxError"),
        (b"{{ template }} }\n", b"SyntaxError"),
        (b"x = 1\0\n", b"null bytes"),
        (b"x = '\xff'\n", b"SyntaxError"),
        (b"# coding: klingon\n", b"SyntaxError"),
        (b"\tif x:\n  y\n", b"IndentationError"),
        (b"x = " + b"(" * 5000 + b")" * 5000, b""),
        pytest.param(
            b"x = " + b"-" * 100_000 + b"1",
            b"too complex",
            marks=pytest.mark.skipif(sys.version_info < (3, 13), reason="older parsers give no reason"),
        ),
    ],
    ids=["no value", "template", "null", "not UTF-8", "unknown coding", "indent", "nested", "deep"],
)
def test_a_source_that_python_refuses_is_an_answer(source: bytes, reason: bytes) -> None:
    kind, text = answer(source)

    assert kind == b"F"
    assert text
    assert reason in text


def test_warnings_are_not_output() -> None:
    """`answer` asserts that stderr is empty."""
    assert answer(b"x = '\\d'\nassert (1, 'always true')\n1 is 1\n")[0] == b"P"


def test_a_refused_source_does_not_end_the_server() -> None:
    result = talk(request("/a.py", b"x =") + request("/b.py", b"x = 1"))

    assert result.returncode == 0
    assert [kind for kind, _ in answers(result.stdout)] == [b"F", b"P"]


def test_the_end_of_requests_ends_the_server() -> None:
    result = talk(b"")

    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


@pytest.mark.parametrize("cut", [1, 7, 8, 12, 20])
def test_half_a_request_is_not_compiled(cut: int) -> None:
    whole = request("/some/module.py", b"x = 1\n")

    result = talk(whole + whole[:cut])

    assert result.returncode == 0
    assert len(answers(result.stdout)) == 1


def test_every_source_meets_a_process_that_has_compiled_nothing() -> None:
    """The child that waits for the next request is never the one that answered the last."""
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        seen = [0]
        for _ in range(3):
            seen.append(child_of(server.pid, after=seen[-1]))
            server.stdin.write(request("/a.py", b"x = 1\n"))
            server.stdin.flush()
            size = int.from_bytes(server.stdout.read(5)[1:], "big")
            assert len(server.stdout.read(size)) == size
        server.stdin.close()

    assert len(set(seen)) == 4


def test_a_child_that_is_killed_ends_the_server_with_its_status() -> None:
    with subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as server:
        os.kill(child_of(server.pid), signal.SIGKILL)
        output, errors = server.communicate(timeout=30)

    assert (server.returncode, output) == (1, b"")
    assert b"status -9" in errors
