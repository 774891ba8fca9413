"""Config and manifest: exact bytes, as the OCI image spec wants them."""

from __future__ import annotations

import hashlib
import json

import pytest

from tests.support.images import CREATED, tiny_image
from trainyard.digest import canonical_json, oci_digest
from trainyard.oci.image import Image, ImageConfig, make_image
from trainyard.store import LayerRecord


def record(number: int, *, compression: str = "zstd") -> LayerRecord:
    return LayerRecord(
        key=f"key{number}",
        diff_id=oci_digest(b"tar%d" % number),
        digest=oci_digest(b"blob%d" % number),
        size=10 + number,
        content_size=100,
        files=1,
        media_type=f"application/vnd.oci.image.layer.v1.tar+{compression}",
    )


LAYERS = [record(1), record(2)]
BARE = ImageConfig(os="darwin", architecture="arm64", created=CREATED)


def test_the_manifest_is_what_the_spec_describes() -> None:
    image = tiny_image(LAYERS)

    assert json.loads(image.manifest) == {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": f"sha256:{hashlib.sha256(image.config).hexdigest()}",
            "size": len(image.config),
        },
        "layers": [
            {
                "mediaType": "application/vnd.oci.image.layer.v1.tar+zstd",
                "digest": layer.digest,
                "size": layer.size,
            }
            for layer in LAYERS
        ],
        "annotations": {"org.example.kind": "test"},
    }


def test_the_config_is_what_the_spec_describes() -> None:
    assert json.loads(tiny_image(LAYERS).config) == {
        "os": "linux",
        "architecture": "amd64",
        "created": CREATED,
        "config": {
            "Env": ["LANG=C.UTF-8", "PATH=/usr/bin"],
            "Entrypoint": ["/bin/true"],
            "Cmd": ["--help"],
            "User": "1000:0",
            "WorkingDir": "/home",
            "Labels": {"org.example.name": "tiny"},
            "StopSignal": "SIGTERM",
        },
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in LAYERS]},
        "history": [
            {"created": CREATED, "created_by": "layer 0"},
            {"created": CREATED, "created_by": "layer 1"},
        ],
    }


def test_the_digests_are_those_of_the_bytes() -> None:
    image = tiny_image(LAYERS)

    assert image.digest == f"sha256:{hashlib.sha256(image.manifest).hexdigest()}"
    assert image.config_digest == f"sha256:{hashlib.sha256(image.config).hexdigest()}"


def test_the_bytes_are_frozen() -> None:
    """A change here changes the digest of every image that was ever recorded."""
    image = tiny_image(LAYERS)

    assert image.config_digest == "sha256:91e099c8cef366ae532970be0ac95c1c2daeac209f5605a1f08b779d1df412fd"
    assert image.digest == "sha256:1c422cb223081a232493da908e0241aa5553e57bac474f8f2b4b62055a8d23c3"


def test_documents_are_canonical() -> None:
    image = tiny_image(LAYERS)

    for data in (image.config, image.manifest):
        assert canonical_json(json.loads(data)) == data


def test_the_compression_does_not_reach_the_config() -> None:
    """zstd and gzip profiles are one image to `docker images`: the image ID is the config's digest."""
    zstd, gzip = tiny_image([record(1)]), tiny_image([record(1, compression="gzip")])

    assert zstd.config_digest == gzip.config_digest
    assert zstd.digest != gzip.digest


def test_empty_fields_are_left_out() -> None:
    image = make_image(BARE, [], history=[])

    assert json.loads(image.config)["config"] == {}
    assert "annotations" not in json.loads(image.manifest)


@pytest.mark.parametrize(
    "created", ["", "2026-12-01", "2026-12-01T00:00:00", "2026-12-01T00:00:00+00:00", "now", CREATED + "\n"]
)
def test_a_created_that_an_engine_could_choke_on_cannot_be_made(created: str) -> None:
    with pytest.raises(ValueError, match="created must be like"):
        ImageConfig(os="linux", architecture="amd64", created=created)


@pytest.mark.parametrize("history", [[], ["one"], ["one", "two", "three"]])
def test_every_layer_has_one_line_of_history(history: list[str]) -> None:
    with pytest.raises(ValueError, match="2 layers"):
        make_image(BARE, LAYERS, history=history)


def test_other_labels_make_another_image_and_leave_the_first_alone() -> None:
    labelled = BARE.with_labels((("a", "1"),))

    assert make_image(labelled, [], history=[]).digest != make_image(BARE, [], history=[]).digest
    assert (labelled.labels, BARE.labels) == ((("a", "1"),), ())


def test_labels_in_another_order_are_the_same_image() -> None:
    one = BARE.with_labels((("a", "1"), ("b", "2")))
    two = BARE.with_labels((("b", "2"), ("a", "1")))

    assert make_image(one, [], history=[]) == make_image(two, [], history=[])


def test_layers_in_another_order_are_another_image() -> None:
    def made(layers: list[LayerRecord]) -> Image:
        return make_image(BARE, layers, history=["x", "x"])

    assert made(LAYERS).config_digest != made(LAYERS[::-1]).config_digest
