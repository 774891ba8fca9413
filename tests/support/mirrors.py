"""The real Debian mirror of this machine, and whether it still has what is locked."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.engines import SETTINGS
from tests.support.project import ROOT
from trainyard.debian.archive import DebArchive
from trainyard.debian.mirror import fetch_deb, mirror_parent, read_apt_sources
from trainyard.debian.release import LIMIT
from trainyard.digest import sha256_hex
from trainyard.download import Downloader
from trainyard.errors import GoneError
from trainyard.lock.model import DebLock, parse_deb_lock
from trainyard.matrix.load import load_matrix
from trainyard.matrix.model import Base
from trainyard.paths import Project
from trainyard.settings import settings_from
from trainyard.store import Store

PROJECT = Project(ROOT)
BASES = load_matrix(PROJECT.matrix).bases


def mirror() -> str:
    """The parent of `debian/` and `debian-security/`."""
    setting = os.environ.get("TRAINYARD_DEBIAN_MIRROR")
    return mirror_parent(matrix=None, setting=setting, apt_sources=read_apt_sources())


def committed_lock(base: str, arch: str) -> DebLock:
    """A base's lock as it is in git."""
    path = PROJECT.deb_lock(base, arch)
    return parse_deb_lock(path.read_text("utf-8"), source=path.name)


def share_debs(base: str, arch: str, cache: Path) -> None:
    """Link the locked debs that this machine's own store has into another cache, which need not fetch them."""
    store, other = Store(SETTINGS.cache), Store(cache)
    for deb in committed_lock(base, arch).debs:
        if store.input(deb.sha256).is_file():
            other.input(deb.sha256).parent.mkdir(parents=True, exist_ok=True)
            os.link(store.input(deb.sha256), other.input(deb.sha256))


def locked_debs(base: str, arch: str, *, wanted: str = "") -> list[DebArchive]:
    """The locked packages whose name contains `wanted`, from this machine's store or the mirror."""
    store = Store(settings_from(os.environ, home=Path.home(), cores=2).cache)
    lock = committed_lock(base, arch)
    found = []
    for deb in (deb for deb in lock.debs if wanted in deb.name):
        path = store.input(deb.sha256)
        if not path.exists():
            fetch_deb(
                Downloader(os.environ), deb, path, mirror=mirror(), snapshot=mirror(), time=lock.snapshot
            )
        found.append(DebArchive(path, name=deb.name, version=deb.version))
    return found


def why_gone(name: str) -> str:
    """Why the locked packages of a testing suite cannot be had here, as a reason to skip; "" if they can.

    A stable suite has only its locked packages to give, so there their absence is no reason.
    """
    base: Base = BASES[name]
    if not base.allow_expired:
        return ""
    try:
        document = Downloader(os.environ).read(f"{mirror()}debian/dists/{base.suite}/InRelease", limit=LIMIT)
    except GoneError:
        return f"this host's mirror has no {base.suite}"
    if sha256_hex(document) in {release.sha256 for release in committed_lock(name, "amd64").releases}:
        return ""
    return f"this host's mirror has moved on from the {name} that is locked"
