"""Clear-signed text to the text that a trusted key signed, by gpgv."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainyard.errors import InputError, LockError

_BEGIN = b"-----BEGIN PGP SIGNED MESSAGE-----"
_MARKS = (_BEGIN, b"-----BEGIN PGP SIGNATURE-----", b"-----END PGP SIGNATURE-----")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedKeys:
    """A keyring file that gpgv reads, and the primary fingerprints in it that we trust."""

    keyring: Path
    fingerprints: frozenset[str]


# From Debian's package debian-archive-keyring: the keys of release 13, good until 2033 and 2035.
DEBIAN_KEYS = TrustedKeys(
    keyring=Path(__file__).parent / "keys" / "debian-archive-trixie.gpg",
    fingerprints=frozenset(
        {
            "04B54C3CDCA79751B16BC6B5225629DF75B188BD",  # archive, automatic
            "5E04A1E3223A19A20706E20F9904613D4CCE68C6",  # security archive, automatic
            "41587F7DB8C774BCCF131416762F67A0B2C39DE4",  # stable release
        }
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedText:
    """Exactly the text that was signed, and the sorted primary fingerprints of the trusted keys that did."""

    text: str
    signers: tuple[str, ...]


def verify(document: bytes, keys: TrustedKeys, *, what: str) -> SignedText:
    """The text of a clear-signed document; InputError, naming `what`, without one good trusted signature.

    A good signature is GOODSIG and VALIDSIG in one signature's status lines: VALIDSIG alone is also said of
    expired and revoked keys. The exit code of gpgv decides nothing: it is 2 when any signer is unknown.
    """
    _check_shape(document, what)
    gpgv = shutil.which("gpgv")
    if gpgv is None:
        raise LockError(
            f"gpgv is needed to verify the signature of {what}, and is not installed",
            hint="apt-get install gpgv, or brew install gnupg",
        )
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder, "document"), Path(folder, "text")
        source.write_bytes(document)
        command = [gpgv, "--homedir", folder, "--keyring", str(keys.keyring.absolute())]
        command += ["--status-fd", "1", "--output", str(output), str(source)]
        run = subprocess.run(
            command, capture_output=True, check=False, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}
        )
        status = run.stdout.decode("utf-8", errors="replace")
        signers = tuple(sorted(set(_good_signers(status)) & keys.fingerprints))
        if not signers:
            raise InputError(
                f"{what} is not signed by a key that we trust; gpgv says: {_complaint(status)}",
                hint="a mirror altered it, or the archive has new keys: see trainyard/debian/signature.py",
            )
        return SignedText(text=output.read_text("utf-8"), signers=signers)


def _check_shape(document: bytes, what: str) -> None:
    """One signed message and nothing around it: no text is there that gpgv would not have seen."""
    lines = document.replace(b"\r\n", b"\n").rstrip(b"\n").split(b"\n")
    marks = [line.rstrip() for line in lines if line.startswith(b"-----")]
    if tuple(marks) != _MARKS or lines[0].rstrip() != _MARKS[0] or lines[-1].rstrip() != _MARKS[-1]:
        raise InputError(f"{what} is not a clear-signed document")


def _good_signers(status: str) -> Iterator[str]:
    """Primary fingerprints of good signatures (GnuPG's doc/DETAILS: NEWSIG, GOODSIG, VALIDSIG)."""
    is_good = False
    for line in status.splitlines():
        words = line.removeprefix("[GNUPG:] ").split()
        if not words:
            continue
        if words[0] in ("NEWSIG", "BADSIG", "ERRSIG", "EXPSIG", "EXPKEYSIG", "REVKEYSIG"):
            is_good = False
        elif words[0] == "GOODSIG":
            is_good = True
        elif words[0] == "VALIDSIG" and is_good and len(words) > 10:
            yield words[10]


def _complaint(status: str) -> str:
    """The status lines that say why, without the noise."""
    told = ("BADSIG", "ERRSIG", "EXPSIG", "EXPKEYSIG", "REVKEYSIG", "NO_PUBKEY", "NODATA", "GOODSIG")
    lines = [line.removeprefix("[GNUPG:] ") for line in status.splitlines()]
    return "; ".join(line for line in lines if line.startswith(told)) or "nothing"
