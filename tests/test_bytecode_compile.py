"""Sources to bytecode: the same bytes whatever happens around it, in the order of the sources."""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.compilers import TAG, gone, host_python, running, some_sources
from trainyard.bytecode.compile import bytecode_entries, bytecode_path, compile_sources
from trainyard.bytecode.python import ImagePython
from trainyard.errors import TrainyardError
from trainyard.oci.entry import Kind
from trainyard.oci.layer import StoppedError

ROOT = Path(__file__).parents[1]
Sources = Iterable[tuple[str, bytes]]


def compiled(
    sources: Sources, *, python: ImagePython | None = None, workers: int = 2
) -> list[tuple[str, bytes]]:
    return list(compile_sources(sources, python or host_python(), workers=workers, stop=lambda: False))


def numbered(count: int) -> Iterator[tuple[str, bytes]]:
    """Sources of very different sizes."""
    return ((f"m{n}.py", b"x = %d\n" % n * (1 + n * 37 % 101) ** 2) for n in range(count))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("opt/venv/a/b.py", "opt/venv/a/__pycache__/b.cpython-313.pyc"),
        ("b.py", "__pycache__/b.cpython-313.pyc"),
        ("a/b.c.py", "a/__pycache__/b.c.cpython-313.pyc"),
        ("a/__init__.py", "a/__pycache__/__init__.cpython-313.pyc"),
        ("a.py/b.py", "a.py/__pycache__/b.cpython-313.pyc"),
    ],
)
def test_bytecode_lies_where_python_looks_for_it(source: str, expected: str) -> None:
    assert bytecode_path(source, "cpython-313") == expected


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_the_order_is_that_of_the_sources_though_sizes_differ(workers: int) -> None:
    result = compiled(numbered(40), workers=workers)

    assert [path for path, _ in result] == [f"__pycache__/m{n}.{TAG}.pyc" for n in range(40)]


def test_order_and_number_of_servers_reach_no_byte() -> None:
    sources = some_sources(30)
    shuffled = random.Random(1).sample(sources, len(sources))
    expected = dict(compiled(sources))

    assert dict(compiled(shuffled, workers=3)) == expected
    assert dict(compiled(reversed(sources), workers=1)) == expected


def test_a_source_compiled_first_has_the_bytes_it_has_after_others() -> None:
    sources = some_sources(40)
    last = sources[-1:]

    [alone] = compiled(last, workers=1)

    assert compiled(sources, workers=1)[-1] == alone


@pytest.mark.parametrize(
    "environ",
    [
        {"PYTHONHASHSEED": "123", "PYTHONOPTIMIZE": "2", "PYTHONWARNINGS": "error"},
        {"LANG": "tr_TR.ISO-8859-9", "LC_ALL": "POSIX", "TZ": "Asia/Tokyo", "SOURCE_DATE_EPOCH": "1"},
        {"PYTHONPATH": "/nowhere", "PYTHONUTF8": "0", "HOME": "/nowhere", "TMPDIR": "/var/tmp"},
    ],
    ids=["python", "locale", "folders"],
)
def test_the_callers_environment_umask_and_folder_reach_no_byte(
    environ: Mapping[str, str], tmp_path: Path
) -> None:
    here = digest(compiled(some_sources(8)))
    script = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); os.umask(0o077)\n"
        "from tests.test_bytecode_compile import *\n"
        "print(digest(compiled(some_sources(8))))"
    )

    there = subprocess.check_output(
        [sys.executable, "-c", script, str(ROOT)],
        env={"PATH": os.environ["PATH"], **environ},
        cwd=tmp_path,
        text=True,
    )

    assert there.strip() == here


def digest(result: list[tuple[str, bytes]]) -> str:
    return hashlib.sha256(repr(result).encode()).hexdigest()


def test_sources_that_python_refuses_are_left_out_and_told_in_order() -> None:
    refused: list[tuple[str, str]] = []
    sources = [("a.py", b"x = 1"), ("b.py", b"x ="), ("c.py", b"\0"), ("d.py", b"x = 2")]

    result = list(
        compile_sources(
            sources,
            host_python(),
            workers=2,
            stop=lambda: False,
            on_refused=lambda path, reason: refused.append((path, reason)),
        )
    )

    assert [path for path, _ in result] == [f"__pycache__/{name}.{TAG}.pyc" for name in "ad"]
    assert [path for path, _ in refused] == ["b.py", "c.py"]
    assert all(reason for _, reason in refused)


def test_nobody_has_to_hear_of_refused_sources() -> None:
    assert compiled([("b.py", b"x =")]) == []


def test_nothing_to_compile_is_nothing() -> None:
    assert compiled([]) == []


def test_python_imports_the_bytecode_and_does_not_look_at_the_source(tmp_path: Path) -> None:
    """The source says 2 by now, and the code that runs is of the time when it said 1."""
    for path, data in compiled([("m.py", b"x = 1\n")]):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_bytes(data)
    (tmp_path / "m.py").write_bytes(b"x = 2\n")

    said = subprocess.check_output([sys.executable, "-c", "import m; print(m.x)"], cwd=tmp_path, text=True)

    assert said == "1\n"


def test_memory_is_bounded_since_sources_are_drawn_as_bytecode_is_taken() -> None:
    drawn: list[str] = []

    def sources() -> Iterator[tuple[str, bytes]]:
        for path, source in numbered(1000):
            drawn.append(path)
            yield path, source

    result = compile_sources(sources(), host_python(), workers=2, stop=lambda: False)
    taken = list(itertools.islice(result, 5))
    result.close()  # type: ignore[attr-defined]

    assert len(drawn) <= len(taken) + 2 * 8


def test_files_of_the_environment_may_be_replaced_by_group_0_and_others_not() -> None:
    sources = [
        ("opt/venv/lib/a.py", b"x = 1"),
        ("usr/lib/python3.13/b.py", b"x = 1"),
        ("opt/venv2/c.py", b""),
    ]

    entries = list(bytecode_entries(sources, host_python(), workers=1, stop=lambda: False))

    assert [oct(entry.mode) for entry in entries] == ["0o664", "0o644", "0o644"]
    for entry in entries:
        assert (entry.kind, entry.uid, entry.gid, entry.mtime) == (Kind.FILE, 0, 0, None)
        assert len(b"".join(entry.content)) == entry.size > 16
        assert entry.origin == "bytecode"


def test_stop_ends_it_with_its_own_error_and_no_process_left() -> None:
    answers = iter([False] * 10 + [True] * 100)

    with pytest.raises(StoppedError):
        list(compile_sources(numbered(50), host_python("stop"), workers=2, stop=lambda: next(answers)))

    assert not running("stop")


def test_a_reader_that_goes_away_leaves_no_process() -> None:
    result = compile_sources(numbered(50), host_python("closed"), workers=2, stop=lambda: False)
    next(result)
    assert len(running("closed")) >= 2

    result.close()  # type: ignore[attr-defined]

    assert not running("closed")


def test_sources_that_fail_leave_no_process_and_their_own_error() -> None:
    def sources() -> Iterator[tuple[str, bytes]]:
        yield from numbered(20)
        raise LookupError("a damaged wheel")

    with pytest.raises(LookupError, match="a damaged wheel"):
        compiled(sources(), python=host_python("sources"))

    assert not running("sources")


def test_a_killed_server_is_an_error_that_names_a_source_and_leaves_no_process() -> None:
    def sources() -> Iterator[tuple[str, bytes]]:
        yield from numbered(20)
        os.kill(running("victim")[0], signal.SIGKILL)
        yield from ((f"later{n}.py", b"x = 1") for n in range(50))

    with pytest.raises(TrainyardError, match=r"(m\d+|later\d+)\.py: .* ended with status -9"):
        compiled(sources(), python=host_python("victim"))

    assert gone("victim")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_nothing_outlives_us(number: signal.Signals) -> None:
    marker = f"outlive-{number.name}"
    script = (
        "import itertools, sys; sys.path.insert(0, sys.argv[1])\n"
        "from tests.test_bytecode_compile import *\n"
        "endless = ((f'm{n}.py', b'x = 1\\n' * 2000) for n in itertools.count())\n"
        "for path, _ in compile_sources(endless, host_python(sys.argv[2]), workers=2, stop=lambda: False):\n"
        "    print(path, flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(ROOT), marker],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("__pycache__/m0.")
        assert running(marker)
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)

    assert process.returncode == -number
    assert ("KeyboardInterrupt" in errors) is (number is signal.SIGINT)
    assert gone(marker)
