"""Where .debs come from: the mirror of choice, and the archive of the past when the mirror has moved on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import quote, urlsplit

from trainyard.download import Downloader
from trainyard.errors import FetchError, GoneError, LockError, VanishedError
from trainyard.lock.model import LockedDeb

ARCHIVES = ("debian", "debian-security")
_ONE_LINE = re.compile(r"deb\s+(?:\[[^\]]*\]\s*)?(\S+)\s")
_HINT = "name the folder that holds debian/ and debian-security/: TRAINYARD_DEBIAN_MIRROR=URL invoke lock"


def mirror_parent(*, matrix: str | None, setting: str | None, apt_sources: Mapping[str, str]) -> str:
    """The URL, ending in `/`, below which `debian/` and `debian-security/` lie.

    The first that says something: matrix.yaml, TRAINYARD_DEBIAN_MIRROR, the host's apt configuration
    (`apt_sources`: file name -> text; `.sources` are deb822, all others one-line lists: sources.list(5)).
    """
    for value, origin in ((matrix, "matrix.yaml"), (setting, "TRAINYARD_DEBIAN_MIRROR")):
        if value:
            return _parent(value, origin)
    parents: dict[str, set[str]] = {}
    for name in sorted(apt_sources):
        uris = _deb822_uris(apt_sources[name]) if name.endswith(".sources") else _list_uris(apt_sources[name])
        for uri in uris:
            parent, _, archive = uri.rstrip("/").rpartition("/")
            if archive in ARCHIVES and urlsplit(uri).scheme in ("http", "https"):
                parents.setdefault(f"{parent}/", set()).add(archive)
    for needed in (set(ARCHIVES), {"debian"}):
        for parent, archives in parents.items():
            if needed <= archives:
                return parent
    raise LockError("no Debian mirror is known: this host's apt sources name none", hint=_HINT)


def read_apt_sources(folder: Path = Path("/etc/apt")) -> dict[str, str]:
    """The host's apt sources as `mirror_parent` wants them; empty where there is no apt."""
    paths = [
        folder / "sources.list",
        *folder.glob("sources.list.d/*.list"),
        *folder.glob("sources.list.d/*.sources"),
    ]
    return {str(path): path.read_text("utf-8", errors="replace") for path in sorted(paths) if path.is_file()}


def mirror_url(mirror: str, deb: LockedDeb) -> str:
    """Where the mirror has (or had) that package; `mirror` is a parent URL that ends in `/`."""
    return mirror + quote(deb.path, safe="/+~")


def snapshot_urls(snapshot: str, deb: LockedDeb, *, time: str) -> tuple[str, ...]:
    """Where an archive of the past has that package; `time` is the lock's snapshot instant, RFC 3339 UTC.

    Such an archive answers with its last import before the instant asked for, which may be from before the
    Release itself was imported: so the day after is asked too.
    """
    archive, _, rest = deb.path.partition("/")
    instant = datetime.fromisoformat(time)
    stamps = (moment.strftime("%Y%m%dT%H%M%SZ") for moment in (instant, instant + timedelta(days=1)))
    return tuple(f"{snapshot.rstrip('/')}/{archive}/{stamp}/{quote(rest, safe='/+~')}" for stamp in stamps)


def fetch_deb(
    downloader: Downloader, deb: LockedDeb, target: Path, *, mirror: str, snapshot: str, time: str
) -> None:
    """Bring a locked package to `target`, verified; VanishedError when the mirror has it no more, nor a snapshot."""
    try:
        downloader.fetch(mirror_url(mirror, deb), target, sha256=deb.sha256, size=deb.size)
        return
    except GoneError:
        why = "has no such file"
    for url in snapshot_urls(snapshot, deb, time=time):
        try:
            downloader.fetch(url, target, sha256=deb.sha256, size=deb.size)
            return
        except GoneError:
            continue
        except FetchError as error:
            why = f"cannot be asked: {error.message}"
            break
    raise VanishedError(
        f"{deb.name} {deb.version} is no longer on the mirror, and the snapshot archive {why}",
        hint="lock the base again: invoke lock --upgrade",
    )


def _parent(url: str, origin: str) -> str:
    if urlsplit(url).scheme not in ("http", "https"):
        raise LockError(f"{origin}: the Debian mirror {url!r} is not an http or https URL", hint=_HINT)
    # People paste the mirror itself as readily as its parent.
    return url.rstrip("/").removesuffix("/debian") + "/"


def _deb822_uris(text: str) -> Iterator[str]:
    """URIs of the enabled stanzas with binary packages, in order."""
    for stanza in re.split(r"\n\s*\n", text):
        fields: dict[str, str] = {}
        key = ""
        for line in stanza.splitlines():
            if line.startswith("#"):
                continue
            if line[:1].isspace():
                fields[key] = f"{fields.get(key, '')} {line.strip()}"
            else:
                key, _, value = line.partition(":")
                key = key.strip().lower()
                fields[key] = value.strip()
        if "deb" in fields.get("types", "").split() and fields.get("enabled", "yes").lower() in (
            "yes",
            "true",
            "1",
        ):
            yield from fields.get("uris", "").split()


def _list_uris(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if match := _ONE_LINE.match(line.strip()):
            yield match[1]
