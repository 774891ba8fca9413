"""The images of a target's platforms as one image: an OCI index."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.locks import ARM64
from tests.support.plans import Yard
from tests.support.wheels import build_wheel
from trainyard.build import BuiltImage
from trainyard.errors import InputError, LockError
from trainyard.multiplatform import BuiltIndex, index_tag, write_index
from trainyard.oci.image import INDEX, MANIFEST
from trainyard.oci.layout import read_layout
from trainyard.oci.naming import NamedImage, image_index

STEM = "tiny-torch2.15.0-py313-20261201"


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path / "yard")


@pytest.fixture
def images(yard: Yard, tmp_path: Path) -> list[BuiltImage]:
    """The same wheel for two platforms, each with a file of its own."""
    wheel = build_wheel(tmp_path)
    amd64 = replace(yard.plan([wheel], files={"etc/arch": b"amd64"}), tag=f"{STEM}-aaaaaaaa")
    arm64 = yard.plan([wheel], files={"etc/arch": b"arm64"})
    config = replace(arm64.config, architecture="arm64")
    return [
        yard.build(amd64),
        yard.build(replace(arm64, platform=ARM64, config=config, tag=f"{STEM}-bbbbbbbb")),
    ]


def index_of(yard: Yard, images: list[BuiltImage]) -> BuiltIndex:
    return write_index(yard.project, yard.store, images, compression="zstd")


def test_the_index_names_each_image_by_its_platform_and_nothing_unknown(
    yard: Yard, images: list[BuiltImage]
) -> None:
    layout = read_layout(index_of(yard, images).layout)

    assert layout.index is not None
    document = json.loads(layout.index)
    assert document["mediaType"] == INDEX
    assert document["manifests"] == [
        {
            "mediaType": MANIFEST,
            "digest": built.image.digest,
            "size": len(built.image.manifest),
            "platform": {"os": "linux", "architecture": built.plan.platform.arch},
        }
        for built in images
    ]


def test_the_index_is_the_same_whatever_was_built_first(yard: Yard, images: list[BuiltImage]) -> None:
    first = index_of(yard, images)

    assert index_of(yard, images[::-1]) == first


def test_a_layer_of_both_platforms_is_there_once(yard: Yard, images: list[BuiltImage]) -> None:
    layout = read_layout(index_of(yard, images).layout)

    shared = {layer.digest for layer in layout.images[0].layers} & {
        layer.digest for layer in layout.images[1].layers
    }
    assert len(shared) == 1
    # Three layers, two configs, two manifests, and the index.
    assert len(list((layout.folder / "blobs/sha256").iterdir())) == 8


def test_an_index_that_stands_is_not_written_again(yard: Yard, images: list[BuiltImage]) -> None:
    folder = index_of(yard, images).layout
    before = folder.stat().st_ino

    index_of(yard, images)

    assert folder.stat().st_ino == before


def test_a_damaged_index_is_written_again(yard: Yard, images: list[BuiltImage]) -> None:
    index = index_of(yard, images)
    (index.layout / "index.json").write_text("{}")

    index_of(yard, images)

    assert read_layout(index.layout).index is not None


def test_an_index_that_is_not_what_its_digest_says_is_refused(yard: Yard, images: list[BuiltImage]) -> None:
    index = index_of(yard, images)
    blob = index.layout / "blobs/sha256" / index.digest.removeprefix("sha256:")
    blob.chmod(0o644)
    blob.write_bytes(blob.read_bytes() + b" ")

    with pytest.raises(InputError, match=index.digest.removeprefix("sha256:")):
        read_layout(index.layout)


def test_the_tag_says_what_the_images_share_and_hashes_what_they_do_not() -> None:
    tag = index_tag([f"{STEM}-aaaaaaaa", f"{STEM}-bbbbbbbb"], target="tiny")

    assert tag.startswith(f"{STEM}-")
    assert tag != index_tag([f"{STEM}-aaaaaaaa", f"{STEM}-cccccccc"], target="tiny")
    assert tag == index_tag([f"{STEM}-bbbbbbbb", f"{STEM}-aaaaaaaa"], target="tiny")


def test_platforms_of_different_days_have_no_common_tag() -> None:
    with pytest.raises(LockError, match="locked apart") as caught:
        index_tag(["tiny-py313-20261201-aaaaaaaa", "tiny-py313-20261202-bbbbbbbb"], target="tiny")

    assert caught.value.hint == "invoke lock --target tiny --upgrade"


def test_two_images_for_one_platform_make_no_index(images: list[BuiltImage]) -> None:
    named = [NamedImage(name="tiny:1", platform=ARM64, image=built.image) for built in images]

    with pytest.raises(ValueError, match="two images for one platform"):
        image_index(named)


def test_skopeo_finds_both_platforms(
    yard: Yard, images: list[BuiltImage], tmp_path: Path, skopeo: str
) -> None:
    """An independent reader of OCI layouts: it copies the whole index, and one platform of it."""
    index = index_of(yard, images)
    subprocess.run(
        [skopeo, "copy", "--all", f"oci:{index.layout}", f"oci:{tmp_path}/all"],
        check=True,
        capture_output=True,
    )
    one = ["--override-os", "linux", "--override-arch", "arm64"]
    said = subprocess.run(
        [skopeo, *one, "inspect", "--raw", f"oci:{index.layout}"], check=True, capture_output=True
    ).stdout

    assert said == read_layout(index.layout).index
    subprocess.run(
        [skopeo, *one, "copy", f"oci:{index.layout}", f"oci:{tmp_path}/one"], check=True, capture_output=True
    )
    assert read_layout(tmp_path / "one").images[0].config == images[1].image.config
