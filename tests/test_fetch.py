"""Locked inputs into the store, from a package index, a Debian mirror and a snapshot archive on loopback."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.support.locks import ARM64, deb_lock, wheel, wheel_lock
from tests.support.web import Reply, Request, Server, file_reply, folder, serve
from tests.support.wheelindex import served_index
from tests.support.wheels import build_wheel, locked
from trainyard.errors import FetchError, InputError, SpaceError, VanishedError
from trainyard.fetch import (
    MARGIN,
    DebOrigin,
    check_space,
    fetch_inputs,
    missing_inputs,
    verify_input,
    wheel_urls,
)
from trainyard.lock.model import LockedDeb, LockedWheel
from trainyard.settings import Settings, settings_from
from trainyard.store import Store

EARLY = "2026-06-01T00:00:00Z"


@dataclass(kw_only=True)
class World:
    """What is published, and a store to fetch it into."""

    root: Path
    store: Store
    wheels: dict[Path, str]
    mirror: Path
    snapshot: Path
    index: str = ""
    mirror_server: Server | None = None
    snapshot_server: Server | None = None

    def settings(self, **variables: str) -> Settings:
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            "XDG_CACHE_HOME": str(self.root / "uv"),
        }
        made = settings_from({**environ, "UV_DEFAULT_INDEX": self.index}, home=self.root, cores=2)
        return replace(made, environ={**made.environ, **variables})

    def publish(self, name: str, version: str = "1.0", tag: str = "py3-none-any") -> LockedWheel:
        path = build_wheel(self.root / "wheels", name=name, version=version, tag=tag)
        self.wheels[path] = EARLY
        return locked(path)

    def publish_deb(self, name: str, *, place: Path | None = None, content: bytes = b"") -> LockedDeb:
        data = content or f"the deb {name}".encode() * 1000
        path = f"debian/pool/main/{name[0]}/{name}/{name}_1.0-1_amd64.deb"
        file = (place or self.mirror) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        sha256 = hashlib.sha256(data).hexdigest()
        return LockedDeb(name=name, version="1.0-1", sha256=sha256, size=len(data), path=path)

    def fetch(self, *items: LockedWheel | LockedDeb, settings: Settings | None = None) -> int:
        """Fetch these, and say how many bytes came."""
        counted: list[int] = []
        wheels = [item for item in items if isinstance(item, LockedWheel)]
        debs = [item for item in items if isinstance(item, LockedDeb)]
        urls = [server.url if server else "" for server in (self.mirror_server, self.snapshot_server)]
        fetch_inputs(
            self.store,
            wheels=wheels,
            debs=debs,
            lock=wheel_lock(*wheels),
            deb_lock=deb_lock(*debs, snapshot="2026-11-30T20:15:00Z"),
            origin=DebOrigin(mirror=f"{urls[0]}/", snapshot=f"{urls[1]}/archive"),
            settings=settings or self.settings(),
            on_bytes=counted.append,
        )
        return sum(counted)

    def requests(self) -> list[str]:
        assert self.mirror_server
        assert self.snapshot_server
        return [one.path for server in (self.mirror_server, self.snapshot_server) for one in server.requests]


@pytest.fixture
def world(tmp_path: Path, store: Store) -> Iterator[World]:
    made = World(
        root=tmp_path, store=store, wheels={}, mirror=tmp_path / "mirror", snapshot=tmp_path / "past"
    )
    with ExitStack() as stack:
        made.index = stack.enter_context(served_index(made.wheels))
        made.mirror_server = stack.enter_context(serve(folder(made.mirror)))
        made.snapshot_server = stack.enter_context(serve(folder(made.snapshot)))
        yield made


@contextmanager
def listing(file: Path, *, serves: bytes | None) -> Iterator[str]:
    """An index that lists one wheel as it is and serves other bytes, or nothing."""
    one = locked(file)
    entry: dict[str, object] = {
        "filename": file.name,
        "url": f"/files/{file.name}",
        "hashes": {"sha256": one.sha256},
    }
    entry |= {"size": one.size, "upload-time": EARLY, "core-metadata": True}
    document = {"meta": {"api-version": "1.1"}, "name": one.name, "files": [entry], "versions": [one.version]}

    def respond(request: Request) -> Reply:
        if request.path.startswith("/simple/"):
            kind = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
            return Reply(body=json.dumps(document).encode(), headers=kind)
        if request.path.endswith(".metadata"):
            return Reply(body=f"Metadata-Version: 2.4\nName: {one.name}\nVersion: {one.version}\n".encode())
        return Reply(status=404) if serves is None else file_reply(serves, request)

    with serve(respond) as server:
        yield f"{server.url}/simple"


def stored(world: World, item: LockedWheel | LockedDeb) -> bytes:
    return world.store.input(item.sha256).read_bytes()


def test_wheels_are_found_again_by_hash_and_stored_read_only(world: World) -> None:
    demo, other = world.publish("demo"), world.publish("other", "2.0")

    assert world.fetch(demo, other) == demo.size + other.size
    for one in (demo, other):
        assert hashlib.sha256(stored(world, one)).hexdigest() == one.sha256
        assert world.store.input(one.sha256).stat().st_mode & 0o777 == 0o444


def test_the_locked_wheel_is_fetched_and_not_a_better_one(world: World) -> None:
    pure = world.publish("demo")
    world.publish("demo", tag="cp313-cp313-manylinux_2_28_x86_64")

    world.fetch(pure)

    assert len(stored(world, pure)) == pure.size


def test_debs_come_from_the_mirror(world: World) -> None:
    tini = world.publish_deb("tini")

    assert world.fetch(tini) == tini.size
    assert world.requests() == [f"/{tini.path}"]


def test_a_deb_that_the_mirror_dropped_comes_from_the_archive_of_the_past(world: World) -> None:
    past = world.snapshot / "archive/debian/20261130T201500Z"
    tini = world.publish_deb("tini")
    past.mkdir(parents=True)
    (world.mirror / "debian/pool").rename(past / "pool")

    world.fetch(tini)

    assert len(stored(world, tini)) == tini.size


def test_a_deb_that_nobody_has_is_named(world: World) -> None:
    tini = world.publish_deb("tini")
    (world.mirror / tini.path).unlink()

    with pytest.raises(VanishedError, match=r"tini 1\.0-1 is no longer on the mirror"):
        world.fetch(tini)


def test_what_is_here_is_not_fetched_again_and_needs_no_network(world: World) -> None:
    demo, tini = world.publish("demo"), world.publish_deb("tini")
    world.fetch(demo, tini)
    world.index = "http://127.0.0.1:9/simple"
    before = world.requests()

    assert world.fetch(demo, tini) == 0
    assert world.requests() == before


def test_only_what_is_missing_is_looked_up(world: World) -> None:
    demo, other = world.publish("demo"), world.publish("other")
    world.fetch(demo)
    world.wheels.pop(next(path for path in world.wheels if path.name == demo.filename))

    assert world.fetch(demo, other) == other.size


def test_an_input_asked_for_twice_is_fetched_once(world: World) -> None:
    tini = world.publish_deb("tini")

    assert world.fetch(tini, tini) == tini.size


@pytest.mark.parametrize("damage", [b"", b"short", b"x" * 100_000])
def test_an_input_of_the_wrong_size_is_fetched_again(world: World, damage: bytes) -> None:
    tini = world.publish_deb("tini")
    path = world.store.input(tini.sha256)
    path.parent.mkdir(parents=True)
    path.write_bytes(damage)

    assert world.fetch(tini) == tini.size
    assert len(stored(world, tini)) == tini.size


def test_a_run_that_was_stopped_goes_on_where_it_was(world: World) -> None:
    tini = world.publish_deb("tini")
    part = world.store.input(f"{tini.sha256}.part")
    part.parent.mkdir(parents=True)
    part.write_bytes((world.mirror / tini.path).read_bytes()[:4000])

    assert world.fetch(tini) == tini.size - 4000


def test_a_wheel_that_the_index_dropped_is_named(world: World) -> None:
    demo, other = world.publish("demo"), world.publish("other")
    world.wheels.clear()
    world.publish("other")

    with pytest.raises(VanishedError, match=r"^demo 1\.0: the index has it no more$") as caught:
        world.fetch(demo, other)

    assert "invoke lock --upgrade" in caught.value.hint


def test_of_a_version_that_stays_a_dropped_file_is_named(world: World) -> None:
    gone = replace(world.publish("demo"), filename="demo-1.0-cp313-cp313-linux_x86_64.whl", sha256="0" * 64)

    with pytest.raises(
        VanishedError, match=r"demo 1\.0: the index has demo-1\.0-cp313-cp313-linux_x86_64\.whl no more"
    ):
        world.fetch(gone)


def test_a_wheel_replaced_under_its_name_is_named_with_both_hashes(world: World) -> None:
    demo = world.publish("demo")
    old = replace(demo, sha256="a" * 64)

    with pytest.raises(VanishedError, match=f"locked sha256 {'a' * 64}, served {demo.sha256}"):
        world.fetch(old)

    assert missing_inputs(world.store, [old]) == [old]


def test_a_wheel_that_is_listed_and_not_served_is_named(world: World) -> None:
    demo = world.publish("demo")
    said = r"demo 1\.0: the index lists demo-1\.0-.*\.whl and does not serve it"
    with (
        listing(next(iter(world.wheels)), serves=None) as world.index,
        pytest.raises(VanishedError, match=said),
    ):
        world.fetch(demo)


def test_other_bytes_than_the_locked_ones_are_refused_by_name_and_leave_nothing(world: World) -> None:
    demo = world.publish("demo")
    path = next(iter(world.wheels))
    data, said = path.read_bytes()[::-1], r"^demo 1\.0: .* it must have"
    with listing(path, serves=data) as world.index, pytest.raises(InputError, match=said):
        world.fetch(demo)

    assert list((world.store.root / "inputs").iterdir()) == []


def test_a_damaged_deb_on_the_mirror_is_refused_by_name(world: World) -> None:
    tini = world.publish_deb("tini")
    (world.mirror / tini.path).write_bytes(b"y" * tini.size)

    with pytest.raises(InputError, match=r"^tini 1\.0-1: "):
        world.fetch(tini)


def test_without_a_network_it_says_what_was_asked_for_and_what_is_here(world: World) -> None:
    demo, tini = world.publish("demo"), world.publish_deb("tini", content=b"z" * 1_500_000)
    world.fetch(tini)
    world.index = "http://127.0.0.1:9/simple"

    with pytest.raises(FetchError) as caught:
        world.fetch(demo, tini, settings=world.settings(UV_HTTP_RETRIES="0"))

    assert "the package index cannot be reached" in caught.value.message
    assert "127.0.0.1:9/simple/demo" in caught.value.message
    assert caught.value.message.endswith("; 1 of 2 inputs are here, 1.5 MB of 1.5 MB")


def test_too_little_disk_is_said_before_anything_is_fetched(world: World) -> None:
    huge = replace(world.publish_deb("tini"), size=10**16)

    with pytest.raises(
        SpaceError, match=r"1 inputs need 10,000,000,\d{3}\.\d MB in .*store, and [\d,.]+ MB are free"
    ) as caught:
        world.fetch(huge)

    assert world.requests() == []
    assert "invoke clean" in caught.value.hint


def test_what_a_stopped_run_left_is_not_asked_of_the_disk_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = wheel("demo", size=1_000_000)
    part = store.input(f"{one.sha256}.part")
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * 999_000)
    usage = type("Usage", (), {"free": MARGIN + 1_000})
    monkeypatch.setattr("shutil.disk_usage", lambda _path: usage)

    check_space(store, [one])
    with pytest.raises(SpaceError):
        check_space(store, [one, wheel("other", size=2_000)])


def test_urls_are_looked_up_for_the_locks_platform(world: World) -> None:
    arm = world.publish("demo", tag="cp313-cp313-manylinux_2_28_aarch64")
    urls = wheel_urls(wheel_lock(arm, platform=ARM64), [arm], world.settings())

    assert urls[arm.sha256].endswith(f"/files/{arm.filename}")


def test_a_sound_input_verifies(world: World) -> None:
    tini = world.publish_deb("tini")
    world.fetch(tini)

    verify_input(world.store, tini)

    assert missing_inputs(world.store, [tini]) == []


def test_a_flipped_bit_is_found_named_and_removed(world: World) -> None:
    tini = world.publish_deb("tini")
    world.fetch(tini)
    path = world.store.input(tini.sha256)
    path.chmod(0o644)
    path.write_bytes(b"T" + path.read_bytes()[1:])

    with pytest.raises(InputError, match=r"tini 1\.0-1 was damaged in the cache"):
        verify_input(world.store, tini)

    assert missing_inputs(world.store, [tini]) == [tini]


def test_the_first_failure_stops_the_others_and_keeps_their_parts(world: World) -> None:
    """One download is refused while a slow one is under way: it ends soon, and what it had stays."""
    slow_data = os.urandom(3 << 20)
    slow = world.publish_deb("slow", content=slow_data)
    bad = world.publish_deb("bad", content=b"b" * 10)

    def respond(request: Request) -> Reply:
        if "bad" in request.path:
            time.sleep(0.3)
            return Reply(body=b"B" * 10)
        if request.headers.get("range"):
            time.sleep(5)
        return Reply(body=slow_data, cut=1 << 20)

    with serve(respond) as server:
        world.mirror_server = server
        start = time.monotonic()
        with pytest.raises(InputError, match=r"^bad"):
            world.fetch(slow, bad)

    assert world.store.input(f"{slow.sha256}.part").stat().st_size >= 1 << 19
    assert time.monotonic() - start < 40
