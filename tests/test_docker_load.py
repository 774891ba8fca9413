"""The finished image in a real Docker Engine: it loads, it is the image we recorded, and torch runs in it.

Needs an engine (`eval "$(.ci/engine start)"`) and dist/cuda13.2/linux-amd64 (`invoke build`).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker.models.images import Image

ROOT = Path(__file__).parents[1]
LAYOUT = ROOT / "dist/cuda13.2/linux-amd64"
GOLDEN = ROOT / "images/cuda13.2/linux-amd64.json"
# Read before the tests' own environment is cleaned.
DOCKER_HOST = os.environ.get("DOCKER_HOST", "")
CI = os.environ.get("CI", "")
pytestmark = [pytest.mark.docker, pytest.mark.real]


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    if not DOCKER_HOST:
        assert not CI, 'CI must have an engine: eval "$(.ci/engine start)"'
        pytest.skip('no DOCKER_HOST: eval "$(.ci/engine start)"')
    found = docker.DockerClient(base_url=DOCKER_HOST, timeout=600)
    yield found
    found.close()


@pytest.fixture(scope="module")
def image(client: docker.DockerClient) -> Iterator[Image]:
    """The layout as `docker load` takes it: tarred as it is, and streamed."""
    if not LAYOUT.is_dir():
        assert not CI, "CI must build the image first"
        pytest.skip("no image: invoke build --target cuda13.2")
    with subprocess.Popen(["tar", "-C", str(LAYOUT), "-cf", "-", "."], stdout=subprocess.PIPE) as tar:
        loaded = client.images.load(tar.stdout)
    assert tar.returncode == 0
    yield loaded[0]
    client.images.remove(loaded[0].id, force=True)


def run(client: docker.DockerClient, image: Image, *argv: str, **options: object) -> str:
    """What a command printed on stdout, without a network, through the image's own entrypoint."""
    output = client.containers.run(
        image.id, list(argv), network_mode="none", remove=True, stdout=True, stderr=False, **options
    )
    return bytes(output).decode()


def test_it_is_the_image_that_was_recorded(image: Image) -> None:
    golden = json.loads(GOLDEN.read_text())

    assert image.id in (golden["manifest_digest"], golden["config_digest"])
    assert image.labels["org.opencontainers.image.version"] == golden["tag"]


def test_torch_runs_without_a_network_as_the_image_s_own_user(
    client: docker.DockerClient, image: Image
) -> None:
    code = "import os, torch; print(torch.__version__, torch.version.cuda, os.getuid(), os.getgid())"

    assert run(client, image, "python", "-c", code).split() == ["2.15.0+cu132", "13.2", "1000", "0"]


def test_torch_runs_as_an_unknown_user_on_a_read_only_root_without_capabilities(
    client: docker.DockerClient, image: Image
) -> None:
    code = "import torch; print(torch.ones(3).sum().item())"

    printed = run(
        client,
        image,
        *("python", "-c", code),
        user="987654:0",
        read_only=True,
        tmpfs={"/tmp": ""},
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
    )

    assert printed == "3.0\n"


def test_the_image_s_own_checks_pass_in_the_engine(client: docker.DockerClient, image: Image) -> None:
    """The same doctor as under the native runner: passes, and skips for want of a GPU."""
    doctor = ("trainyard-doctor", "--json", "--sealed", "--labels", json.dumps(image.labels))
    results = json.loads(run(client, image, *doctor))["results"]

    statuses = {result["name"]: result["status"] for result in results}
    assert {name for name, status in statuses.items() if status == "fail"} == set()
    assert statuses["gloo_collectives"] == statuses["torch_compile_cpu"] == "pass"
    skipped = {name for name, status in statuses.items() if status == "skip"}
    assert skipped == {name for name in statuses if "device" in name}


def test_dpkg_believes_the_base(client: docker.DockerClient, image: Image) -> None:
    script = "dpkg --verify && dpkg --audit && apt-get check -qq && dpkg-query -W | wc -l"

    packages = int(run(client, image, "sh", "-c", script, user="0").split()[-1])

    lock = (ROOT / "lockfiles/base/trixie.amd64.txt").read_text()
    assert packages == sum(1 for line in lock.splitlines() if line and not line.startswith("#"))
