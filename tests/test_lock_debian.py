"""A base locked against a tiny signed archive, end to end: gpg, gpgv, HTTP, xz and real .debs."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.archive import DebianArchive, SigningKey, new_key, signing_home
from tests.support.debs import build_deb
from trainyard.debian.signature import DEBIAN_KEYS, TrustedKeys
from trainyard.download import Downloader
from trainyard.errors import InputError, LockError
from trainyard.lock.debian import Review, deb_inputs, lock_base, render_deb_lock
from trainyard.lock.environment import environment_of
from trainyard.lock.freshness import stale_deb_reasons
from trainyard.lock.model import DebLock, LockedDeb, parse_deb_lock
from trainyard.matrix.load import load_matrix
from trainyard.matrix.model import Base
from trainyard.paths import Project
from trainyard.platforms import Platform
from trainyard.store import Store

pytestmark = pytest.mark.skipif(shutil.which("gpg") is None, reason="no gpg on this host")
PROJECT = Project(Path(__file__).parents[1])
NOW = datetime(2026, 12, 1, tzinfo=UTC)
BASE = Base(
    suite="trixie",
    python="3.13",
    packages=["python3.13", "tini"],
    snapshot="https://snapshot.example/archive",
)


@pytest.fixture(scope="module")
def key() -> Iterator[SigningKey]:
    with signing_home() as home:
        yield new_key(home, "archive")


@pytest.fixture
def archive(tmp_path: Path, key: SigningKey) -> DebianArchive:
    debs = [
        build_deb(tmp_path / "debs", "base-files", "13", essential=True, architecture="all"),
        build_deb(tmp_path / "debs", "python3.13", "3.13.5-2", depends="libc6 (>= 2.38)"),
        build_deb(tmp_path / "debs", "libc6", "2.41-12"),
        build_deb(tmp_path / "debs", "tini", "0.19.0-3"),
        build_deb(tmp_path / "debs", "unwanted", "1"),
    ]
    made = DebianArchive(root=tmp_path / "www", key=key)
    made.publish_release("trixie", debs)
    return made


def lock(
    archive: DebianArchive,
    folder: Path,
    *,
    base: Base = BASE,
    arch: str = "amd64",
    review: Review | None = None,
    keys: TrustedKeys | None = None,
    before: DebLock | None = None,
) -> DebLock:
    with archive.served() as server:
        return lock_base(
            "trixie",
            base,
            arch,
            downloader=Downloader({}, backoff=0.001),
            mirror=f"{server.url}/",
            store=Store(folder / "store"),
            now=NOW,
            keys=keys or archive.key.trusted,
            review=review,
            before=before,
        )


def test_the_closure_is_locked_with_hash_size_and_path(archive: DebianArchive, tmp_path: Path) -> None:
    made = lock(archive, tmp_path)
    tini = (tmp_path / "debs" / "tini_0.19.0-3_amd64.deb").read_bytes()

    assert [deb.name for deb in made.debs] == ["base-files", "libc6", "python3.13", "tini"]
    assert made.deb("tini") == LockedDeb(
        name="tini",
        version="0.19.0-3",
        sha256=hashlib.sha256(tini).hexdigest(),
        size=len(tini),
        path="debian/pool/main/t/tini/tini_0.19.0-3_amd64.deb",
    )


def test_every_suite_is_recorded_with_the_hash_of_what_was_signed(
    archive: DebianArchive, tmp_path: Path
) -> None:
    made = lock(archive, tmp_path)
    signed = (archive.root / "debian-security/dists/trixie-security/InRelease").read_bytes()

    assert [(release.archive, release.suite) for release in made.releases] == [
        ("debian", "trixie"),
        ("debian", "trixie-updates"),
        ("debian-security", "trixie-security"),
    ]
    assert made.releases[2].sha256 == hashlib.sha256(signed).hexdigest()
    assert made.releases[2].signers == (archive.key.fingerprint,)


def test_the_snapshot_is_the_newest_release(archive: DebianArchive, tmp_path: Path) -> None:
    archive.publish("debian-security", "trixie-security", fields={"Date": "Sun, 29 Nov 2026 00:53:14 UTC"})

    assert lock(archive, tmp_path).snapshot == "2026-11-29T00:53:14Z"


def test_a_security_update_wins_over_the_release(archive: DebianArchive, tmp_path: Path) -> None:
    fixed = build_deb(tmp_path / "debs", "libc6", "2.41-12+deb13u1")
    archive.publish("debian-security", "trixie-security", [fixed])

    found = lock(archive, tmp_path).deb("libc6")

    assert found is not None
    assert found.path == "debian-security/pool/main/l/libc6/libc6_2.41-12+deb13u1_amd64.deb"


def test_the_same_archive_gives_the_same_bytes_from_an_empty_and_a_full_store(
    archive: DebianArchive, tmp_path: Path
) -> None:
    texts = [render_deb_lock(PROJECT, lock(archive, tmp_path / name)) for name in ("a", "a", "b")]

    assert texts[0] == texts[1] == texts[2]


def test_the_text_reads_back_as_the_same_lock(archive: DebianArchive, tmp_path: Path) -> None:
    made = lock(archive, tmp_path)

    assert parse_deb_lock(render_deb_lock(PROJECT, made), source="x") == made


def test_the_text_names_no_host(archive: DebianArchive, tmp_path: Path) -> None:
    text = render_deb_lock(PROJECT, lock(archive, tmp_path))

    assert "127.0.0.1" not in text
    assert "://" not in text
    assert text.endswith(".deb\n")
    assert "\n\n\n" not in text


def test_an_archive_signed_by_somebody_else_is_refused(archive: DebianArchive, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="InRelease of debian trixie is not signed by a key that we trust"):
        lock(archive, tmp_path, keys=DEBIAN_KEYS)


def test_an_index_other_than_the_signed_one_is_refused(archive: DebianArchive, tmp_path: Path) -> None:
    for path in (archive.root / "debian/dists/trixie").rglob("by-hash/*/*"):
        path.write_bytes(path.read_bytes()[::-1])

    with pytest.raises(InputError, match="it must have"):
        lock(archive, tmp_path)


def test_a_mirror_without_the_security_archive_is_told_what_is_missing(
    archive: DebianArchive, tmp_path: Path
) -> None:
    shutil.rmtree(archive.root / "debian-security")

    with pytest.raises(LockError, match="the mirror has no debian-security/dists/trixie-security"):
        lock(archive, tmp_path)


def test_a_release_past_its_time_is_refused(archive: DebianArchive, tmp_path: Path) -> None:
    archive.publish("debian", "trixie-updates", fields={"Valid-Until": "Mon, 30 Nov 2026 00:00:00 UTC"})

    with pytest.raises(InputError, match="InRelease of debian trixie-updates was valid until"):
        lock(archive, tmp_path)


TESTING = BASE.model_copy(update={"allow_expired": True})


@pytest.fixture
def stale(archive: DebianArchive) -> DebianArchive:
    """The archive, when its updates have expired, and nothing else has."""
    archive.publish("debian", "trixie-updates", fields={"Valid-Until": "Mon, 30 Nov 2026 00:00:00 UTC"})
    return archive


def test_a_base_that_allows_it_is_locked_from_an_expired_release_and_the_lock_says_so(
    stale: DebianArchive, tmp_path: Path
) -> None:
    made = lock(stale, tmp_path, base=TESTING)
    text = render_deb_lock(PROJECT, made)

    assert [(one.suite, one.expired) for one in made.expired] == [("trixie-updates", "2026-11-30T00:00:00Z")]
    assert "# expired: debian trixie-updates 2026-11-30T00:00:00Z\n" in text
    assert parse_deb_lock(text, source="x") == made


def test_leave_that_was_not_needed_leaves_no_trace(archive: DebianArchive, tmp_path: Path) -> None:
    texts = {render_deb_lock(PROJECT, lock(archive, tmp_path, base=base)) for base in (BASE, TESTING)}

    assert len(texts) == 1
    assert "expired" not in texts.pop()


def test_leave_to_expire_is_no_leave_to_be_signed_by_somebody_else(
    stale: DebianArchive, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="not signed by a key that we trust"):
        lock(stale, tmp_path, base=TESTING, keys=DEBIAN_KEYS)


def test_an_expired_release_older_than_the_locked_one_is_refused(
    stale: DebianArchive, tmp_path: Path
) -> None:
    made = lock(stale, tmp_path, base=TESTING)
    newer = [dataclasses.replace(one, date="2026-11-22T00:00:00Z") for one in made.releases]

    assert lock(stale, tmp_path, base=TESTING, before=made) == made
    with pytest.raises(
        InputError, match="trixie-updates is of 2026-11-21T09:15:44Z and has expired"
    ) as caught:
        lock(stale, tmp_path, base=TESTING, before=dataclasses.replace(made, releases=tuple(newer)))
    assert "invoke lock --upgrade" in caught.value.hint


def test_a_valid_release_older_than_the_locked_one_is_its_terms_business(
    archive: DebianArchive, tmp_path: Path
) -> None:
    made = lock(archive, tmp_path)
    newer = [dataclasses.replace(one, date="2026-11-22T00:00:00Z") for one in made.releases]

    assert lock(archive, tmp_path, before=dataclasses.replace(made, releases=tuple(newer))) == made


def test_an_unpublished_architecture_is_refused(archive: DebianArchive, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not published for arm64"):
        lock(archive, tmp_path, arch="arm64")


def test_a_base_whose_packages_bring_another_python_is_refused(
    archive: DebianArchive, tmp_path: Path
) -> None:
    base = BASE.model_copy(update={"python": "3.14"})

    with pytest.raises(LockError, match=r"says python 3\.14, and its packages do not bring python3\.14"):
        lock(archive, tmp_path, base=base)


def test_every_package_is_reviewed_once_with_its_verified_file(
    archive: DebianArchive, tmp_path: Path
) -> None:
    seen: list[tuple[str, str]] = []

    def review(deb: LockedDeb, path: Path) -> list[str]:
        assert hashlib.sha256(path.read_bytes()).hexdigest() == deb.sha256
        seen.append((deb.name, path.name))
        return []

    made = lock(archive, tmp_path, review=review)

    assert seen == [(deb.name, deb.sha256) for deb in made.debs]


def test_all_problems_of_all_reviews_are_told_with_who_wants_the_package(
    archive: DebianArchive, tmp_path: Path
) -> None:
    def review(deb: LockedDeb, _path: Path) -> list[str]:
        return (
            [f"{deb.name}: unreviewed postinst", f"{deb.name}: setuid"]
            if deb.name in ("libc6", "tini")
            else []
        )

    with pytest.raises(LockError) as caught:
        lock(archive, tmp_path, review=review)

    assert caught.value.message.splitlines()[1:] == [
        "  libc6: unreviewed postinst [python3.13 -> libc6]",
        "  libc6: setuid [python3.13 -> libc6]",
        "  tini: unreviewed postinst [tini]",
        "  tini: setuid [tini]",
    ]


def test_reviews_download_nothing_twice(archive: DebianArchive, tmp_path: Path) -> None:
    lock(archive, tmp_path, review=lambda _deb, _path: [])
    shutil.rmtree(archive.root / "debian/pool")

    assert lock(archive, tmp_path, review=lambda _deb, _path: [])


def test_inputs_change_with_each_thing_that_the_lock_is_resolved_from() -> None:
    changed = [
        deb_inputs("trixie", BASE, "amd64"),
        deb_inputs("other", BASE, "amd64"),
        deb_inputs("trixie", BASE, "arm64"),
        deb_inputs("trixie", BASE.model_copy(update={"suite": "forky"}), "amd64"),
        deb_inputs("trixie", BASE.model_copy(update={"python": "3.14"}), "amd64"),
        deb_inputs("trixie", BASE.model_copy(update={"packages": ["tini"]}), "amd64"),
    ]

    assert len(set(changed)) == len(changed)


def test_inputs_do_not_change_with_order_mirror_snapshot_or_leave_to_expire() -> None:
    other = BASE.model_copy(
        update={
            "packages": ["tini", "python3.13", "tini"],
            "mirror": "http://m/",
            "snapshot": "http://s/",
            "allow_expired": True,
        }
    )

    assert deb_inputs("trixie", other, "amd64") == deb_inputs("trixie", BASE, "amd64")


@pytest.mark.parametrize(("base", "arch"), [("trixie", "amd64"), ("trixie", "arm64"), ("forky", "amd64")])
def test_the_committed_lock_reads_and_has_what_an_image_needs(base: str, arch: str) -> None:
    path = PROJECT.deb_lock(base, arch)
    committed = parse_deb_lock(path.read_text("utf-8"), source=path.name)
    wanted = load_matrix(PROJECT.matrix).bases[base]

    assert committed.arch == arch
    assert stale_deb_reasons(base, wanted, arch, committed) == ()
    for name in (
        f"python{wanted.python}",
        f"python{wanted.python}-dev",
        "g++",
        "tini",
        "apt",
        "git",
        "ibverbs-providers",
        "base-files",
    ):
        assert committed.deb(name) is not None, name
    assert all(set(release.signers) <= DEBIAN_KEYS.fingerprints for release in committed.releases)
    assert render_deb_lock(PROJECT, dataclasses.replace(committed)) == path.read_text("utf-8")


@pytest.mark.parametrize(("base", "arch"), [("trixie", "amd64"), ("trixie", "arm64"), ("forky", "amd64")])
def test_wheels_are_chosen_for_the_glibc_that_the_base_has(base: str, arch: str) -> None:
    path = PROJECT.deb_lock(base, arch)
    libc = parse_deb_lock(path.read_text("utf-8"), source=path.name).deb("libc6")
    matrix = load_matrix(PROJECT.matrix)
    target = next(matrix.target(name) for name in sorted(matrix.targets) if matrix.targets[name].base == base)
    major, minor = environment_of(target, Platform("linux", arch)).system

    assert libc is not None
    assert libc.version.startswith(f"{major}.{minor}-")


def test_intels_driver_comes_with_the_compiler_that_it_loads_and_without_an_init_system() -> None:
    """libze-intel-gpu1 opens libigc at run time, and Depends on none."""
    path = PROJECT.deb_lock("forky", "amd64")
    names = {deb.name for deb in parse_deb_lock(path.read_text("utf-8"), source=path.name).debs}

    assert {
        "libze1",
        "libze-intel-gpu1",
        "libigc2",
        "libigdfcl2",
        "libigdgmm12",
        "ocl-icd-libopencl1",
    } <= names
    assert not {"systemd", "dbus", "libsystemd-shared"} & names
