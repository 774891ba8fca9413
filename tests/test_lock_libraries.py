"""One name, one library: two wheels with the same one are told, private copies and extension modules are not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.locks import AMD64, wheel
from tests.support.plans import Yard
from tests.support.wheels import build_wheel
from trainyard.errors import InputError
from trainyard.lock.libraries import libraries_of_two, members_in
from trainyard.lock.model import parse_wheel_lock
from trainyard.paths import Project
from trainyard.settings import settings_from
from trainyard.store import Store


def found(**files: str) -> tuple[str, ...]:
    wheels = [wheel(name) for name in files]
    return libraries_of_two(wheels, lambda one: [files[one.name]])


def test_a_library_in_two_wheels_is_told_with_both_paths() -> None:
    assert found(a="nvidia/lib/libnccl.so.2", b="b/libs/libnccl.so.2") == (
        "libnccl.so.2 is in two wheels: a (nvidia/lib/libnccl.so.2), b (b/libs/libnccl.so.2)",
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a/libx.so.1", "b/libx.so.2"),
        ("a/lib.cpython-313-x86_64-linux-gnu.so", "b/lib.cpython-313-x86_64-linux-gnu.so"),
        ("a/libx.abi3.so", "b/libx.abi3.so"),
        ("a/libx.so.1", "triton/backends/nvidia/lib/libx.so.1"),
        ("a/libx.so.py", "b/libx.so.py"),
    ],
)
def test_other_versions_extension_modules_and_private_copies_are_not(one: str, other: str) -> None:
    assert found(a=one, b=other) == ()


def test_the_names_are_read_from_the_wheels_in_the_store(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    wheels = [
        yard.admit(build_wheel(tmp_path, name=name, files={f"{name}/libx.so.1": b"\x7fELF"}))
        for name in ("a", "b")
    ]

    assert libraries_of_two(wheels, members_in(yard.store)) == (
        "libx.so.1 is in two wheels: a (a/libx.so.1), b (b/libx.so.1)",
    )


def test_a_wheel_that_is_no_zip_is_named(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    path = tmp_path / "a-1.0-py3-none-any.whl"
    path.write_bytes(b"no zip")

    with pytest.raises(InputError, match=r"^a 1\.0: a-1\.0-py3-none-any\.whl is no wheel"):
        libraries_of_two([yard.admit(path)], members_in(yard.store))


@pytest.mark.real
def test_the_committed_wheels_share_no_library() -> None:
    project = Project(Path(__file__).parents[1])
    store = Store(settings_from(os.environ, home=Path.home(), cores=2).cache)
    path = project.wheel_lock("cuda13.2", AMD64)
    lock = parse_wheel_lock(path.read_text("utf-8"), source=path.name)
    if missing := [one.name for one in lock.wheels if not store.input(one.sha256).is_file()]:
        pytest.skip(f"{missing[0]} is not in the store: `invoke build` fetches it")

    assert libraries_of_two(lock.wheels, members_in(store)) == ()
