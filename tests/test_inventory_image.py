"""An image's inventory is what it says itself, from its layout or from an engine, without running it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.engines import SETTINGS, builder
from tests.support.layouts import Raw, layer, write_layout
from tests.support.locks import AMD64, deb_lock, target, wheel, wheel_lock
from trainyard.errors import InputError, RunnerError
from trainyard.inventory.image import Described, describe, engine_image, layout_image
from trainyard.oci.document import Document
from trainyard.oci.layout import read_layout
from trainyard.runner.archive import find_loadable
from trainyard.runner.engine import Engine, connect
from trainyard.runtime import CLAIMS, runtime_files

CONFIG = {
    "Env": ["PATH=/opt/venv/bin", "NCCL_SOCKET_IFNAME=eth0", "TORCH_DIST_USE_NCCL2=0"],
    "Labels": {
        "dev.trainyard.debian": "trixie 2026-11-30T20:15:00Z",
        "dev.trainyard.target": "cuda13.2",
        "com.example.owner": "gerda",
    },
}


def claims(**changes: object) -> bytes:
    lock = wheel_lock(wheel("torch", "2.15.0"), wheel("nvidia-nccl-cu13", "2.30.7"), wheel("six"))
    files = runtime_files(target(), AMD64, wheels=lock, debs=deb_lock(), payload={})
    said = json.loads(next(file.data for file in files if file.path == CLAIMS))
    return json.dumps({**said, **changes}).encode()


def layout(folder: Path, data: bytes | None, config: Mapping[str, object] = CONFIG) -> Path:
    """An image with the claims in a lower layer, as a child has them."""
    lower = [Raw(name=CLAIMS, data=data)] if data is not None else [Raw(name="a")]
    write_layout(folder, [layer([Raw(name="below")]), layer(lower), layer([Raw(name="top")])], config=config)
    return folder


def of(folder: Path) -> Described:
    return layout_image(read_layout(folder).images[0])


def test_a_layouts_image_says_its_target_its_wheels_and_its_nccl(tmp_path: Path) -> None:
    found = of(layout(tmp_path, claims()))

    assert (found.facts.target, found.facts.platform, found.facts.os) == (
        "cuda13.2",
        "linux/amd64",
        "Debian trixie",
    )
    assert dict(found.facts.python.wheels) == {"nvidia-nccl-cu13": "2.30.7", "torch": "2.15.0"}
    assert found.facts.nccl.backend == "legacy"
    assert found.needs.requires.driver == ">=580"


def test_values_of_its_environment_and_labels_of_others_are_not_told(tmp_path: Path) -> None:
    told = str(of(layout(tmp_path, claims())))

    assert "NCCL_SOCKET_IFNAME" in told
    assert "eth0" not in told
    assert "gerda" not in told


def test_debian_packages_among_the_claims_say_python_and_glibc() -> None:
    config = Document({"os": "linux", "architecture": "amd64", "config": CONFIG}, "config")
    found = describe(claims(debs={"libc6": "2.41-12+deb13u5", "python3.13": "3.13.5-2"}), config, digest="x")

    assert (found.facts.glibc, found.facts.python.version) == ("2.41", "3.13.5")


def test_a_requirement_of_a_later_trainyard_does_no_harm(tmp_path: Path) -> None:
    later = claims(requires={"driver": ">=600", "moon": "full"})

    assert of(layout(tmp_path, later)).needs.requires.driver == ">=600"


@pytest.mark.parametrize("data", [None, claims(schema=2), b"{", b'{"schema": 1}'])
def test_another_image_is_refused_by_name(tmp_path: Path, data: bytes | None) -> None:
    with pytest.raises(InputError):
        of(layout(tmp_path, data))


@pytest.fixture
def engine() -> Iterator[Engine]:
    builder()
    found = connect(SETTINGS.environ)
    yield found
    found.client.close()


def loaded(engine: Engine, folder: Path) -> Iterator[str]:
    """The image in an engine under a name of its own."""
    repository = f"trainyard-test-{uuid.uuid4().hex[:12]}"
    image = find_loadable(folder, AMD64, repository=repository, zstd=engine.reads_zstd)
    engine.load(image)
    yield image.name
    engine.client.api.remove_image(image.name, force=True)


@pytest.mark.docker
def test_an_engines_image_says_the_same_and_leaves_no_container(engine: Engine, tmp_path: Path) -> None:
    folder = layout(tmp_path, claims())
    for name in loaded(engine, folder):
        found = engine_image(engine.client, name)
        left = engine.client.api.containers(all=True, filters={"ancestor": name})

    assert found.facts == of(folder).facts if engine.containerd else found.facts.target == "cuda13.2"
    assert left == []


@pytest.mark.docker
def test_an_engine_without_the_image_and_an_image_without_claims_are_told_apart(
    engine: Engine, tmp_path: Path
) -> None:
    with pytest.raises(RunnerError, match="has no image 'trainyard-test-nothing'"):
        engine_image(engine.client, "trainyard-test-nothing")
    for name in loaded(engine, layout(tmp_path, None)):
        with pytest.raises(InputError, match="is no image of trainyard"):
            engine_image(engine.client, name)
