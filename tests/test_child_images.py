"""Children of the real image in a real engine: apt and pip work in them, torch stays, and every package is seen.

Needs an engine (`eval "$(.ci/engine start)"`), dist/cuda13.2/linux-amd64, the package index and a Debian mirror. apt in
the image reads the snapshot archive of its base; here the host's own mirror stands in for it, by options alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from bench.child_builds import MARK, prune
from tests.support.engines import SETTINGS, builder
from tests.support.locks import AMD64
from tests.support.project import workspace_of
from trainyard.buildx import Docker
from trainyard.debian.mirror import mirror_parent, read_apt_sources
from trainyard.oci.flatten import flatten
from trainyard.oci.layout import read_layout
from trainyard.runner.archive import find_loadable
from trainyard.runner.engine import connect
from trainyard.sbom import is_evidence, make_sbom

ROOT = Path(__file__).parents[1]
LAYOUT = ROOT / "dist/cuda13.2/linux-amd64"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
BUNDLE = os.environ.get("SSL_CERT_FILE", "")
TRUST = "[ ! -f /run/secrets/ca ] || export SSL_CERT_FILE=/run/secrets/ca PIP_CERT=/run/secrets/ca"
MOUNTS = "--mount=type=secret,id=ca,mode=0444 --mount=type=secret,id=apt,target=/run/secrets/child.list"
pytestmark = [pytest.mark.docker, pytest.mark.real, pytest.mark.network]
Build = Callable[[str], tuple[int, str]]


@pytest.fixture(scope="module")
def docker() -> Docker:
    return builder()


@pytest.fixture(scope="module")
def image(docker: Docker) -> Iterator[str]:
    """The name of the built image in the engine."""
    if not LAYOUT.is_dir():
        pytest.skip("no image: invoke build --target cuda13.2")
    engine = connect(docker.environ)
    loadable = find_loadable(LAYOUT, AMD64, repository="trainyard-child-test", zstd=engine.reads_zstd)
    engine.load(loadable)
    yield loadable.name
    engine.client.api.remove_image(loadable.name, force=True)
    engine.client.close()


@pytest.fixture
def build(docker: Docker, image: str, tmp_path: Path) -> Iterator[Build]:
    """`docker build` of a Dockerfile's lines after FROM: exit code and all that was printed."""

    def run(lines: str) -> tuple[int, str]:
        text = textwrap.dedent(lines).replace("RUN ", f"RUN {MOUNTS} : {MARK}; ")
        (tmp_path / "Dockerfile").write_text(f"FROM {image}\n{text}")
        given = ["--secret", f"id=apt,src={apt_sources(tmp_path)}"]
        given += ["--secret", f"id=ca,src={BUNDLE}"] if BUNDLE else []
        command = [
            docker.program,
            "buildx",
            "build",
            "--progress=plain",
            "--network=host",
            "--no-cache",
            *given,
        ]
        done = subprocess.run(
            [*command, "--output=type=cacheonly", str(tmp_path)],
            env=dict(docker.environ), capture_output=True, text=True, check=False, timeout=500,
        )  # fmt: skip
        return done.returncode, done.stderr

    yield run
    prune(docker)


def apt_sources(folder: Path) -> Path:
    """The host's mirror of the image's own suites, in a file that is in no layer."""
    mirror = mirror_parent(matrix=None, setting=SETTINGS.debian_mirror, apt_sources=read_apt_sources())
    path = folder / "child.list"
    path.write_text(
        "".join(
            f"deb [signed-by={KEYRING}] {mirror}{archive} {suite} main\n"
            for archive, suite in (
                ("debian", "trixie"),
                ("debian", "trixie-updates"),
                ("debian-security", "trixie-security"),
            )
        )
    )
    return path


def test_apt_installs_packages_that_like_to_ask_and_asks_nothing(build: Build) -> None:
    """krb5-user and postfix ask questions, postfix adds accounts, dbus starts a service, all run triggers."""
    apt = (
        "apt-get -o Dir::Etc::sourcelist=/run/secrets/child.list -o Dir::Etc::sourceparts=- "
        "-o Acquire::https::CAInfo=/run/secrets/ca"
    )
    rc, said = build(
        f"""\
        USER 0
        RUN {apt} update -q && {apt} install -yq --no-install-recommends krb5-user postfix dbus libsndfile1
        RUN test -z "$(dpkg --audit)" && apt-get check -q && getent passwd postfix
        RUN trainyard-verify
        """
    )

    assert rc == 0, said[-3000:]
    assert "unable to initialize frontend" not in said


@pytest.mark.parametrize("user", ["0", "1000:0"])
@pytest.mark.parametrize("installer", ["pip install", "uv pip install"])
def test_pip_and_uv_install_as_root_and_as_the_images_user(build: Build, installer: str, user: str) -> None:
    rc, said = build(
        f"""\
        USER {user}
        RUN {TRUST}; {installer} --no-cache-dir einops
        USER 1000:0
        RUN python -c "import torch, einops; print(einops.rearrange(torch.ones(2, 3), 'a b -> b a').shape)"
        RUN trainyard-verify
        """
    )

    assert rc == 0, said[-3000:]
    assert "externally-managed" not in said
    assert "torch.Size([3, 2])" in said


@pytest.mark.parametrize("installer", ["pip install", "uv pip install"])
def test_another_torch_stops_the_build_in_a_later_run_and_both_versions_are_named(
    build: Build, installer: str
) -> None:
    rc, said = build(
        f"""\
        USER 0
        RUN true
        RUN {TRUST}; {installer} 'torch<2.15'
        """
    )

    assert rc != 0
    assert "torch<2.15" in said
    assert "torch==2.15.0" in said


def test_a_swapped_library_stops_the_build_at_trainyard_verify(build: Build) -> None:
    rc, said = build(
        f"""\
        USER 0
        RUN {TRUST}; env -u UV_CONSTRAINT uv pip install --no-config --no-cache nvidia-nvtx==13.0.85
        RUN trainyard-verify
        """
    )

    assert rc != 0
    assert "nvidia-nvtx: replaced: expected 13.2.86, found 13.0.85, put there by uv" in said


def test_every_package_is_seen_by_pip_by_uv_by_dpkg_and_in_the_sbom(docker: Docker, image: str) -> None:
    space = workspace_of(
        ROOT,
        cache=SETTINGS.cache,
        environ=os.environ,
        host=AMD64,
        apt_sources=read_apt_sources,
    )
    tree = flatten(layout := read_layout(LAYOUT).images[0], keep=is_evidence)
    plan = space.plan(space.matrix.target("cuda13.2"), AMD64)
    purls = [
        unquote(one["purl"])
        for one in json.loads(make_sbom(plan, tree, digest=layout.digest).data)["components"]
    ]
    wheels = {purl.split("/")[1].split("@")[0] for purl in purls if purl.startswith("pkg:pypi/")}
    debs = {purl.split("/")[2].split("@")[0] for purl in purls if purl.startswith("pkg:deb/")}

    listed = inside(docker, image, "pip list --format json")
    by_uv = inside(docker, image, "uv pip list --format json --no-cache")
    by_dpkg = inside(docker, image, r"dpkg-query -W -f '${Package} ${db:Status-Abbrev}\n'").splitlines()
    release = inside(docker, image, "cat /etc/os-release")

    assert {one["name"].lower().replace("_", "-") for one in json.loads(listed)} == wheels
    assert {one["name"].lower().replace("_", "-") for one in json.loads(by_uv)} == wheels
    assert {line.split()[0] for line in by_dpkg if line.split()[1] == "ii"} == debs
    assert len(by_dpkg) == len(debs)
    # By these a scanner chooses which advisories to read.
    assert "ID=debian\n" in release
    assert 'VERSION_ID="13"\n' in release


def inside(docker: Docker, image: str, script: str) -> str:
    """What a command prints in a container of the image."""
    command = [docker.program, "run", "--rm", "--network=none", image, "sh", "-c", script]
    return subprocess.run(
        command, env=dict(docker.environ), capture_output=True, text=True, check=True, timeout=120
    ).stdout
