"""A tiny Debian archive, signed by a throw-away key and served on loopback."""

from __future__ import annotations

import hashlib
import lzma
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from debian.debfile import DebFile

from tests.support.web import Server, folder, serve
from trainyard.debian.signature import TrustedKeys

DATE = "Sat, 21 Nov 2026 09:15:44 UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A throw-away key: its gpg home, its primary fingerprint, and a keyring with its public half."""

    home: Path
    fingerprint: str
    keyring: Path

    @property
    def trusted(self) -> TrustedKeys:
        """What a verifier needs to trust exactly this key."""
        return TrustedKeys(keyring=self.keyring, fingerprints=frozenset({self.fingerprint}))

    def clear_sign(self, text: str) -> bytes:
        """`text` as a clear-signed document."""
        return gpg(self.home, "--local-user", self.fingerprint, "--clear-sign", data=text.encode())


def gpg(home: Path, *arguments: str, data: bytes = b"") -> bytes:
    """Run gpg without questions in its own home, and return what it printed."""
    command = ["gpg", "--batch", "--quiet", "--no-tty", "--homedir", str(home)]
    command += ["--pinentry-mode", "loopback", "--passphrase", "", *arguments]
    return subprocess.run(command, input=data, capture_output=True, check=True).stdout


@contextmanager
def signing_home() -> Iterator[Path]:
    """An empty gpg home with a path short enough for the agent's socket; the agent ends with the block."""
    home = Path(tempfile.mkdtemp(prefix="gpg"))
    try:
        yield home
    finally:
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], capture_output=True, check=False)
        shutil.rmtree(home, ignore_errors=True)


def new_key(home: Path, name: str, *, at: str = "20200101T000000", expires: str = "never") -> SigningKey:
    """Make a key in `home`, created at that (faked) time."""
    user = f"{name} <{name}@example.org>"
    gpg(home, "--faked-system-time", at, "--quick-gen-key", user, "ed25519", "sign", expires)
    listing = gpg(home, "--with-colons", "--list-keys", user).decode()
    fingerprint = next(line.split(":")[9] for line in listing.splitlines() if line.startswith("fpr:"))
    keyring = home / f"{name}.pgp"
    keyring.write_bytes(gpg(home, "--export", fingerprint))
    return SigningKey(home=home, fingerprint=fingerprint, keyring=keyring)


@dataclass(frozen=True, slots=True, kw_only=True)
class DebianArchive:
    """The folder of an archive with `debian/` and `debian-security/`, and the key that signs it."""

    root: Path
    key: SigningKey

    def publish(
        self,
        archive: str,
        suite: str,
        debs: Sequence[Path] = (),
        *,
        archs: Sequence[str] = ("amd64",),
        fields: Mapping[str, str] | None = None,
    ) -> None:
        """Put .debs into the pool and write `dists/<suite>`; `fields` adds to InRelease, "" omits one."""
        stanzas = [self._admit(archive, deb) for deb in debs]
        dists = self.root / archive / "dists" / suite
        sums = []
        for arch in archs:
            name = f"main/binary-{arch}/Packages.xz"
            index = lzma.compress("\n".join(stanzas).encode())
            digest = hashlib.sha256(index).hexdigest()
            by_hash = dists / f"main/binary-{arch}/by-hash/SHA256/{digest}"
            by_hash.parent.mkdir(parents=True, exist_ok=True)
            by_hash.write_bytes(index)
            (dists / name).write_bytes(index)
            sums.append(f" {digest} {len(index)} {name}\n")
        header = {
            "Origin": "Debian",
            "Suite": suite.replace("trixie", "stable"),
            "Codename": suite,
            "Date": DATE,
            "Acquire-By-Hash": "yes",
            **(fields or {}),
        }
        text = "".join(f"{key}: {value}\n" for key, value in header.items() if value)
        (dists / "InRelease").write_bytes(self.key.clear_sign(f"{text}SHA256:\n{''.join(sums)}"))

    def publish_release(self, suite: str, debs: Sequence[Path], *, archs: Sequence[str] = ("amd64",)) -> None:
        """A release as Debian has it: the suite with those .debs, and its empty updates and security."""
        self.publish("debian", suite, debs, archs=archs)
        self.publish("debian", f"{suite}-updates", archs=archs)
        self.publish("debian-security", f"{suite}-security", archs=archs)

    @contextmanager
    def served(self) -> Iterator[Server]:
        """The archive on loopback; its `url` + `/` is the mirror's parent URL."""
        with serve(folder(self.root)) as server:
            yield server

    def _admit(self, archive: str, deb: Path) -> str:
        """Copy a .deb into the pool and return its stanza for Packages."""
        data = deb.read_bytes()
        with deb.open("rb") as stream:
            control = str(DebFile(fileobj=stream).debcontrol()).strip()
        name = deb.name.partition("_")[0]
        path = f"pool/main/{name[0]}/{name}/{deb.name}"
        target = self.root / archive / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        return f"{control}\nFilename: {path}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"
