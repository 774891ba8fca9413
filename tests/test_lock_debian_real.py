"""The real archive: its signatures verify, and our closure is the one that apt itself would install."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from trainyard.debian.index import read_index
from trainyard.debian.mirror import mirror_parent, read_apt_sources
from trainyard.debian.release import LIMIT, suites_of
from trainyard.debian.signature import DEBIAN_KEYS
from trainyard.digest import sha256_hex
from trainyard.download import Downloader
from trainyard.lock.debian import lock_base
from trainyard.lock.model import parse_deb_lock
from trainyard.matrix.load import load_matrix
from trainyard.paths import Project
from trainyard.store import Store

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(shutil.which("apt-get") is None, reason="no apt on this host"),
    pytest.mark.skipif(shutil.which("gpgv") is None, reason="no gpgv on this host"),
]


def apt(root: Path, arch: str, *arguments: str) -> str:
    """Run apt-get with a world of its own below `root`, for a machine with nothing installed."""
    options = {
        "Dir": root,
        "Dir::State::status": root / "status",
        "APT::Architecture": arch,
        "APT::Architectures": arch,
        "APT::Sandbox::User": "root",
        "Dir::Etc::Parts": root / "none",
    }
    command = ["apt-get", *(word for name, value in options.items() for word in ("-o", f"{name}={value}"))]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("name", "arch"), [("trixie", "amd64"), ("trixie", "arm64"), ("forky", "amd64")])
def test_apt_would_install_exactly_what_we_lock(tmp_path: Path, name: str, arch: str) -> None:
    mirror = mirror_parent(
        matrix=None,
        setting=os.environ.get("TRAINYARD_DEBIAN_MIRROR"),
        apt_sources=read_apt_sources(),
    )
    project = Project(Path(__file__).parents[1])
    base = load_matrix(project.matrix).bases[name]
    if base.allow_expired:
        committed = parse_deb_lock(project.deb_lock(name, arch).read_text(), source=name)
        document = Downloader(os.environ).read(f"{mirror}debian/dists/{base.suite}/InRelease", limit=LIMIT)
        if sha256_hex(document) not in {release.sha256 for release in committed.releases}:
            pytest.skip(f"this host's mirror has moved on from the {name} that is locked")
    store = Store(tmp_path / "store")
    lock = lock_base(
        name,
        base,
        arch,
        downloader=Downloader(os.environ),
        mirror=mirror,
        store=store,
        now=datetime.now(UTC),
    )
    indexes = [path for path in (tmp_path / "store/inputs").iterdir() if path.stat().st_size > 1 << 20]
    essential = sorted(
        {package.name for path in indexes for package in read_index(path, archive="") if package.is_essential}
    )
    root = tmp_path / "apt"
    for folder in ("etc/apt/preferences.d", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial"):
        (root / folder).mkdir(parents=True)
    (root / "status").touch()
    (root / "etc/apt/sources.list").write_text(
        "".join(
            f"deb [signed-by={DEBIAN_KEYS.keyring} check-valid-until=no] {mirror}{archive} {suite} main\n"
            for archive, suite in suites_of(base.suite)
        )
    )
    apt(root, arch, "update", "-qq")
    plan = apt(root, arch, "-s", "--no-install-recommends", "install", *essential, *base.packages)
    lines = [line.split() for line in plan.splitlines() if line.startswith("Inst ")]

    assert {(words[1], words[2].strip("()")) for words in lines} == {
        (deb.name, deb.version) for deb in lock.debs
    }
