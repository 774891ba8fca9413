"""The gzip profile is for engines from before zstd layers: Docker Engine 20.10 takes it, and refuses the default.

Needs one (`eval "$(.ci/engine --old start)"`); the last test the real image too (`invoke build --compression gzip`).
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker.errors import ImageLoadError
from docker.models.images import Image

from tests.support import engines
from tests.support.images import tiny_layout
from trainyard.store import Store

ROOT = Path(__file__).parents[1]
LAYOUT = ROOT / "dist/cuda13.2/linux-amd64.gzip"
pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    found = docker.DockerClient(base_url=engines.old_host(), timeout=600)
    yield found
    found.close()


def load(client: docker.DockerClient, layout: Path) -> Image:
    """What `tar -C LAYOUT -c . | docker load` makes of a layout."""
    with subprocess.Popen(["tar", "-C", str(layout), "-cf", "-", "."], stdout=subprocess.PIPE) as tar:
        image: Image = client.images.load(tar.stdout)[0]
    return image


def test_it_is_an_engine_from_before_zstd(client: docker.DockerClient) -> None:
    major, minor, *_ = client.version()["Version"].split(".")

    assert (int(major), int(minor)) < (23, 0)


def test_the_gzip_profile_loads_with_its_diff_ids(
    client: docker.DockerClient, store: Store, tmp_path: Path
) -> None:
    written = tiny_layout(store, tmp_path / "layout", compression="gzip")
    loaded = load(client, tmp_path / "layout")
    found = loaded.attrs["RootFS"]["Layers"]
    client.images.remove(loaded.id, force=True)

    assert loaded.id == written.config_digest
    assert found == [layer.diff_id for layer in written.layers]


def test_the_default_profile_does_not(client: docker.DockerClient, store: Store, tmp_path: Path) -> None:
    tiny_layout(store, tmp_path / "layout")
    with pytest.raises(ImageLoadError, match=r"invalid tar header|processing tar file"):
        load(client, tmp_path / "layout")


@pytest.mark.real
def test_torch_runs_from_the_gzip_profile(client: docker.DockerClient) -> None:
    if not LAYOUT.is_dir():
        pytest.skip("no image: invoke build --target cuda13.2 --compression gzip --no-smoke")
    image = load(client, LAYOUT)
    try:
        command = ["python", "-c", "import torch; print(torch.__version__)"]
        printed = client.containers.run(image.id, command, network_mode="none", remove=True)
    finally:
        client.images.remove(image.id, force=True)

    assert printed.split()[-1] == b"2.15.0+cu132"
