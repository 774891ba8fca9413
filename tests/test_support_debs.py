"""The .debs that the tests make are ones that dpkg and python-debian accept."""

from __future__ import annotations

import shutil
import subprocess
from io import BytesIO
from pathlib import Path

import pytest
from debian.debfile import DebFile

from tests.support.debs import build_deb, tar_member


def sample(folder: Path, *, compression: str = "xz") -> Path:
    return build_deb(
        folder,
        "demo",
        "1:2.0-1",
        files={"/usr/bin/demo": "#!/bin/sh\n", "etc/demo.conf": b"a=1\n"},
        depends="libc6 (>= 2.36)",
        scripts={"postinst": "#!/bin/sh\nexit 0\n"},
        conffiles=["/etc/demo.conf"],
        essential=True,
        symlinks={"usr/bin/d": "demo"},
        hardlinks={"usr/bin/demo2": "usr/bin/demo"},
        modes={"usr/bin/demo": 0o2755},
        owners={"usr/bin/demo": (0, 42)},
        directories=["var/lib/demo"],
        control_files={"triggers": "interest-noawait demo\n"},
        compression=compression,
    )


@pytest.mark.parametrize("compression", ["xz", "gz"])
def test_python_debian_reads_every_part(tmp_path: Path, compression: str) -> None:
    deb = DebFile(fileobj=BytesIO(sample(tmp_path, compression=compression).read_bytes()))

    assert deb.debcontrol()["Version"] == "1:2.0-1"
    assert deb.debcontrol()["Essential"] == "yes"
    assert deb.scripts()["postinst"] == b"#!/bin/sh\nexit 0\n"
    assert set(deb.md5sums(encoding="utf-8")) == {"usr/bin/demo", "etc/demo.conf"}
    assert deb.control.get_content("conffiles") == b"/etc/demo.conf\n"
    assert deb.control.get_content("triggers") == b"interest-noawait demo\n"


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg-deb on this host")
def test_dpkg_lists_modes_owners_and_links(tmp_path: Path) -> None:
    command = ["dpkg-deb", "--fsys-tarfile", str(sample(tmp_path))]
    tar = subprocess.run(command, capture_output=True, check=True).stdout
    listing = subprocess.run(
        ["tar", "-tv", "--numeric-owner"], input=tar, capture_output=True, check=True
    ).stdout
    lines = {line.split(maxsplit=5)[5]: line.split()[:2] for line in listing.decode().splitlines()}

    assert lines["./usr/bin/demo"] == ["-rwxr-sr-x", "0/42"]
    assert lines["./usr/bin/demo2 link to ./usr/bin/demo"] == ["hrwxr-sr-x", "0/42"]
    assert "./usr/bin/d -> demo" in lines
    assert "./var/lib/demo/" in lines


def test_the_same_arguments_give_the_same_bytes(tmp_path: Path) -> None:
    assert sample(tmp_path / "a").read_bytes() == sample(tmp_path / "b").read_bytes()


def test_the_file_name_has_no_epoch(tmp_path: Path) -> None:
    assert sample(tmp_path).name == "demo_2.0-1_amd64.deb"


def test_hostile_members_keep_their_names(tmp_path: Path) -> None:
    path = build_deb(tmp_path, "bad", "1", members=[(tar_member("./../../etc/passwd", size=1), b"x")])

    assert "./../../etc/passwd" in DebFile(fileobj=BytesIO(path.read_bytes())).data.tgz().getnames()
