"""Locked wheels and debs into the store: found again by hash, downloaded, verified, never half there."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from trainyard.debian.mirror import fetch_deb
from trainyard.digest import sha256_file
from trainyard.download import Downloader
from trainyard.errors import FetchError, GoneError, InputError, LockError, SpaceError, VanishedError
from trainyard.lock.environment import widest_environment
from trainyard.lock.model import DebLock, LockedDeb, LockedWheel, WheelLock
from trainyard.lock.resolve import wheel_filename
from trainyard.lock.routing import OwnIndex
from trainyard.lock.uv import Compilation, UnsolvableError, compile_pylock
from trainyard.settings import Settings
from trainyard.store import Store

DOWNLOADS = 4
# What must stay free beside the inputs: part files are renamed, not copied, so this is for everybody else.
MARGIN = 512 << 20
Input = LockedWheel | LockedDeb
T = TypeVar("T", LockedWheel, LockedDeb)


@dataclass(frozen=True, slots=True, kw_only=True)
class DebOrigin:
    """Parent URL of `debian/` and `debian-security/` (ending in `/`), and of the archive of the past."""

    mirror: str
    snapshot: str


def fetch_inputs(
    store: Store,
    *,
    wheels: Sequence[LockedWheel],
    debs: Sequence[LockedDeb],
    lock: WheelLock,
    deb_lock: DebLock,
    origin: DebOrigin,
    settings: Settings,
    index: OwnIndex | None = None,
    on_bytes: Callable[[int], object] | None = None,
) -> None:
    """Bring those wheels of `lock` and debs into the store; what is there already is left alone.

    `index` is where the target's companions come from. `on_bytes` is told the size of every chunk, from several
    threads. A run that was stopped goes on where it was. SpaceError before anything is fetched, VanishedError for
    a file that is no longer published, FetchError that says what is here already, InputError for other bytes than
    the locked ones.
    """
    missing_wheels = missing_inputs(store, wheels)
    missing_debs = missing_inputs(store, debs)
    if not missing_wheels and not missing_debs:
        return
    check_space(store, [*missing_wheels, *missing_debs])
    stop = threading.Event()
    downloader = Downloader(settings.environ, logins=settings.logins, stop=stop.is_set, on_bytes=on_bytes)
    try:
        urls = wheel_urls(lock, missing_wheels, settings, index) if missing_wheels else {}
        jobs = [
            (one.size, partial(_fetch_wheel, downloader, store, one, urls[one.sha256]))
            for one in missing_wheels
        ]
        jobs += [
            (one.size, partial(_fetch_deb, downloader, store, one, deb_lock, origin)) for one in missing_debs
        ]
        # Large ones first: the last to end is then a small one.
        _run([job for _, job in sorted(jobs, key=lambda job: -job[0])], stop)
    except VanishedError:
        raise
    except FetchError as error:
        raise FetchError(f"{error.message}; {_progress(store, [*wheels, *debs])}", hint=error.hint) from None


def missing_inputs(store: Store, items: Iterable[T]) -> list[T]:
    """Those that the store does not have, or has with another size than the locked one; each hash once."""
    found = {item.sha256: item for item in items if not _is_here(store, item)}
    return list(found.values())


def verify_input(store: Store, item: Input) -> None:
    """Hash a stored input again; InputError when it is damaged, and then it is removed from the store."""
    path = store.input(item.sha256)
    if sha256_file(path) == item.sha256:
        return
    path.unlink()
    raise InputError(
        f"{_label(item)} was damaged in the cache: {path} is not what it was when it arrived",
        hint="it is removed; run the same command again, and it is fetched again. Is the disk failing?",
    )


def check_space(store: Store, items: Sequence[Input]) -> None:
    """SpaceError unless the store's disk has room for these inputs and some more."""
    store.root.mkdir(parents=True, exist_ok=True)
    needed = sum(item.size - _part_size(store, item) for item in items) + MARGIN
    free = shutil.disk_usage(store.root).free
    if free < needed:
        raise SpaceError(
            f"{len(items)} inputs need {_megabytes(needed)} in {store.root}, and {_megabytes(free)} are free",
            hint="make room (`invoke clean`), or use another disk: TRAINYARD_CACHE=DIR invoke ...",
        )


def wheel_urls(
    lock: WheelLock, wheels: Sequence[LockedWheel], settings: Settings, index: OwnIndex | None = None
) -> Mapping[str, str]:
    """sha256 -> URL of those wheels of `lock`, looked up by uv: companions on `index`, others on the default one.

    VanishedError naming every wheel that its index has no more, or has with other bytes.
    """
    compilation = Compilation(
        requirements=[wheel.requirement for wheel in wheels],
        environment=widest_environment(lock),
        until=lock.until,
        index=index,
        dependencies=False,
    )
    try:
        pylock = compile_pylock(compilation, settings.environ)
    except UnsolvableError as error:
        gone = [wheel for wheel in wheels if wheel.requirement in error.message]
        raise _vanished(
            [f"{_label(wheel)}: the index has it no more" for wheel in gone], error.message
        ) from None
    offered = {
        wheel_filename(wheel): (wheel.hashes.get("sha256", ""), wheel.url)
        for package in pylock.packages
        for wheel in package.wheels or ()
        if wheel.url is not None
    }
    if lost := list(_lost(wheels, offered)):
        raise _vanished(lost, "")
    return {wheel.sha256: offered[wheel.filename][1] for wheel in wheels}


def _lost(wheels: Iterable[LockedWheel], offered: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """What is not offered under its file name; a hash that the index does not say is left to the download."""
    for wheel in wheels:
        if wheel.filename not in offered:
            yield f"{_label(wheel)}: the index has {wheel.filename} no more"
        elif offered[wheel.filename][0] not in ("", wheel.sha256):
            served = offered[wheel.filename][0]
            yield f"{_label(wheel)}: replaced on the index; locked sha256 {wheel.sha256}, served {served}"


def _vanished(lines: Sequence[str], reasoning: str) -> VanishedError:
    return VanishedError(
        "\n".join([*lines, *([reasoning] if reasoning and not lines else [])]),
        hint="choose other wheels: invoke lock --upgrade",
    )


def _run(jobs: Sequence[Callable[[], None]], stop: threading.Event) -> None:
    """All jobs on a few threads; the first failure, or Ctrl-C, stops the others between two chunks."""
    with ThreadPoolExecutor(DOWNLOADS) as pool:
        futures = [pool.submit(job) for job in jobs]
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _fetch_wheel(downloader: Downloader, store: Store, wheel: LockedWheel, url: str) -> None:
    try:
        downloader.fetch(url, store.input(wheel.sha256), sha256=wheel.sha256, size=wheel.size)
    except GoneError:
        raise _vanished(
            [f"{_label(wheel)}: the index lists {wheel.filename} and does not serve it"], ""
        ) from None
    except (FetchError, InputError) as error:
        raise type(error)(f"{_label(wheel)}: {error.message}", hint=error.hint) from None


def _fetch_deb(
    downloader: Downloader, store: Store, deb: LockedDeb, lock: DebLock, origin: DebOrigin
) -> None:
    target = store.input(deb.sha256)
    try:
        fetch_deb(downloader, deb, target, mirror=origin.mirror, snapshot=origin.snapshot, time=lock.snapshot)
    except LockError:
        raise
    except (FetchError, InputError) as error:
        raise type(error)(f"{_label(deb)}: {error.message}", hint=error.hint) from None


def _is_here(store: Store, item: Input) -> bool:
    try:
        return store.input(item.sha256).stat().st_size == item.size
    except FileNotFoundError:
        return False


def _part_size(store: Store, item: Input) -> int:
    part = store.input(item.sha256)
    try:
        return min(part.with_name(f"{part.name}.part").stat().st_size, item.size)
    except FileNotFoundError:
        return 0


def _progress(store: Store, items: Sequence[Input]) -> str:
    distinct = {item.sha256: item for item in items}.values()
    here = [item for item in distinct if _is_here(store, item)]
    have = sum(item.size for item in here) + sum(
        _part_size(store, item) for item in distinct if item not in here
    )
    return (
        f"{len(here)} of {len(distinct)} inputs are here, "
        f"{_megabytes(have)} of {_megabytes(sum(item.size for item in distinct))}"
    )


def _label(item: Input) -> str:
    return f"{item.name} {item.version}"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
