"""The real archive: its signatures verify, and our closure is the one that apt itself would install."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.mirrors import BASES, mirror, why_gone
from trainyard.debian.index import read_index
from trainyard.debian.release import suites_of
from trainyard.debian.signature import DEBIAN_KEYS
from trainyard.download import Downloader
from trainyard.lock.debian import lock_base
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
    if reason := why_gone(name):
        pytest.skip(reason)
    base = BASES[name]
    store = Store(tmp_path / "store")
    lock = lock_base(
        name,
        base,
        arch,
        downloader=Downloader(os.environ),
        mirror=mirror(),
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
            f"deb [signed-by={DEBIAN_KEYS.keyring} check-valid-until=no] {mirror()}{archive} {suite} main\n"
            for archive, suite in suites_of(base.suite)
        )
    )
    apt(root, arch, "update", "-qq")
    plan = apt(root, arch, "-s", "--no-install-recommends", "install", *essential, *base.packages)
    lines = [line.split() for line in plan.splitlines() if line.startswith("Inst ")]

    assert {(words[1], words[2].strip("()")) for words in lines} == {
        (deb.name, deb.version) for deb in lock.debs
    }
