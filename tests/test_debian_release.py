"""A Release file is believed only as far as it is the one that was asked for, and still valid."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from trainyard.debian.release import SuiteIndex, parse_release, suites_of
from trainyard.errors import InputError

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
NAME = "main/binary-amd64/Packages.xz"
INDEX, OTHER = "a" * 64, "b" * 64
TEXT = f"""\
Origin: Debian
Suite: stable-updates
Codename: trixie-updates
Date: Sat, 28 Nov 2026 14:09:31 UTC
Valid-Until: Sat, 05 Dec 2026 14:09:31 UTC
Acquire-By-Hash: yes
MD5Sum:
 {"c" * 32} 999 main/binary-amd64/Packages.xz
SHA256:
 {OTHER} 57 contrib/binary-amd64/Packages.xz
 {INDEX} 1108 main/binary-amd64/Packages.xz
 {OTHER} 2351 main/binary-amd64/Packages
"""


def parse(
    text: str = TEXT,
    *,
    suite: str = "trixie-updates",
    arch: str = "amd64",
    now: datetime = NOW,
    allow_expired: bool = False,
) -> SuiteIndex:
    return parse_release(
        text,
        archive="debian",
        suite=suite,
        arch=arch,
        signers=("F1", "F2"),
        sha256="d" * 64,
        now=now,
        allow_expired=allow_expired,
    )


def test_the_index_of_main_is_found_under_its_hash() -> None:
    index = parse().index

    assert index.path == f"debian/dists/trixie-updates/main/binary-amd64/by-hash/SHA256/{INDEX}"
    assert (index.sha256, index.size) == (INDEX, 1108)


def test_an_archive_without_hash_names_is_asked_by_plain_name() -> None:
    text = TEXT.replace("Acquire-By-Hash: yes\n", "")

    assert parse(text).index.path == "debian/dists/trixie-updates/main/binary-amd64/Packages.xz"


def test_what_the_lock_records_is_the_release_its_date_and_signers() -> None:
    release = parse().release

    assert (release.archive, release.suite) == ("debian", "trixie-updates")
    assert (release.sha256, release.date, release.signers) == ("d" * 64, "2026-11-28T14:09:31Z", ("F1", "F2"))


@pytest.mark.parametrize("suite", ["trixie-updates", "stable-updates"])
def test_codename_and_suite_are_both_names_of_a_suite(suite: str) -> None:
    assert parse(suite=suite).release.suite == suite


def test_another_suite_than_the_one_asked_for_is_refused() -> None:
    with pytest.raises(InputError, match="InRelease of debian trixie is for Codename 'trixie-updates'"):
        parse(suite="trixie")


def test_an_old_release_played_back_after_its_time_is_refused() -> None:
    with pytest.raises(InputError, match="was valid until Sat, 05 Dec 2026 14:09:31 UTC"):
        parse(now=datetime(2026, 12, 5, 14, 9, 32, tzinfo=UTC))


def test_a_release_is_valid_to_its_last_second() -> None:
    assert parse(now=datetime(2026, 12, 5, 14, 9, 31, tzinfo=UTC))


def test_the_refusal_names_the_key_of_matrix_yaml_that_accepts_it() -> None:
    with pytest.raises(InputError) as caught:
        parse(now=datetime(2026, 12, 6, tzinfo=UTC))

    assert "`allow_expired: true` of the base in matrix.yaml" in caught.value.hint


def test_an_expired_release_that_is_allowed_records_when_it_expired() -> None:
    late = datetime(2026, 12, 6, tzinfo=UTC)

    assert parse(now=late, allow_expired=True).release.expired == "2026-12-05T14:09:31Z"
    assert parse(allow_expired=True).release.expired == ""


def test_an_unreadable_term_is_refused_although_an_expired_one_is_allowed() -> None:
    text = TEXT.replace("Valid-Until: Sat, 05 Dec 2026 14:09:31 UTC", "Valid-Until: soon")

    with pytest.raises(InputError, match="no readable Valid-Until"):
        parse(text, allow_expired=True)


def test_a_stable_release_has_no_end() -> None:
    lines = [line for line in TEXT.splitlines() if not line.startswith("Valid-Until")]

    assert parse("\n".join(lines), now=datetime(2036, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("field", ["Date", "Valid-Until"])
@pytest.mark.parametrize("value", ["", "yesterday", "2026-11-28"])
def test_an_unreadable_date_is_refused(field: str, value: str) -> None:
    lines = [f"{field}: {value}" if line.startswith(f"{field}:") else line for line in TEXT.splitlines()]

    with pytest.raises(InputError, match=f"no readable {field}"):
        parse("\n".join(lines))


def test_dates_in_other_zones_are_recorded_in_utc() -> None:
    assert parse(TEXT.replace("14:09:31 UTC", "14:09:31 +0200")).release.date == "2026-11-28T12:09:31Z"


def test_an_architecture_that_is_not_published_is_named() -> None:
    with pytest.raises(InputError, match="not published for arm64"):
        parse(arch="arm64")


@pytest.mark.parametrize("line", [f" {INDEX} 1108", f" {INDEX[1:]} 1108 {NAME}", f" {INDEX} x {NAME}"])
def test_a_malformed_checksum_line_vouches_for_nothing(line: str) -> None:
    text = TEXT.replace(f" {INDEX} 1108 main/binary-amd64/Packages.xz", line)

    with pytest.raises(InputError, match=f"has no {re.escape(NAME)}"):
        parse(text)


def test_md5_vouches_for_nothing() -> None:
    with pytest.raises(InputError, match=f"has no {re.escape(NAME)}"):
        parse(TEXT.partition("SHA256:")[0])


def test_a_debian_release_is_its_suite_the_updates_and_security() -> None:
    assert suites_of("trixie") == (
        ("debian", "trixie"),
        ("debian", "trixie-updates"),
        ("debian-security", "trixie-security"),
    )
