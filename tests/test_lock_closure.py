"""A lock against its wheels' own metadata: what is missing, too old, or wanted by nobody is told."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.support.locks import AMD64, ARM64, target, wheel, wheel_lock
from tests.support.wheels import build_wheel, locked
from trainyard.errors import InputError
from trainyard.lock.closure import closure_problems, needs_in, parse_needs
from trainyard.lock.model import LockedWheel
from trainyard.platforms import Platform
from trainyard.store import Store


def problems(
    *requirements: str,
    wheels: dict[str, tuple[str, ...]],
    platform: Platform = AMD64,
    python: str = "",
    overrides: tuple[str, ...] = (),
) -> list[str]:
    """Problems of a lock of these `name==version` with those Requires-Dist; `python` is every Requires-Python."""
    made = {tuple(pin.split("==")): needed for pin, needed in wheels.items()}
    lock = wheel_lock(*(wheel(name, version) for name, version in made), platform=platform)

    def needs(one: LockedWheel) -> object:
        lines = [f"Requires-Dist: {text}" for text in made[one.name, one.version]]
        return parse_needs(
            "\n".join([f"Requires-Python: {python}" if python else "X: y", *lines, ""]).encode()
        )

    wanted = target(requirements=requirements, overrides=overrides)
    return list(closure_problems(wanted, lock, needs))  # type: ignore[arg-type]


def test_a_closed_lock_has_no_problem() -> None:
    wheels = {
        "torch==2.15.0": ("numpy>=2", "sympy (>1.0)"),
        "numpy==2.5": (),
        "sympy==1.14": ("mpmath<2",),
        "mpmath==1.3": (),
    }

    assert problems("torch==2.15.0", wheels=wheels) == []


def test_a_dependency_that_is_not_locked_is_named_with_who_needs_it() -> None:
    assert problems("torch", wheels={"torch==2": ("numpy>=2",)}) == [
        "torch needs numpy>=2, and it is not locked"
    ]


def test_a_dependency_of_the_wrong_version_is_named() -> None:
    wheels = {"torch==2": ("numpy>=2",), "numpy==1.9": ()}

    assert problems("torch", wheels=wheels) == ["torch needs numpy>=2, and 1.9 is locked"]


def test_a_requirement_of_the_matrix_is_one_too() -> None:
    assert problems("torch==3", wheels={"torch==2": ()}) == ["matrix.yaml needs torch==3, and 2 is locked"]


def test_an_override_stands_for_what_a_wheel_asks_for() -> None:
    wheels = {
        "torch==2": ("rocm[all]==10.0.*",),
        "rocm==10.0.1": ("one; extra == 'one'", "one; extra == 'all'", "two; extra == 'all'"),
        "one==1": (),
    }

    assert problems("torch", wheels=wheels) == ['rocm needs two; extra == "all", and it is not locked']
    assert problems("torch", wheels=wheels, overrides=("rocm[one]==10.0.*",)) == []


def test_a_wheel_that_nothing_needs_is_named() -> None:
    assert problems("a", wheels={"a==1": (), "b==1": ()}) == ["nothing needs b"]


def test_a_dependency_of_another_platform_need_not_be_locked() -> None:
    needed = ("x; sys_platform == 'win32'", "y; platform_machine == 'aarch64'", "z; python_version < '3.13'")

    assert problems("a", wheels={"a==1": needed}) == []
    assert problems("a", wheels={"a==1": needed}, platform=ARM64) == [
        'a needs y; platform_machine == "aarch64", and it is not locked'
    ]


def test_a_dependency_of_an_extra_counts_only_where_the_extra_is_asked_for() -> None:
    wheels = {"a==1": ("b; extra == 'fast'",), "b==1": ()}

    assert problems("a[fast]", wheels=wheels) == []
    assert problems("a", wheels=wheels) == ["nothing needs b"]


def test_an_extra_asked_for_by_a_dependency_counts_too() -> None:
    wheels = {
        "a==1": ("toolkit[blas,fft]",),
        "toolkit==1": ("x; extra == 'blas'", "y; extra == 'fft'"),
        "x==1": (),
    }

    assert problems("a", wheels=wheels) == ['toolkit needs y; extra == "fft", and it is not locked']


def test_packages_that_need_each_other_end() -> None:
    assert problems("a", wheels={"a==1": ("b",), "b==1": ("a",)}) == []


def test_a_wheel_for_another_python_is_named() -> None:
    assert problems("a", wheels={"a==1": ()}, python=">=3.14") == [
        "a 1 needs Python >=3.14, and the image has 3.13"
    ]


def test_metadata_is_read_from_the_wheel_in_the_store(tmp_path: Path, store: Store) -> None:
    path = build_wheel(
        tmp_path, requires=["numpy>=2", "x; extra == 'all'"], extra_metadata="Requires-Python: >=3.9"
    )
    one = locked(path)
    store.input(one.sha256).parent.mkdir(parents=True)
    path.rename(store.input(one.sha256))

    found = needs_in(store)(one)

    assert [str(text) for text in found.requires] == ["numpy>=2", 'x; extra == "all"']
    assert str(found.python) == ">=3.9"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "0 .dist-info folders with METADATA"),
        ({"a.dist-info/METADATA": b"", "b.dist-info/METADATA": b""}, "2 .dist-info folders"),
        ({"a.dist-info/METADATA": b"Requires-Dist: ((\n"}, "Expected package name"),
        ({"a.dist-info/METADATA": b"Requires-Python: three\n"}, "Invalid specifier"),
        ({"a.dist-info/METADATA": b" " * (8 << 20) + b"xx"}, "METADATA of more than"),
        (None, "not a zip file"),
    ],
)
def test_a_wheel_without_readable_metadata_is_named(
    store: Store, content: dict[str, bytes] | None, said: str
) -> None:
    one = wheel("demo")
    path = store.input(one.sha256)
    path.parent.mkdir(parents=True)
    if content is None:
        path.write_bytes(b"not a zip")
    else:
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in content.items():
                archive.writestr(name, data)

    with pytest.raises(InputError, match=r"demo 1\.0: demo-1\.0-py3-none-any\.whl") as caught:
        needs_in(store)(one)

    assert said in caught.value.message


def test_a_wheel_that_is_not_there_is_named(store: Store) -> None:
    with pytest.raises(InputError, match="demo"):
        needs_in(store)(wheel("demo"))
