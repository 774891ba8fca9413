"""pip and pip-tools on a lock that uv made, under this host's Python in the place of the image's."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.support.locks import AMD64, target
from tests.support.wheelindex import served_index
from tests.support.wheels import build_wheel, locked
from trainyard.bytecode.python import ImagePython
from trainyard.errors import FetchError, LockError
from trainyard.lock.model import WheelLock, parse_wheel_lock
from trainyard.lock.opinions import pip_accepts, pip_compile_agrees, second_opinions
from trainyard.lock.render import render_wheel_lock
from trainyard.lock.resolve import resolve_wheels
from trainyard.matrix.model import Target
from trainyard.paths import Project
from trainyard.settings import settings_from
from trainyard.store import Store

PROJECT = Project(Path(__file__).parents[1])
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
PYTHON = ImagePython(root=Path(sys.prefix), version=VERSION, argv=(sys.executable,), env={})
EARLY, LATE, UNTIL = "2026-06-01T00:00:00Z", "2026-11-01T00:00:00Z", "2026-10-01T00:00:00Z"


@dataclass(kw_only=True)
class World:
    """A locked target, its wheels in a store, and the index that it came from."""

    root: Path
    store: Store
    wheels: dict[Path, str]
    index: str

    @property
    def environ(self) -> Mapping[str, str]:
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            "XDG_CACHE_HOME": str(self.root / "c"),
        }
        return {**variables, "UV_DEFAULT_INDEX": self.index}

    def publish(self, name: str, version: str, *requires: str, at: str = EARLY) -> None:
        self.wheels[build_wheel(self.root / "w", name=name, version=version, requires=requires)] = at

    def lock(self, *requirements: str) -> tuple[Target, WheelLock, Path]:
        base = target().debian[1].model_copy(update={"python": VERSION})
        wanted = target(requirements=requirements, base=base)
        settings = replace(settings_from({}, home=self.root, cores=2), environ=self.environ)
        made = resolve_wheels(wanted, AMD64, until=UNTIL, settings=settings)
        for path in self.wheels:
            place = self.store.input(locked(path).sha256)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
        return wanted, made, self.write(made)

    def write(self, lock: WheelLock) -> Path:
        path = self.root / "linux-amd64.txt"
        path.write_text(render_wheel_lock(PROJECT, lock), "utf-8")
        return path

    def accepts(self, lock: WheelLock) -> tuple[str, ...]:
        return pip_accepts(self.write(lock), lock, store=self.store, python=PYTHON, environ=self.environ)

    def agrees(self, wanted: Target, lock: WheelLock) -> tuple[str, ...]:
        return pip_compile_agrees(wanted, lock, store=self.store, python=PYTHON, environ=self.environ)


@pytest.fixture
def world(tmp_path: Path, store: Store) -> Iterator[World]:
    wheels: dict[Path, str] = {}
    with served_index(wheels) as url:
        made = World(root=tmp_path, store=store, wheels=wheels, index=url)
        made.publish("torch", "2.15.0", "numpy>=2", "win; sys_platform == 'win32'")
        made.publish("numpy", "2.5")
        made.publish("numpy", "2.6", at=LATE)
        yield made


def test_a_sound_lock_is_accepted_by_pip_from_the_store_alone(world: World) -> None:
    _, lock, path = world.lock("torch")

    assert (
        pip_accepts(
            path,
            lock,
            store=world.store,
            python=PYTHON,
            environ={**world.environ, "UV_DEFAULT_INDEX": "http://127.0.0.1:9"},
        )
        == ()
    )


def test_pip_misses_a_dependency_that_was_taken_out(world: World) -> None:
    _, lock, _ = world.lock("torch")
    shorter = replace(lock, wheels=tuple(one for one in lock.wheels if one.name != "numpy"))

    assert "numpy" in " ".join(world.accepts(shorter))


def test_pip_refuses_another_hash(world: World) -> None:
    _, lock, _ = world.lock("numpy")
    other = world.store.input("f" * 64)
    shutil.copy(world.store.input(lock.wheels[0].sha256), other)
    wrong = replace(lock, wheels=(replace(lock.wheels[0], sha256="f" * 64),))

    said = world.accepts(wrong)

    assert any("DO NOT MATCH THE HASHES" in line for line in said)
    assert all(line.startswith("pip: ") for line in said)
    assert str(world.store.root) not in " ".join(said)


def test_pip_refuses_a_version_that_a_dependency_excludes(world: World) -> None:
    world.publish("numpy", "1.0")
    _, lock, _ = world.lock("torch")
    old = next(locked(path) for path in world.wheels if path.name.startswith("numpy-1.0"))
    wrong = replace(lock, wheels=tuple(old if one.name == "numpy" else one for one in lock.wheels))

    assert "numpy" in " ".join(world.accepts(wrong))


def test_a_machines_pip_configuration_changes_nothing(world: World, tmp_path: Path) -> None:
    _, lock, path = world.lock("torch")
    constraint = tmp_path / "constraints.txt"
    constraint.write_text("numpy<2\n")
    config = tmp_path / ".config/pip/pip.conf"
    config.parent.mkdir(parents=True)
    config.write_text(f"[global]\nconstraint = {constraint}\n")

    assert pip_accepts(path, lock, store=world.store, python=PYTHON, environ=world.environ) == ()


def test_nothing_of_an_opinion_is_left_in_the_store(world: World) -> None:
    _, lock, _ = world.lock("torch")
    before = sorted(path.name for path in (world.store.root / "inputs").iterdir())

    world.accepts(lock)

    assert sorted(path.name for path in (world.store.root / "inputs").iterdir()) == before
    assert list((world.store.root / "tmp").iterdir()) == []


def test_a_python_of_another_version_is_not_asked(world: World) -> None:
    _, lock, path = world.lock("torch")
    other = replace(PYTHON, version="3.99")

    with pytest.raises(LockError, match=r"for Python 3\.\d+, and pip would run (in|under) 3\.99"):
        pip_accepts(path, lock, store=world.store, python=other, environ=world.environ)


@pytest.fixture
def ready(world: World) -> World:
    """A world whose index has the pip that the image brings, as this machine's cache has it."""
    path = PROJECT.wheel_lock("cuda13.2", AMD64)
    pip = parse_wheel_lock(path.read_text("utf-8"), source=path.name).wheel("pip")
    assert pip is not None
    found = Store(Path.home() / ".cache/trainyard").input(pip.sha256)
    if not found.is_file():
        pytest.skip("the locked pip is not in the cache: run `invoke build` once")
    world.wheels[Path(shutil.copy(found, world.root / pip.filename))] = EARLY
    return world


@pytest.mark.real
def test_pip_tools_comes_to_the_same_pins_up_to_the_same_day(ready: World) -> None:
    wanted, lock, _ = ready.lock("torch", "pip")
    numpy = lock.wheel("numpy")

    assert numpy is not None
    assert numpy.version == "2.5"
    assert ready.agrees(wanted, lock) == ()


@pytest.mark.real
def test_each_pin_on_which_they_differ_is_told(ready: World) -> None:
    wanted, lock, _ = ready.lock("torch", "pip")
    extra = replace(lock.wheels[0], name="zzz", version="9")
    moved = tuple(replace(one, version="2.4") if one.name == "numpy" else one for one in lock.wheels)
    less = tuple(one for one in moved if one.name != "torch")

    assert ready.agrees(wanted, replace(lock, wheels=(*less, extra))) == (
        "numpy: uv chose 2.4, pip-tools 2.5",
        "torch: uv chose none, pip-tools 2.15.0",
        "zzz: uv chose 9, pip-tools none",
    )


@pytest.mark.real
def test_an_index_that_is_not_there_is_no_disagreement(ready: World) -> None:
    wanted, lock, _ = ready.lock("torch", "pip")
    ready.index = "http://user:hunter2@127.0.0.1:9/simple"

    with pytest.raises(FetchError, match="pip-tools cannot reach the package index") as caught:
        ready.agrees(wanted, lock)

    assert "hunter2" not in caught.value.message


@pytest.mark.real
def test_what_pip_tools_cannot_resolve_is_told_with_its_reasons(ready: World) -> None:
    wanted, lock, _ = ready.lock("torch", "pip")
    impossible = wanted.model_copy(update={"requirements": ("torch", "numpy<2")})

    with pytest.raises(LockError, match="numpy"):
        ready.agrees(impossible, lock)


@pytest.mark.real
def test_all_opinions_on_a_sound_lock_are_silent(ready: World) -> None:
    wanted, lock, path = ready.lock("torch", "pip")

    assert (
        second_opinions(wanted, lock, lock_file=path, store=ready.store, python=PYTHON, environ=ready.environ)
        == ()
    )


def test_without_the_images_python_the_metadata_is_judged_all_the_same(world: World) -> None:
    wanted, lock, path = world.lock("torch")
    shorter = replace(lock, wheels=tuple(one for one in lock.wheels if one.name != "numpy"))

    assert second_opinions(
        wanted, shorter, lock_file=path, store=world.store, python=None, environ=world.environ
    ) == ("torch needs numpy>=2, and it is not locked",)
