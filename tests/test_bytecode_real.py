"""Debian's own Python out of the locked debs, on its standard library and on the locked wheels.

Needs the debs of trixie in the store, and the wheels for the tests that say so: `invoke build` fetches both.
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

from tests.support.mirrors import BASES, committed_lock, locked_debs, why_gone
from trainyard.bytecode.compile import compile_sources
from trainyard.bytecode.python import (
    ImagePython,
    check_same_python,
    image_python,
    python_debs,
    stdlib_sources,
)
from trainyard.debian.archive import DebArchive
from trainyard.lock.model import LockedDeb, parse_wheel_lock
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


# The magic number of each Python's bytecode: what PEP 552 keys the hash of a source with.
MAGIC = {"3.13": 3571, "3.14": 3627}


@pytest.fixture(scope="module", params=["trixie", "forky"])
def base(request: pytest.FixtureRequest) -> str:
    """A base, its Python in the store."""
    name: str = request.param
    if not PROJECT.deb_lock(name, HOST.arch).is_file():
        pytest.skip(f"this host's architecture is none of {name}'s")
    lock = committed_lock(name, HOST.arch)
    needed = {*python_debs(lock), *(deb for deb in lock.debs if f"python{BASES[name].python}" in deb.name)}
    missing = [deb for deb in needed if not STORE.input(deb.sha256).exists()]
    if BASES[name].allow_expired and missing:
        if reason := why_gone(name):
            pytest.skip(reason)
        for deb in missing:
            locked_debs(name, HOST.arch, wanted=deb.name)
    return name


def fetched(sha256: str, name: str) -> Path:
    path = STORE.input(sha256)
    if not path.exists():
        pytest.skip(f"{name} is not in the store: `invoke build` fetches it")
    return path


def python_of(base: str, target: Platform) -> ImagePython:
    lock = committed_lock(base, target.arch)
    name = f"python{BASES[base].python}-minimal"
    fetched(next(deb.sha256 for deb in lock.debs if deb.name == name), name)
    return image_python(STORE, lock, target)


@functools.cache
def stdlib(base: str) -> Sources:
    def archive(deb: LockedDeb) -> DebArchive:
        return DebArchive(fetched(deb.sha256, deb.name), name=deb.name, version=deb.version)

    debs = committed_lock(base, HOST.arch).debs
    return list(stdlib_sources(archive(deb) for deb in debs if f"python{BASES[base].python}" in deb.name))


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


def source_hash(source: bytes, magic: int) -> bytes:
    """SipHash-1-3 keyed with a Python's magic number (PEP 552)."""
    return _imp.source_hash(int.from_bytes(magic.to_bytes(2, "little") + b"\r\n", "little"), source)


def test_it_is_the_python_of_the_lock(base: str) -> None:
    """Debian's version begins with Python's own."""
    version = run(python_of(base, HOST), "import sys; print(sys.version.split()[0])")

    deb = committed_lock(base, HOST.arch).deb(f"python{BASES[base].python}-minimal")
    assert deb is not None
    assert deb.version.startswith(f"{version}-")


def test_every_module_that_pip_needs_loads_with_the_libraries_of_the_base(base: str) -> None:
    """So that `pip-compile` runs under it too."""
    modules = (
        "ssl, sqlite3, ctypes, lzma, bz2, zlib, hashlib, readline, curses, dbm.ndbm, uuid, pyexpat, asyncio"
    )
    python = python_of(base, HOST)

    said = run(python, f"import {modules}; print(open('/proc/self/maps').read())")

    libraries = {line.split()[-1] for line in said.splitlines() if ".so" in line}
    assert {path for path in libraries if not path.startswith(str(python.root))} == set()


def test_both_architectures_are_locked_to_one_python() -> None:
    check_same_python(committed_lock("trixie", "arm64"), committed_lock("trixie", "amd64"))


def test_the_whole_standard_library_compiles_to_unchecked_bytecode_of_its_source(base: str) -> None:
    sources = stdlib(base)
    result = compiled(sources, python_of(base, HOST))
    tag = BASES[base].python.replace(".", "")

    assert len(result) == len(sources) > 500
    for (path, source), (where, pyc) in zip(sources, result.items(), strict=True):
        folder, _, name = path.rpartition("/")
        assert where == f"{folder}/__pycache__/{name[:-3]}.cpython-{tag}.pyc"
        assert pyc[4:8] == b"\1\0\0\0"
        assert pyc[8:16] == source_hash(source, MAGIC[BASES[base].python])


def test_first_reversed_and_shuffled_files_have_the_bytes_they_have_after_500_others(base: str) -> None:
    python, sources = python_of(base, HOST), stdlib(base)
    in_order = compiled(sources, python, workers=1)

    assert compiled(sources[::-1][:100], python) == dict(list(in_order.items())[-100:])
    assert compiled(random.Random(2).sample(sources, 100), python).items() <= in_order.items()


def test_wheels_in_any_order_and_alone_have_one_bytecode() -> None:
    python, sources = python_of("trixie", HOST), wheels()
    in_order = compiled(sources, python, workers=1)

    assert len(in_order) > 500
    assert compiled(sources[::-1], python) == in_order
    for source in random.Random(3).sample(sources, 20):
        assert compiled([source], python).items() <= in_order.items()


def test_an_import_under_the_image_s_python_runs_the_bytecode(base: str, tmp_path: Path) -> None:
    """The module's text says 2 by now; a Python that looked at it would not say 1."""
    python = python_of(base, HOST)
    for path, pyc in compiled([("m.py", b"x = 1\n")], python).items():
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_bytes(pyc)
    (tmp_path / "m.py").write_bytes(b"x = 2\n")

    assert run(python, f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import m; print(m.x)") == "1"


def test_running_it_writes_nothing_into_its_tree(base: str) -> None:
    python = python_of(base, HOST)
    run(python, "import json, argparse")

    assert not list(python.root.rglob("__pycache__"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_it_runs_as_a_user_without_a_name(base: str) -> None:
    """From a copy, since the store may lie where others cannot look."""
    python = python_of(base, HOST)
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
    python = python_of("trixie", ARM64)
    emulated = replace(python, argv=(str(QEMU), *python.argv))
    sources = stdlib("trixie")[::40]

    assert compiled(sources, emulated) == compiled(sources, python_of("trixie", HOST))
