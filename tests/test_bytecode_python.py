"""The image's Python from a lock: its key, its tree in the store, and the sources of its standard library."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.debs import build_deb
from tests.support.locks import AMD64, ARM64, deb, deb_lock
from trainyard.bytecode.compile import compile_sources
from trainyard.bytecode.python import (
    check_same_python,
    image_python,
    python_key,
    python_version,
    stdlib_sources,
)
from trainyard.debian.archive import DebArchive
from trainyard.errors import InputError, LockError
from trainyard.lock.model import DebLock, LockedDeb
from trainyard.platforms import Platform
from trainyard.store import Store

COMPILER = ("python3.13-minimal", "libpython3.13-minimal", "libpython3.13-stdlib")
VERSION = "3.13.5-2"
# They stand for glibc's loader and for Python: what they are told is what the real ones are told.
LOADER = (
    '#!/bin/sh\n[ "$1 $2" = "--inhibit-cache --library-path" ] && [ -d "$3" ] || exit 9\nshift 3\nexec "$@"\n'
)
PYTHON = (
    '#!/bin/sh\n[ -d "$PYTHONHOME/lib/python3.13" ] || exit 8\n'
    f'unset PYTHONHOME\nexec {sys.executable} "$@"\n'
)


def tiny_base(store: Store, folder: Path, *, extra: Mapping[str, Mapping[str, str]] | None = None) -> DebLock:
    """A base whose Python is the tests' own, its debs in the store."""
    contents: dict[str, Mapping[str, str]] = {
        "libc6": {"usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2": LOADER},
        "python3.13-minimal": {"usr/bin/python3.13": PYTHON},
        "libpython3.13-minimal": {"usr/lib/python3.13/os.py": "x = 1\n"},
        "libpython3.13-stdlib": {"usr/lib/python3.13/json/decoder.py": "x = 2\n"},
        "libc6-dev": {"usr/include/stdio.h": ""},
        "git": {"usr/bin/git": ""},
        **(extra or {}),
    }
    modes = {"usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2": 0o755, "usr/bin/python3.13": 0o755}
    debs = []
    for name, files in sorted(contents.items()):
        path = build_deb(folder, name, VERSION, files=files, modes=modes)
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        debs.append(LockedDeb(name=name, version=VERSION, sha256=sha256, size=1, path=f"debian/{path.name}"))
        store.input(sha256).parent.mkdir(parents=True, exist_ok=True)
        path.rename(store.input(sha256))
    return replace(deb_lock(), debs=tuple(debs))


def trees(store: Store) -> list[Path]:
    return sorted((store.root / "trees").glob("*"))


def without(lock: DebLock, name: str) -> DebLock:
    return replace(lock, debs=tuple(one for one in lock.debs if one.name != name))


@pytest.mark.parametrize("name", COMPILER)
def test_the_key_changes_with_each_package_that_decides_bytecode(name: str) -> None:
    assert python_key(deb_lock()) != python_key(deb_lock(deb(name, "3.13.5-3")))


def test_the_key_does_not_change_with_other_packages() -> None:
    """An update of git, or of Python's headers, moves no bytecode."""
    other = deb_lock(
        deb("git"), deb("libc6", "2.42"), deb("python3.13-dev", "3.13.6"), snapshot="2027-01-01T00:00:00Z"
    )

    assert python_key(other) == python_key(deb_lock())


def test_the_python_is_the_one_of_the_base() -> None:
    assert python_version(deb_lock()) == "3.13"


def test_a_base_without_python_says_what_to_do() -> None:
    with pytest.raises(LockError, match="has 0 Pythons") as caught:
        python_key(without(deb_lock(), "python3.13-minimal"))

    assert "matrix.yaml" in caught.value.hint


def test_a_base_with_two_pythons_is_refused() -> None:
    with pytest.raises(LockError, match="has 2 Pythons"):
        python_key(deb_lock(deb("python3.14-minimal")))


def test_a_base_with_half_a_python_names_the_missing_package() -> None:
    with pytest.raises(LockError, match=r"lacks libpython3\.13-stdlib"):
        python_key(without(deb_lock(), "libpython3.13-stdlib"))


def test_hosts_compile_for_another_architecture_of_the_same_python() -> None:
    check_same_python(deb_lock(arch="arm64"), deb_lock(arch="amd64"))


def test_a_host_with_another_python_is_refused_with_both_versions() -> None:
    """Of 5,754 files 2,688 had other bytecode under 3.13.0 than under 3.13.5."""
    host = deb_lock(*(deb(name, "3.13.6-1") for name in COMPILER))

    with pytest.raises(LockError, match=r"(?s)3\.13\.5-2.*3\.13\.6-1") as caught:
        check_same_python(deb_lock(arch="arm64"), host)

    assert "invoke lock" in caught.value.hint


@pytest.mark.parametrize("platform", [ARM64, Platform("darwin", "amd64")])
def test_a_lock_of_another_machine_is_refused(platform: Platform, store: Store) -> None:
    with pytest.raises(LockError, match=f"does not run on {platform}"):
        image_python(store, deb_lock(arch="amd64"), platform)


def test_the_python_of_the_debs_compiles(store: Store, tmp_path: Path) -> None:
    """Loader, library path, PYTHONHOME: the two shell scripts refuse to go on if one is wrong."""
    python = image_python(store, tiny_base(store, tmp_path), AMD64)

    [(path, pyc)] = compile_sources([("opt/a.py", b"x = 1")], python, workers=1, stop=lambda: False)

    assert path == "opt/__pycache__/a.cpython-313.pyc"
    assert b"/opt/a.py" in pyc


def test_only_what_python_needs_is_unpacked(store: Store, tmp_path: Path) -> None:
    root = image_python(store, tiny_base(store, tmp_path), AMD64).root

    assert sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()) == [
        "usr/bin/python3.13",
        "usr/lib/python3.13/json/decoder.py",
        "usr/lib/python3.13/os.py",
        "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
    ]


def test_the_environment_is_closed_and_nothing_of_it_is_the_hosts(store: Store, tmp_path: Path) -> None:
    python = image_python(store, tiny_base(store, tmp_path), AMD64)

    assert sorted(python.env) == ["PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONHOME"]
    assert all(
        str(python.root) in text for text in (python.argv[0], python.argv[-1], python.env["PYTHONHOME"])
    )


def test_a_tree_is_unpacked_once(store: Store, tmp_path: Path) -> None:
    """The second time the debs are not even there."""
    lock = tiny_base(store, tmp_path)
    first = image_python(store, lock, AMD64)
    for path in (store.root / "inputs").iterdir():
        path.unlink()

    assert image_python(store, lock, AMD64) == first


def test_other_debs_are_another_tree(store: Store, tmp_path: Path) -> None:
    first = image_python(store, tiny_base(store, tmp_path), AMD64)
    newer = {"libpython3.13-stdlib": {"usr/lib/python3.13/json/decoder.py": "x = 3\n"}}
    second = image_python(store, tiny_base(store, tmp_path, extra=newer), AMD64)

    assert trees(store) == sorted([first.root, second.root])


def test_two_threads_that_unpack_at_once_get_one_tree(store: Store, tmp_path: Path) -> None:
    lock = tiny_base(store, tmp_path)

    with ThreadPoolExecutor(4) as pool:
        pythons = list(pool.map(lambda _: image_python(store, lock, AMD64), range(4)))

    assert len({python.root for python in pythons}) == 1
    assert trees(store) == [pythons[0].root]
    assert not list((store.root / "tmp").iterdir())


def test_a_deb_that_does_not_fit_leaves_no_tree(store: Store, tmp_path: Path) -> None:
    twice = {"libexpat1": {"usr/bin/python3.13": "another"}}
    lock = tiny_base(store, tmp_path, extra=twice)

    with pytest.raises(InputError, match=r"python3\.13-minimal=3\.13\.5-2: usr/bin/python3\.13"):
        image_python(store, lock, AMD64)

    assert trees(store) == []
    assert not list((store.root / "tmp").iterdir())


def test_the_standard_library_is_sorted_over_all_debs(tmp_path: Path) -> None:
    archives = [
        archive(tmp_path, "two", {"usr/lib/python3.13/b.py": "b", "usr/lib/python3.13/a/z.py": "z"}),
        archive(tmp_path, "one", {"usr/lib/python3.13/a/a.py": "a", "usr/lib/python3.13/c.py": "c"}),
    ]

    assert list(stdlib_sources(archives)) == [
        ("usr/lib/python3.13/a/a.py", b"a"),
        ("usr/lib/python3.13/a/z.py", b"z"),
        ("usr/lib/python3.13/b.py", b"b"),
        ("usr/lib/python3.13/c.py", b"c"),
    ]


def test_only_python_files_of_the_standard_library_are_its_sources(tmp_path: Path) -> None:
    files = {
        "usr/lib/python3.13/data.txt": "",
        "usr/lib/python3/dist-packages/x.py": "",
        "usr/share/python3.13/y.py": "",
        "etc/python3.13/sitecustomize.py": "",
    }

    assert list(stdlib_sources([archive(tmp_path, "other", files)])) == []


def test_a_link_into_etc_is_no_source_since_users_edit_what_it_leads_to(tmp_path: Path) -> None:
    links = {"usr/lib/python3.13/sitecustomize.py": "/etc/python3.13/sitecustomize.py"}
    path = build_deb(tmp_path, "linked", "1", symlinks=links)

    assert list(stdlib_sources([DebArchive(path, name="linked", version="1")])) == []


def archive(folder: Path, name: str, files: Mapping[str, str]) -> DebArchive:
    return DebArchive(build_deb(folder, name, "1", files=files), name=name, version="1")
