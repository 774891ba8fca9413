"""Only the text that a trusted key signed comes out; real gpg signs, real gpgv verifies."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.archive import SigningKey, gpg, new_key, signing_home
from trainyard.debian.signature import DEBIAN_KEYS, TrustedKeys, verify
from trainyard.errors import InputError, LockError

pytestmark = pytest.mark.skipif(shutil.which("gpg") is None, reason="no gpg on this host")
SHAPE = b"-----BEGIN PGP SIGNED MESSAGE-----\n-----BEGIN PGP SIGNATURE-----\n-----END PGP SIGNATURE-----\n"
TEXT = "Origin: Debian\nSuite: stable\n- dashes, escaped by clear-signing\n"


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with signing_home() as folder:
        yield folder


@pytest.fixture(scope="module")
def key(home: Path) -> SigningKey:
    return new_key(home, "good")


@pytest.fixture(scope="module")
def other(home: Path) -> SigningKey:
    return new_key(home, "other")


def refusal(document: bytes, keys: TrustedKeys) -> str:
    with pytest.raises(InputError) as caught:
        verify(document, keys, what="InRelease of demo")
    return caught.value.message


def test_a_signed_text_comes_out_exactly_with_its_signer(key: SigningKey) -> None:
    signed = verify(key.clear_sign(TEXT), key.trusted, what="x")

    assert signed.text == TEXT
    assert signed.signers == (key.fingerprint,)


def test_a_second_signature_by_an_unknown_key_does_no_harm(
    home: Path, key: SigningKey, other: SigningKey
) -> None:
    both = ("--local-user", other.fingerprint, "--local-user", key.fingerprint)

    signed = verify(gpg(home, *both, "--clear-sign", data=TEXT.encode()), key.trusted, what="x")

    assert signed.signers == (key.fingerprint,)


def test_a_key_in_the_keyring_that_is_not_pinned_counts_for_nothing(
    key: SigningKey, other: SigningKey
) -> None:
    keys = TrustedKeys(keyring=other.keyring, fingerprints=frozenset({key.fingerprint}))

    assert "not signed by a key that we trust" in refusal(other.clear_sign(TEXT), keys)


def test_an_unknown_key_is_refused_and_named(key: SigningKey, other: SigningKey) -> None:
    message = refusal(other.clear_sign(TEXT), key.trusted)

    assert "InRelease of demo" in message
    assert f"NO_PUBKEY {other.fingerprint[-16:]}" in message


def test_altered_text_is_refused(key: SigningKey) -> None:
    document = key.clear_sign(TEXT).replace(b"Suite: stable", b"Suite: stabel")

    assert "BADSIG" in refusal(document, key.trusted)


@pytest.mark.parametrize("where", ["before", "after", "twice"])
def test_text_around_the_signed_message_is_refused(key: SigningKey, where: str) -> None:
    """gpgv would ignore it, and a sloppy reader of the raw file would believe it."""
    document = key.clear_sign(TEXT)
    altered = {
        "before": b"Evil: yes\n\n" + document,
        "after": document + b"Evil: yes\n",
        "twice": document * 2,
    }

    assert "not a clear-signed document" in refusal(altered[where], key.trusted)


@pytest.mark.parametrize("document", [b"", b"\n", b"<html>please log in</html>", TEXT.encode()])
def test_what_is_not_signed_at_all_is_refused(key: SigningKey, document: bytes) -> None:
    assert "not a clear-signed document" in refusal(document, key.trusted)


def test_a_detached_signature_in_place_of_the_text_is_refused(home: Path, key: SigningKey) -> None:
    document = gpg(home, "--local-user", key.fingerprint, "--armor", "--detach-sign", data=TEXT.encode())

    assert "not a clear-signed document" in refusal(document, key.trusted)


def test_a_key_that_has_expired_is_refused(home: Path) -> None:
    """gpgv says VALIDSIG for it too; only GOODSIG is missing."""
    old = new_key(home, "expired", expires="1d")
    sign = ("--faked-system-time", "20200101T010000", "--local-user", old.fingerprint, "--clear-sign")
    document = gpg(home, *sign, data=TEXT.encode())

    assert "EXPKEYSIG" in refusal(document, old.trusted)


def test_a_signature_that_has_expired_is_refused(home: Path, key: SigningKey) -> None:
    sign = (
        "--faked-system-time",
        "20200102T010000",
        "--default-sig-expire",
        "1d",
        "--local-user",
        key.fingerprint,
    )
    document = gpg(home, *sign, "--clear-sign", data=TEXT.encode())

    assert "EXPSIG" in refusal(document, key.trusted)


def test_a_signature_by_a_subkey_counts_for_its_primary_key(home: Path) -> None:
    """Debian signs with subkeys; pinned are the primary keys."""
    key = new_key(home, "subkeyed")
    gpg(home, "--quick-add-key", key.fingerprint, "ed25519", "sign", "never")
    key.keyring.write_bytes(gpg(home, "--export", key.fingerprint))
    document = gpg(home, "--local-user", key.fingerprint, "--clear-sign", data=TEXT.encode())
    status = subprocess.run(
        ["gpgv", "--keyring", key.keyring, "--status-fd", "1"],
        input=document,
        capture_output=True,
        check=True,
    ).stdout.decode()
    assert f"VALIDSIG {key.fingerprint}" not in status, "the subkey signed"

    assert verify(document, key.trusted, what="x").signers == (key.fingerprint,)


def test_without_gpgv_the_message_says_how_to_get_it(
    key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")

    with pytest.raises(LockError, match="gpgv is needed") as caught:
        verify(SHAPE, key.trusted, what="x")

    assert "apt-get install gpgv" in caught.value.hint


def test_the_keyring_in_the_repository_has_exactly_the_pinned_keys(home: Path) -> None:
    listing = gpg(home, "--with-colons", "--show-keys", str(DEBIAN_KEYS.keyring)).decode()
    primaries = [re.findall(r"^fpr:+(\w+):", block, re.MULTILINE)[0] for block in listing.split("\npub:")]

    assert set(primaries) == DEBIAN_KEYS.fingerprints
