"""Debian's own Python out of the locked debs, on its standard library and on the locked wheels.

Needs the debs in the store, and the wheels for the tests that say so: `invoke build` fetches both.
"""

from __future__ import annotations

import _imp
import functools
import itertools
import os
import platform
import random
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from trainyard.bytecode.compile import compile_sources
from trainyard.bytecode.python import ImagePython, check_same_python, image_python, stdlib_sources
from trainyard.debian.archive import DebArchive
from trainyard.lock.model import DebLock, LockedDeb, parse_deb_lock, parse_wheel_lock
from trainyard.paths import Project
from trainyard.platforms import Platform
from trainyard.settings import settings_from
from trainyard.store import Store
from trainyard.wheels.archive import Site, WheelArchive

HOST = Platform.of_machine(platform.system(), platform.machine()) or Platform("linux", "amd64")
ARM64 = Platform("linux", "arm64")
PROJECT = Project(Path(__file__).parents[1])
STORE = Store(settings_from(os.environ, home=Path.home(), cores=2).cache)
QEMU = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
Sources = list[tuple[str, bytes]]
pytestmark = [pytest.mark.real, pytest.mark.skipif(HOST.os != "linux", reason="runs Linux programs")]


def lock_of(arch: str) -> DebLock:
    path = PROJECT.deb_lock("trixie", arch)
    return parse_deb_lock(path.read_text(), source=str(path))


def fetched(sha256: str, name: str) -> Path:
    path = STORE.input(sha256)
    if not path.exists():
        pytest.skip(f"{name} is not in the store: `invoke build` fetches it")
    return path


def python_of(target: Platform) -> ImagePython:
    lock = lock_of(target.arch)
    fetched(next(deb.sha256 for deb in lock.debs if deb.name == "python3.13-minimal"), "python3.13-minimal")
    return image_python(STORE, lock, target)


@functools.cache
def stdlib() -> Sources:
    def archive(deb: LockedDeb) -> DebArchive:
        return DebArchive(fetched(deb.sha256, deb.name), name=deb.name, version=deb.version)

    debs = lock_of(HOST.arch).debs
    return list(stdlib_sources(archive(deb) for deb in debs if "python3.13" in deb.name))


@functools.cache
def wheels() -> Sources:
    """Every seventh source of torch, sympy, filelock and others; among them are some that order changes."""
    path = PROJECT.wheel_lock("cuda13.2", HOST)
    if not path.exists():
        pytest.skip("cuda13.2 is not locked: `invoke lock`")
    found = []
    for wheel in parse_wheel_lock(path.read_text(), source=str(path)).wheels:
        if wheel.name in ("torch", "sympy", "networkx", "filelock", "numpy"):
            archive = WheelArchive(fetched(wheel.sha256, wheel.name), wheel, Site(python="3.13"))
            step = 1 if wheel.name == "filelock" else 7
            found += list(itertools.islice(archive.sources(), 0, None, step))
    return found


def compiled(sources: Sources, python: ImagePython, *, workers: int = 2) -> dict[str, bytes]:
    return dict(compile_sources(sources, python, workers=workers, stop=lambda: False))


def run(python: ImagePython, code: str) -> str:
    command = [*python.argv, "-S", "-c", code]
    return subprocess.check_output(command, env=dict(python.env), text=True, cwd="/").strip()


def source_hash(source: bytes) -> bytes:
    """SipHash-1-3 keyed with Python 3.13's magic number, 3571 (PEP 552)."""
    return _imp.source_hash(int.from_bytes((3571).to_bytes(2, "little") + b"\r\n", "little"), source)


def test_it_is_the_python_of_the_lock() -> None:
    """Debian's version begins with Python's own."""
    version = run(python_of(HOST), "import sys; print(sys.version.split()[0])")

    deb = lock_of(HOST.arch).deb("python3.13-minimal")
    assert deb is not None
    assert deb.version.startswith(f"{version}-")


def test_every_module_that_pip_needs_loads_with_the_libraries_of_the_base() -> None:
    """So that `pip-compile` runs under it too."""
    modules = (
        "ssl, sqlite3, ctypes, lzma, bz2, zlib, hashlib, readline, curses, dbm.ndbm, uuid, pyexpat, asyncio"
    )
    python = python_of(HOST)

    said = run(python, f"import {modules}; print(open('/proc/self/maps').read())")

    libraries = {line.split()[-1] for line in said.splitlines() if ".so" in line}
    assert {path for path in libraries if not path.startswith(str(python.root))} == set()


def test_both_architectures_are_locked_to_one_python() -> None:
    check_same_python(lock_of("arm64"), lock_of("amd64"))


def test_the_whole_standard_library_compiles_to_unchecked_bytecode_of_its_source() -> None:
    sources = stdlib()
    result = compiled(sources, python_of(HOST))

    assert len(result) == len(sources) > 500
    for (path, source), (where, pyc) in zip(sources, result.items(), strict=True):
        folder, _, name = path.rpartition("/")
        assert where == f"{folder}/__pycache__/{name[:-3]}.cpython-313.pyc"
        assert pyc[4:8] == b"\1\0\0\0"
        assert pyc[8:16] == source_hash(source)


def test_first_reversed_and_shuffled_files_have_the_bytes_they_have_after_500_others() -> None:
    python, sources = python_of(HOST), stdlib()
    in_order = compiled(sources, python, workers=1)

    assert compiled(sources[::-1][:100], python) == dict(list(in_order.items())[-100:])
    assert compiled(random.Random(2).sample(sources, 100), python).items() <= in_order.items()


def test_wheels_in_any_order_and_alone_have_one_bytecode() -> None:
    python, sources = python_of(HOST), wheels()
    in_order = compiled(sources, python, workers=1)

    assert len(in_order) > 500
    assert compiled(sources[::-1], python) == in_order
    for source in random.Random(3).sample(sources, 20):
        assert compiled([source], python).items() <= in_order.items()


def test_an_import_under_the_image_s_python_runs_the_bytecode(tmp_path: Path) -> None:
    """The module's text says 2 by now; a Python that looked at it would not say 1."""
    python = python_of(HOST)
    for path, pyc in compiled([("m.py", b"x = 1\n")], python).items():
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_bytes(pyc)
    (tmp_path / "m.py").write_bytes(b"x = 2\n")

    assert run(python, f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import m; print(m.x)") == "1"


def test_running_it_writes_nothing_into_its_tree() -> None:
    python = python_of(HOST)
    run(python, "import json, argparse")

    assert not list(python.root.rglob("__pycache__"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_it_runs_as_a_user_without_a_name() -> None:
    """From a copy, since the store may lie where others cannot look."""
    python = python_of(HOST)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        root = Path(folder) / "tree"
        shutil.copytree(python.root, root, symlinks=True)
        argv = [part.replace(str(python.root), str(root)) for part in python.argv]

        result = subprocess.run(
            [*argv, "-S", "-c", "import os, ssl; print(os.getuid())"],
            env={**python.env, "PYTHONHOME": str(root / "usr")}, user=54321, group=54321, extra_groups=[],
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    assert (result.stdout, result.returncode) == ("54321\n", 0), result.stderr


@pytest.mark.skipif(QEMU is None, reason="no qemu-user on this host")
@pytest.mark.skipif(HOST == ARM64, reason="is arm64 itself")
def test_arm64_gives_the_same_bytes() -> None:
    """Emulated and slow, so a few files only: the arm64 interpreter itself compiles them."""
    python = python_of(ARM64)
    emulated = replace(python, argv=(str(QEMU), *python.argv))
    sources = stdlib()[::40]

    assert compiled(sources, emulated) == compiled(sources, python_of(HOST))
