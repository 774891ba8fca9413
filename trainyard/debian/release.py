"""A suite's InRelease to a verified Release: who signed it, when, and which Packages.xz it vouches for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from trainyard.debian.signature import TrustedKeys, verify
from trainyard.digest import is_sha256, sha256_hex
from trainyard.download import Downloader
from trainyard.errors import GoneError, InputError, LockError
from trainyard.lock.model import Release

LIMIT = 16 << 20
COMPONENT = "main"
_RFC3339 = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """A Packages.xz: where it is below the mirror's parent, its bare sha256 hex and size in bytes."""

    path: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteIndex:
    """A verified suite: what the lock records of it, and its index of one architecture."""

    release: Release
    index: IndexFile


def suites_of(suite: str) -> tuple[tuple[str, str], ...]:
    """(archive, suite) of everything that makes up a Debian release."""
    return (("debian", suite), ("debian", f"{suite}-updates"), ("debian-security", f"{suite}-security"))


def fetch_release(
    downloader: Downloader,
    *,
    mirror: str,
    archive: str,
    suite: str,
    arch: str,
    keys: TrustedKeys,
    now: datetime,
    allow_expired: bool = False,
) -> SuiteIndex:
    """Fetch and verify `<archive>/dists/<suite>/InRelease`; `now` is compared with its Valid-Until."""
    what = f"InRelease of {archive} {suite}"
    try:
        document = downloader.read(f"{mirror}{archive}/dists/{suite}/InRelease", limit=LIMIT)
    except GoneError:
        raise LockError(
            f"the mirror has no {archive}/dists/{suite}",
            hint="one with debian/ and debian-security/ is needed: TRAINYARD_DEBIAN_MIRROR=URL invoke lock",
        ) from None
    signed = verify(document, keys, what=what)
    return parse_release(
        signed.text,
        archive=archive,
        suite=suite,
        arch=arch,
        signers=signed.signers,
        sha256=sha256_hex(document),
        now=now,
        allow_expired=allow_expired,
    )


def parse_release(
    text: str,
    *,
    archive: str,
    suite: str,
    arch: str,
    signers: tuple[str, ...],
    sha256: str,
    now: datetime,
    allow_expired: bool = False,
) -> SuiteIndex:
    """What a Release file says, held against what was asked for; InputError if it is another's or expired.

    With `allow_expired` the date that it was good until is recorded instead.
    """
    what = f"InRelease of {archive} {suite}"
    fields, files = _read(text)
    names = (fields.get("Codename", ""), fields.get("Suite", ""))
    if suite not in names:
        raise InputError(f"{what} is for Codename {names[0]!r}, Suite {names[1]!r}")
    date = _instant(fields, "Date", what)
    expired = _expired(fields, what, now)
    if expired and not allow_expired:
        raise InputError(
            f"{what} was valid until {fields['Valid-Until']}: this mirror is behind",
            hint="use another one: TRAINYARD_DEBIAN_MIRROR=URL invoke lock; correct this machine's clock; or accept "
            "it: `allow_expired: true` of the base in matrix.yaml (docs/troubleshooting.md, An expired Release)",
        )
    name = f"{COMPONENT}/binary-{arch}/Packages.xz"
    if name not in files:
        raise InputError(f"{what} has no {name}: the suite is not published for {arch}")
    digest, size = files[name]
    folder = f"{archive}/dists/{suite}"
    by_hash = fields.get("Acquire-By-Hash") == "yes"
    path = f"{COMPONENT}/binary-{arch}/by-hash/SHA256/{digest}" if by_hash else name
    return SuiteIndex(
        release=Release(
            archive=archive,
            suite=suite,
            sha256=sha256,
            date=date.strftime(_RFC3339),
            signers=signers,
            expired=expired,
        ),
        index=IndexFile(path=f"{folder}/{path}", sha256=digest, size=size),
    )


def _read(text: str) -> tuple[dict[str, str], dict[str, tuple[str, int]]]:
    """The fields of a Release file, and its SHA256 list as path -> (hash, size)."""
    fields: dict[str, str] = {}
    files: dict[str, tuple[str, int]] = {}
    key = ""
    for line in text.splitlines():
        if not line.startswith(" "):
            key, _, value = line.partition(":")
            fields[key] = value.strip()
        elif key == "SHA256":
            parts = line.split()
            if len(parts) == 3 and is_sha256(parts[0]) and parts[1].isdecimal():
                files[parts[2]] = (parts[0], int(parts[1]))
    return fields, files


def _expired(fields: dict[str, str], what: str, now: datetime) -> str:
    """The instant of a Valid-Until that has passed, RFC 3339; else nothing."""
    if "Valid-Until" not in fields:
        return ""
    until = _instant(fields, "Valid-Until", what)
    return until.strftime(_RFC3339) if until < now else ""


def _instant(fields: dict[str, str], name: str, what: str) -> datetime:
    try:
        moment = parsedate_to_datetime(fields.get(name, ""))
    except ValueError:
        raise InputError(f"{what} has no readable {name}: {fields.get(name)!r}") from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
