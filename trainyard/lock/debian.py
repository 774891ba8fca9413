"""A base of matrix.yaml to the lock of its Debian packages, and that lock to its text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import chain
from pathlib import Path

from trainyard.debian.index import Package, read_index
from trainyard.debian.mirror import mirror_url
from trainyard.debian.release import SuiteIndex, fetch_release, suites_of
from trainyard.debian.signature import DEBIAN_KEYS, TrustedKeys
from trainyard.debian.solve import Closure, solve
from trainyard.digest import canonical_json, sha256_hex
from trainyard.download import Downloader
from trainyard.errors import InputError, LockError
from trainyard.lock.model import FORMAT, DebLock, LockedDeb, Release
from trainyard.matrix.model import Base
from trainyard.paths import Project
from trainyard.store import Store
from trainyard.templates import render

DOWNLOADS = 4
Review = Callable[[LockedDeb, Path], list[str]]


def deb_inputs(base_name: str, base: Base, arch: str) -> str:
    """sha256 hex over everything in matrix.yaml that a base's lock is resolved from."""
    return sha256_hex(
        canonical_json(
            {
                "format": FORMAT,
                "base": base_name,
                "suite": base.suite,
                "python": base.python,
                "packages": sorted(set(base.packages)),
                "architecture": arch,
            }
        )
    )


def lock_base(
    base_name: str,
    base: Base,
    arch: str,
    *,
    downloader: Downloader,
    mirror: str,
    store: Store,
    now: datetime,
    keys: TrustedKeys = DEBIAN_KEYS,
    review: Review | None = None,
    before: DebLock | None = None,
) -> DebLock:
    """Resolve a base against the archive's present state; the same state gives the same lock.

    `mirror` is the parent URL of `debian/` and `debian-security/`, ending in `/`; `now` (UTC) is held against
    Valid-Until, and an expired Release that the base allows against the one of `before`. `review` is asked about
    every locked package, downloaded into the store and verified; the LockError lists all that it says.
    """
    suites = [
        fetch_release(
            downloader,
            mirror=mirror,
            archive=archive,
            suite=suite,
            arch=arch,
            keys=keys,
            now=now,
            allow_expired=base.allow_expired,
        )
        for archive, suite in suites_of(base.suite)
    ]
    _check_not_older([suite.release for suite in suites], before)
    indexes = chain.from_iterable(_index(suite, downloader, mirror, store) for suite in suites)
    closure = solve(indexes, base.packages, arch=arch)
    _check_python(base_name, base, closure)
    debs = tuple(
        LockedDeb(
            name=package.name,
            version=package.version,
            sha256=package.sha256,
            size=package.size,
            path=package.path,
        )
        for package in closure.packages
    )
    if review is not None:
        _fetch_all(debs, downloader, mirror, store)
        _check_reviews(debs, review, closure, store)
    return DebLock(
        base=base_name,
        arch=arch,
        snapshot=max(suite.release.date for suite in suites),
        inputs=deb_inputs(base_name, base, arch),
        releases=tuple(suite.release for suite in suites),
        debs=debs,
    )


def render_deb_lock(project: Project, lock: DebLock) -> str:
    """The text of `lockfiles/base/<base>.<arch>.txt`."""
    return render(project, "deb-lock.txt.j2", lock=lock, format=FORMAT)


def _index(suite: SuiteIndex, downloader: Downloader, mirror: str, store: Store) -> Iterator[Package]:
    """The packages of one suite: its index comes from the store, or from the mirror and then stays there."""
    index = suite.index
    path = store.input(index.sha256)
    if not path.is_file():
        downloader.fetch(mirror + index.path, path, sha256=index.sha256, size=index.size)
    return read_index(path, archive=suite.release.archive)


def _check_not_older(releases: Sequence[Release], before: DebLock | None) -> None:
    """A Release without a term could be played back for ever: never one older than what was locked already."""
    locked = {(one.archive, one.suite): one.date for one in before.releases} if before else {}
    for release in releases:
        known = locked.get((release.archive, release.suite), "")
        if release.expired and release.date < known:
            raise InputError(
                f"InRelease of {release.archive} {release.suite} is of {release.date} and has expired, and the "
                f"lock was made from a newer one, of {known}",
                hint="this mirror is behind: keep the lock, or TRAINYARD_DEBIAN_MIRROR=URL invoke lock --upgrade",
            )


def _check_python(base_name: str, base: Base, closure: Closure) -> None:
    """The base's Python is a fact of matrix.yaml that the packages must bear out."""
    name = f"python{base.python}"
    if all(package.name != name for package in closure.packages):
        raise LockError(
            f"base {base_name} says python {base.python}, and its packages do not bring {name}",
            hint=f"add {name} to `packages` of base {base_name} in matrix.yaml",
        )


def _fetch_all(debs: tuple[LockedDeb, ...], downloader: Downloader, mirror: str, store: Store) -> None:
    """Bring every package that is not there yet into the store."""
    missing = [deb for deb in debs if not store.input(deb.sha256).is_file()]

    def fetch(deb: LockedDeb) -> None:
        target = store.input(deb.sha256)
        downloader.fetch(mirror_url(mirror, deb), target, sha256=deb.sha256, size=deb.size)

    with ThreadPoolExecutor(DOWNLOADS) as pool:
        list(pool.map(fetch, missing))


def _check_reviews(debs: tuple[LockedDeb, ...], review: Review, closure: Closure, store: Store) -> None:
    found = [
        f"{problem} [{closure.chain(deb.name)}]"
        for deb in debs
        for problem in review(deb, store.input(deb.sha256))
    ]
    if found:
        raise LockError(
            "packages that cannot be unpacked without running their scripts:\n  " + "\n  ".join(found),
            hint="enter the scripts, reviewed, in trainyard/debian/, or leave the package out of matrix.yaml",
        )
