"""The script that compiles a tree inside a Dockerfile's stage, run by this host's Python."""

from __future__ import annotations

import importlib.util
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from trainyard.bytecode.compile import bytecode_path, compile_sources
from trainyard.bytecode.python import ImagePython

SCRIPTS = Path(__file__).parents[1] / "trainyard" / "bytecode"
TAG = sys.implementation.cache_tag


def compile_tree(source: Path, out: Path, *, scripts: Path = SCRIPTS) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(scripts / "tree.py"), str(source), str(out)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    source = tmp_path / "site"
    (source / "pkg").mkdir(parents=True)
    (source / "pkg").chmod(0o775)
    for name, text in {"pkg/a.py": "x = (1, 'y')\n", "pkg/b.py": "def f():\n    return 'y'\n"}.items():
        (source / name).write_text(text)
        (source / name).chmod(0o664)
    return source


def compiled(tree: Path, out: Path) -> dict[str, Path]:
    """What was written for the tree, by path below it."""
    place = out / tree.relative_to("/")
    return {str(path.relative_to(place)): path for path in place.rglob("*") if path.is_file()}


def test_every_source_gets_its_bytecode_below_the_same_path(tree: Path, tmp_path: Path) -> None:
    assert compile_tree(tree, tmp_path / "out").returncode == 0

    assert set(compiled(tree, tmp_path / "out")) == {f"pkg/__pycache__/{name}.{TAG}.pyc" for name in "ab"}


def test_the_bytes_are_those_of_the_assembler(tree: Path, tmp_path: Path) -> None:
    """compile_sources is what fills the assembled image's layers."""
    compile_tree(tree, tmp_path / "out")
    python = ImagePython(root=Path("/"), version=f"3.{sys.version_info[1]}", argv=(sys.executable,), env={})
    sources = [(str(path.relative_to("/")), path.read_bytes()) for path in sorted(tree.rglob("*.py"))]
    expected = dict(compile_sources(sources, python, workers=1, stop=lambda: False))

    found = {
        str(path.relative_to(tmp_path / "out")): path.read_bytes()
        for path in (tmp_path / "out").rglob("*.pyc")
    }
    assert found == expected
    assert set(found) == {bytecode_path(path, str(TAG)) for path, _ in sources}


def test_hashes_in_the_bytecode_are_not_checked(tree: Path, tmp_path: Path) -> None:
    """PEP 552: flags 0b01."""
    compile_tree(tree, tmp_path / "out")

    for path in compiled(tree, tmp_path / "out").values():
        data = path.read_bytes()
        assert data[:4] == importlib.util.MAGIC_NUMBER
        assert int.from_bytes(data[4:8], "little") == 0b01


def test_modes_follow_the_source(tree: Path, tmp_path: Path) -> None:
    compile_tree(tree, tmp_path / "out")
    path = next(iter(compiled(tree, tmp_path / "out").values()))

    assert stat.S_IMODE(path.stat().st_mode) == 0o664
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o775


def test_what_does_not_compile_and_what_is_a_link_is_left_out(tree: Path, tmp_path: Path) -> None:
    (tree / "broken.py").write_text("def (:\n")
    (tree / "link.py").symlink_to("pkg/a.py")
    done = compile_tree(tree, tmp_path / "out")

    assert done.returncode == 0, done.stderr
    assert not [path for path in compiled(tree, tmp_path / "out") if "broken" in path or "link" in path]


def test_a_server_that_dies_fails_the_step(tree: Path, tmp_path: Path) -> None:
    """Half a tree of bytecode must not become an image."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "tree.py").write_bytes((SCRIPTS / "tree.py").read_bytes())
    (scripts / "server.py").write_text("raise SystemExit(3)\n")

    assert compile_tree(tree, tmp_path / "out", scripts=scripts).returncode != 0
