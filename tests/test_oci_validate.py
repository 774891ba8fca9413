"""Validation: a sound layout has nothing to say; every kind of damage is named, and nothing raises."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support.images import AMD64, keep_layer, named, tiny_image, tiny_layout
from trainyard.digest import canonical_json, hex_of, oci_digest
from trainyard.oci.entry import file_entry
from trainyard.oci.image import Image
from trainyard.oci.layout import write_layout
from trainyard.oci.validate import validate_layout
from trainyard.platforms import Platform
from trainyard.store import Store

Json = dict[str, object]


def blob(layout: Path, digest: str) -> Path:
    return layout / "blobs/sha256" / hex_of(digest)


def overwrite(path: Path, data: bytes) -> None:
    path.unlink()  # it may be a link into the store
    path.write_bytes(data)


def change_json(path: Path, change: Callable[[Json], object]) -> None:
    document = json.loads(path.read_bytes())
    change(document)
    overwrite(path, canonical_json(document))


def rewrite(
    layout: Path, image: Image, *, manifest: Mapping[str, object] = {}, config: Mapping[str, object] = {}
) -> None:
    """Another manifest or config with right digests and sizes all the way up, manifest.json left out."""
    new_config = canonical_json({**json.loads(image.config), **config})
    document = json.loads(image.manifest)
    document["config"] |= {"digest": oci_digest(new_config), "size": len(new_config)}
    new_manifest = canonical_json({**document, **manifest})
    blob(layout, image.config_digest).unlink()
    blob(layout, image.digest).unlink()
    blob(layout, oci_digest(new_config)).write_bytes(new_config)
    blob(layout, oci_digest(new_manifest)).write_bytes(new_manifest)
    (layout / "manifest.json").unlink()

    def point(index: Json) -> None:
        index["manifests"][0] |= {"digest": oci_digest(new_manifest), "size": len(new_manifest)}  # type: ignore[index]

    change_json(layout / "index.json", point)


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def image(store: Store, layout: Path) -> Image:
    return tiny_layout(store, layout)


@pytest.mark.parametrize("compression", ["zstd", "gzip"])
def test_a_sound_layout_has_nothing_to_say(store: Store, layout: Path, compression: str) -> None:
    tiny_layout(store, layout, compression=compression)

    assert validate_layout(layout) == []


def test_a_sound_layout_of_two_platforms_has_nothing_to_say(store: Store, layout: Path) -> None:
    shared = keep_layer(store, [file_entry("x", b"x")])
    images = [
        named(tiny_image([shared]), name="a:1", platform=AMD64),
        named(tiny_image([shared], arch="arm64"), name="b:1", platform=Platform("linux", "arm64")),
    ]
    write_layout(layout, images, blob_of=store.blob)

    assert validate_layout(layout) == []


def test_a_layout_that_skopeo_wrote_has_nothing_to_say(
    image: Image, layout: Path, tmp_path: Path, skopeo: str
) -> None:
    subprocess.run(
        [skopeo, "copy", "--insecure-policy", f"oci:{layout}", f"oci:{tmp_path}/theirs:1"],
        capture_output=True,
        check=True,
    )

    assert image.layers
    assert validate_layout(tmp_path / "theirs") == []


class TestBlobs:
    def test_a_flipped_bit_in_a_layer_is_found_by_its_digest(self, image: Image, layout: Path) -> None:
        digest = image.layers[1].digest
        data = bytearray(blob(layout, digest).read_bytes())
        data[len(data) // 2] ^= 1
        overwrite(blob(layout, digest), bytes(data))

        assert f"layer {digest}: digest: '{oci_digest(bytes(data))}', expected '{digest}'" in validate_layout(
            layout
        )

    def test_a_cut_layer_is_found_by_digest_and_size(self, image: Image, layout: Path) -> None:
        layer = image.layers[1]
        data = blob(layout, layer.digest).read_bytes()[:-7]
        overwrite(blob(layout, layer.digest), data)

        found = validate_layout(layout)

        assert f"layer {layer.digest}: size: {layer.size - 7}, expected {layer.size}" in found
        assert any(line.startswith(f"layer {layer.digest}: digest:") for line in found)

    def test_bytes_after_the_stream_are_found(self, image: Image, layout: Path) -> None:
        layer = image.layers[0]
        overwrite(blob(layout, layer.digest), blob(layout, layer.digest).read_bytes() + b"tail")

        assert f"layer {layer.digest}: size: {layer.size + 4}, expected {layer.size}" in validate_layout(
            layout
        )

    def test_a_missing_layer_is_named(self, image: Image, layout: Path) -> None:
        path = blob(layout, image.layers[0].digest)
        path.unlink()

        assert validate_layout(layout) == [f"{path}: No such file or directory"]

    def test_a_blob_that_nobody_names_is_found(self, image: Image, layout: Path) -> None:
        digest = oci_digest(b"stray")
        blob(layout, digest).write_bytes(b"stray")
        (layout / "blobs/sha512").mkdir()
        (layout / "blobs/sha512/x").touch()

        assert image.layers
        assert validate_layout(layout) == [
            f"blobs/sha256/'{hex_of(digest)}': no document names it",
            "blobs/sha512/'x': no document names it",
        ]

    def test_a_pipe_in_a_blobs_place_is_not_waited_for(self, image: Image, layout: Path) -> None:
        path = blob(layout, image.layers[0].digest)
        path.unlink()
        os.mkfifo(path)

        assert validate_layout(layout) == [f"blobs/sha256/{path.name} is not a regular file"]

    def test_a_link_out_of_the_layout_is_not_followed(
        self, image: Image, layout: Path, tmp_path: Path
    ) -> None:
        path = blob(layout, image.layers[0].digest)
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")

        assert validate_layout(layout) == [f"blobs/sha256/{path.name} is not a regular file"]


class TestManifest:
    def test_a_wrong_size_in_the_manifest_is_found(self, image: Image, layout: Path) -> None:
        layers = json.loads(image.manifest)["layers"]
        layers[0]["size"] += 1
        rewrite(layout, image, manifest={"layers": layers})

        size = image.layers[0].size
        assert validate_layout(layout) == [
            f"layer {image.layers[0].digest}: size: {size}, expected {size + 1}"
        ]

    def test_a_media_type_that_the_blob_is_not_is_found(self, image: Image, layout: Path) -> None:
        layers = json.loads(image.manifest)["layers"]
        layers[0]["mediaType"] = "application/vnd.oci.image.layer.v1.tar+gzip"
        rewrite(layout, image, manifest={"layers": layers})

        (line,) = validate_layout(layout)
        assert line.startswith("damaged gzip stream")

    def test_a_docker_media_type_is_found(self, image: Image, layout: Path) -> None:
        """podman and skopeo refuse zstd under Docker's names."""
        layers = json.loads(image.manifest)["layers"]
        layers[0]["mediaType"] = "application/vnd.docker.image.rootfs.diff.tar.zstd"
        rewrite(layout, image, manifest={"layers": layers})

        assert any("layer of media type 'application/vnd.docker" in line for line in validate_layout(layout))

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"schemaVersion": 1}, "schemaVersion: 1, expected 2"),
            (
                {"mediaType": "application/json"},
                "mediaType: 'application/json', expected 'application/vnd.oci",
            ),
            ({"layers": None}, "'layers' is not a list"),
            ({"layers": ["x"]}, "'layers' is not an object"),
            ({"config": None}, "'config' is not an object"),
        ],
    )
    def test_a_malformed_manifest_is_found(self, image: Image, layout: Path, change: Json, said: str) -> None:
        if "config" in change:
            overwrite(blob(layout, image.digest), canonical_json({**json.loads(image.manifest), **change}))
        else:
            rewrite(layout, image, manifest=change)

        assert any(said in line for line in validate_layout(layout))


class TestConfig:
    def diff_ids(self, image: Image) -> list[str]:
        return [layer.diff_id for layer in image.layers]

    def test_a_wrong_diff_id_is_found(self, image: Image, layout: Path) -> None:
        """The digest of the compressed bytes in its place is what builders got wrong before."""
        digest = image.layers[0].digest
        diff_ids = [digest, image.layers[1].diff_id]
        rewrite(layout, image, config={"rootfs": {"type": "layers", "diff_ids": diff_ids}})

        assert validate_layout(layout) == [
            f"layer {digest}: diff id: '{digest}', expected '{image.layers[0].diff_id}'"
        ]

    @pytest.mark.parametrize("count", [0, 1, 3])
    def test_another_number_of_diff_ids_is_found(self, image: Image, layout: Path, count: int) -> None:
        diff_ids = [*self.diff_ids(image), image.layers[0].diff_id][:count]
        rewrite(layout, image, config={"rootfs": {"type": "layers", "diff_ids": diff_ids}})

        (line,) = validate_layout(layout)
        assert line.endswith(f"number of diff ids: {count}, expected 2")

    @pytest.mark.parametrize("count", [0, 1, 3])
    def test_another_number_of_history_entries_is_found(self, image: Image, layout: Path, count: int) -> None:
        entry = {"created": "2026-12-01T00:00:00Z", "created_by": "x"}
        rewrite(layout, image, config={"history": [entry] * count})

        (line,) = validate_layout(layout)
        assert line.endswith(f"history entries with a layer: {count}, expected 2")

    def test_history_of_no_layer_does_not_count(self, image: Image, layout: Path) -> None:
        entry = {"created": "2026-12-01T00:00:00Z", "created_by": "x"}
        rewrite(layout, image, config={"history": [entry, {**entry, "empty_layer": True}, entry]})

        assert validate_layout(layout) == []

    @pytest.mark.parametrize("created", ["", "yesterday"])
    def test_an_empty_created_is_found(self, image: Image, layout: Path, created: str) -> None:
        rewrite(layout, image, config={"created": created})

        (line,) = validate_layout(layout)
        assert line.endswith(f"created {created!r} is no RFC 3339 time")

    def test_another_architecture_than_the_index_says_is_found(self, image: Image, layout: Path) -> None:
        rewrite(layout, image, config={"architecture": "arm64"})

        (line,) = validate_layout(layout)
        assert line.endswith("os and architecture: ('linux', 'arm64'), expected ('linux', 'amd64')")

    def test_another_type_of_rootfs_is_found(self, image: Image, layout: Path) -> None:
        rewrite(layout, image, config={"rootfs": {"type": "x", "diff_ids": self.diff_ids(image)}})

        (line,) = validate_layout(layout)
        assert line.endswith("rootfs.type: 'x', expected 'layers'")


class TestTop:
    def test_a_folder_that_is_no_layout_has_a_line_for_each_missing_file(self, tmp_path: Path) -> None:
        found = validate_layout(tmp_path / "nowhere")

        assert [Path(line.partition(": ")[0]).name for line in found] == ["oci-layout", "index.json"]

    def test_another_layout_version_is_found(self, image: Image, layout: Path) -> None:
        assert image.layers
        overwrite(layout / "oci-layout", b'{"imageLayoutVersion":"2.0.0"}')

        assert validate_layout(layout) == ["oci-layout: imageLayoutVersion: '2.0.0', expected '1.0.0'"]

    def test_an_index_without_an_image_is_found(self, image: Image, layout: Path) -> None:
        assert image.layers
        overwrite(layout / "index.json", b'{"schemaVersion":2,"manifests":[]}')

        assert "index.json: no image" in validate_layout(layout)

    def test_one_bad_image_does_not_hide_another(self, store: Store, layout: Path) -> None:
        images = [tiny_image([keep_layer(store, [file_entry(name, b"")])]) for name in "ab"]
        write_layout(layout, [named(item) for item in images], blob_of=store.blob)
        overwrite(blob(layout, images[0].digest), b"not JSON")
        blob(layout, images[1].layers[0].digest).unlink()

        found = validate_layout(layout)

        assert any("is not JSON" in line for line in found)
        assert any(hex_of(images[1].layers[0].digest) in line and "No such file" in line for line in found)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("x", "manifest.json is not JSON"),
            ("{}", "'images' is not a list"),
            ("[]", "manifest.json: layers of 'blobs/sha256/"),
            ('[{"Config": "blobs/sha256/x", "Layers": []}]', "manifest.json: layers of 'blobs/sha256/x': []"),
        ],
    )
    def test_a_manifest_json_that_tells_of_another_image_is_found(
        self, image: Image, layout: Path, text: str, said: str
    ) -> None:
        assert image.layers
        overwrite(layout / "manifest.json", text.encode())

        assert any(line.startswith(said) or said in line for line in validate_layout(layout))

    def test_a_manifest_json_with_layers_in_another_order_is_found(self, image: Image, layout: Path) -> None:
        assert image.layers
        documents = json.loads((layout / "manifest.json").read_bytes())
        documents[0]["Layers"].reverse()
        overwrite(layout / "manifest.json", canonical_json(documents))

        (line,) = validate_layout(layout)
        assert line.startswith("manifest.json: layers of ")

    def test_no_manifest_json_is_fine(self, image: Image, layout: Path) -> None:
        assert image.layers
        (layout / "manifest.json").unlink()

        assert validate_layout(layout) == []


@pytest.mark.parametrize("seed", range(30))
def test_random_damage_is_always_found_and_never_raises(store: Store, layout: Path, seed: int) -> None:
    """One byte of one file, changed or cut away."""
    tiny_layout(store, layout)
    source = random.Random(seed)
    path = source.choice(sorted(item for item in layout.rglob("*") if item.is_file()))
    data = bytearray(path.read_bytes())
    position = source.randrange(len(data))
    if source.random() < 0.5:
        data[position] ^= 1 << source.randrange(8)
    else:
        del data[position:]
    before = path.read_bytes()
    overwrite(path, bytes(data))

    found = validate_layout(layout)

    # In index.json and manifest.json names and tags are free text; everything else is held by a digest.
    assert found or path.name in ("index.json", "manifest.json"), f"{path.name} at {position}: {before!r}"
