"""Layout folders: whole or absent, shared with the store, read by skopeo."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.images import AMD64, keep_layer, named, tiny_image, tiny_layout
from trainyard.digest import hex_of
from trainyard.errors import InputError
from trainyard.oci.document import MAX_JSON
from trainyard.oci.entry import file_entry
from trainyard.oci.image import Image
from trainyard.oci.layout import MAX_IMAGES, read_layout, write_layout
from trainyard.oci.naming import NamedImage
from trainyard.oci.runnable import read_runnable
from trainyard.oci.validate import validate_layout
from trainyard.platforms import Platform
from trainyard.store import Store

ARM64 = Platform("linux", "arm64")


def two_images(store: Store) -> list[NamedImage]:
    shared = keep_layer(store, [file_entry("opt/shared", b"s")])
    own = keep_layer(store, [file_entry("usr/own", b"o")])
    return [
        named(tiny_image([shared]), name="tiny:amd"),
        named(tiny_image([shared, own], arch="arm64"), name="tiny:arm", platform=ARM64),
    ]


def blobs(folder: Path) -> list[Path]:
    return sorted((folder / "blobs/sha256").iterdir())


class TestWriting:
    def test_the_folder_holds_what_the_spec_and_docker_look_for(self, store: Store, tmp_path: Path) -> None:
        image = tiny_layout(store, tmp_path / "out")

        inside = sorted(path.name for path in (tmp_path / "out").iterdir())
        assert inside == ["blobs", "index.json", "manifest.json", "oci-layout"]
        assert json.loads((tmp_path / "out/oci-layout").read_bytes()) == {"imageLayoutVersion": "1.0.0"}
        digests = {image.digest, image.config_digest, *(layer.digest for layer in image.layers)}
        assert [f"sha256:{path.name}" for path in blobs(tmp_path / "out")] == sorted(digests)

    def test_every_blob_is_named_after_its_content_and_read_only(self, store: Store, tmp_path: Path) -> None:
        tiny_layout(store, tmp_path / "out")

        for path in blobs(tmp_path / "out"):
            assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
            assert stat.S_IMODE(path.stat().st_mode) == 0o444

    def test_layers_are_the_stores_own_files(self, store: Store, tmp_path: Path) -> None:
        image = tiny_layout(store, tmp_path / "out")

        for layer in image.layers:
            kept = store.blob(hex_of(layer.digest))
            assert kept.samefile(tmp_path / "out/blobs/sha256" / kept.name)

    def test_layers_are_copied_where_a_link_cannot_be(
        self, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def cross_device(self: Path, target: Path) -> None:
            raise OSError(errno.EXDEV, "Invalid cross-device link")

        monkeypatch.setattr(Path, "hardlink_to", cross_device)

        image = tiny_layout(store, tmp_path / "out")

        for layer in image.layers:
            kept = store.blob(hex_of(layer.digest))
            copy = tmp_path / "out/blobs/sha256" / kept.name
            assert not copy.samefile(kept)
            assert copy.read_bytes() == kept.read_bytes()
            assert stat.S_IMODE(copy.stat().st_mode) == 0o444

    def test_a_reflink_is_asked_for_before_a_copy(
        self, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """ioctl_ficlone(2): _IOW(0x94, 9, int)."""
        asked: list[int] = []

        def ioctl(_file: object, request: int, _source: int) -> int:
            asked.append(request)
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")

        def no_link(self: Path, target: Path) -> None:
            raise OSError(errno.EXDEV, "Invalid cross-device link")

        monkeypatch.setattr(Path, "hardlink_to", no_link)
        monkeypatch.setattr(fcntl, "ioctl", ioctl)

        tiny_layout(store, tmp_path / "out")

        assert asked == [(1 << 30) | (4 << 16) | (0x94 << 8) | 9] * 2

    def test_index_json_names_digest_platform_and_tag(self, store: Store, tmp_path: Path) -> None:
        images = two_images(store)
        write_layout(tmp_path / "out", images, blob_of=store.blob)

        index = json.loads((tmp_path / "out/index.json").read_bytes())

        assert index["mediaType"] == "application/vnd.oci.image.index.v1+json"
        assert [
            (item["digest"], item["size"], item["platform"], item["annotations"])
            for item in index["manifests"]
        ] == [
            (
                entry.image.digest,
                len(entry.image.manifest),
                {"os": "linux", "architecture": arch},
                {
                    "org.opencontainers.image.ref.name": tag,
                    "io.containerd.image.name": f"docker.io/library/tiny:{tag}",
                },
            )
            for entry, arch, tag in zip(images, ("amd64", "arm64"), ("amd", "arm"), strict=True)
        ]

    def test_manifest_json_leads_docker_to_the_same_blobs(self, store: Store, tmp_path: Path) -> None:
        image = tiny_layout(store, tmp_path / "out")

        assert json.loads((tmp_path / "out/manifest.json").read_bytes()) == [
            {
                "Config": f"blobs/sha256/{hex_of(image.config_digest)}",
                "RepoTags": ["tiny:1"],
                "Layers": [f"blobs/sha256/{hex_of(layer.digest)}" for layer in image.layers],
            }
        ]

    @pytest.mark.parametrize(
        ("name", "full"),
        [
            ("cuda13.2:1", "docker.io/library/cuda13.2:1"),
            ("team/cuda:1", "docker.io/team/cuda:1"),
            ("registry.example.com/team/cuda:1", "registry.example.com/team/cuda:1"),
            ("localhost/cuda:1", "localhost/cuda:1"),
            ("localhost:5000/cuda:1", "localhost:5000/cuda:1"),
        ],
    )
    def test_short_names_are_dockers(self, store: Store, tmp_path: Path, name: str, full: str) -> None:
        image = tiny_image([keep_layer(store, [file_entry("x", b"")])])
        write_layout(tmp_path / "out", [named(image, name=name)], blob_of=store.blob)

        annotations = json.loads((tmp_path / "out/index.json").read_bytes())["manifests"][0]["annotations"]

        assert annotations == {
            "org.opencontainers.image.ref.name": "1",
            "io.containerd.image.name": full,
        }

    def test_the_same_image_gives_the_same_folder(self, store: Store, tmp_path: Path) -> None:
        for name in ("one", "two"):
            tiny_layout(store, tmp_path / name)

        one, two = (
            {
                path.relative_to(tmp_path / name): path.read_bytes()
                for path in (tmp_path / name).rglob("*.json")
            }
            for name in ("one", "two")
        )
        assert one == two

    def test_a_layer_in_two_images_is_there_once(self, store: Store, tmp_path: Path) -> None:
        write_layout(tmp_path / "out", two_images(store), blob_of=store.blob)

        assert len(blobs(tmp_path / "out")) == 2 + 2 * 2

    @pytest.mark.parametrize(
        ("damage", "said"), [("gone", "not in the cache"), ("cut", "3 bytes in the cache")]
    )
    def test_a_missing_or_cut_blob_is_refused_and_the_old_layout_stays(
        self, store: Store, tmp_path: Path, damage: str, said: str
    ) -> None:
        old = tiny_layout(store, tmp_path / "out")
        record = keep_layer(store, [file_entry("new", b"new")])
        blob = store.blob(hex_of(record.digest))
        blob.unlink()
        if damage == "cut":
            blob.write_bytes(b"cut")

        with pytest.raises(InputError, match=said) as caught:
            write_layout(tmp_path / "out", [named(tiny_image([record]))], blob_of=store.blob)

        assert record.digest in caught.value.message
        assert "invoke clean --layers" in caught.value.hint
        assert read_layout(tmp_path / "out").images[0].digest == old.digest
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "store"]


class TestReplacing:
    def new_image(self, store: Store) -> Image:
        return tiny_image([keep_layer(store, [file_entry("new", b"new")])])

    def test_a_new_layout_takes_the_old_ones_place_whole(self, store: Store, tmp_path: Path) -> None:
        tiny_layout(store, tmp_path / "out")
        image = self.new_image(store)

        write_layout(tmp_path / "out", [named(image)], blob_of=store.blob)

        assert read_layout(tmp_path / "out").images[0].digest == image.digest
        assert len(blobs(tmp_path / "out")) == 3
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "store"]

    def test_an_open_reader_of_the_old_layout_reads_on(self, store: Store, tmp_path: Path) -> None:
        old = tiny_layout(store, tmp_path / "out")
        reader = os.open(tmp_path / "out", os.O_RDONLY)
        with (tmp_path / "out/index.json").open("rb") as stream:
            write_layout(tmp_path / "out", [named(self.new_image(store))], blob_of=store.blob)

            assert json.load(stream)["manifests"][0]["digest"] == old.digest
        os.close(reader)

    def test_dot_folders_of_a_kill_are_removed_by_the_next_write(self, store: Store, tmp_path: Path) -> None:
        for name in (".out.new", ".out.old"):
            (tmp_path / name / "blobs").mkdir(parents=True)
            (tmp_path / name / "blobs/half").write_bytes(b"half")

        tiny_layout(store, tmp_path / "out")

        assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "store"]

    def test_the_dot_folder_of_another_layout_stays(self, store: Store, tmp_path: Path) -> None:
        """dist/cuda/linux-amd64 and dist/cuda/linux-amd64.gzip are neighbours."""
        (tmp_path / ".out.gzip.new").mkdir()

        tiny_layout(store, tmp_path / "out")

        assert (tmp_path / ".out.gzip.new").exists()

    def test_a_kill_in_the_middle_leaves_the_old_layout(self, store: Store, tmp_path: Path) -> None:
        old = tiny_layout(store, tmp_path / "out")
        script = (
            "import os, signal, sys\n"
            "from pathlib import Path\n"
            "from tests.support.images import keep_layer, named, tiny_image\n"
            "from trainyard.oci.entry import file_entry\n"
            "from trainyard.oci.layout import write_layout\n"
            "from trainyard.store import Store\n"
            "here = Path(sys.argv[1])\n"
            "store = Store(here / 'store')\n"
            "layers = [keep_layer(store, [file_entry(f'new{n}', b'n')]) for n in range(3)]\n"
            "asked = []\n"
            "def blob_of(name):\n"
            "    asked.append(name)\n"
            "    if len(asked) == 3:\n"
            "        os.kill(os.getpid(), signal.SIGKILL)\n"
            "    return store.blob(name)\n"
            "write_layout(here / 'out', [named(tiny_image(layers))], blob_of=blob_of)\n"
        )

        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path)],
            env={"PYTHONPATH": str(Path(__file__).parents[1])},
            check=False,
        )

        assert done.returncode == -signal.SIGKILL
        assert validate_layout(tmp_path / "out") == []
        assert read_layout(tmp_path / "out").images[0].digest == old.digest
        assert (tmp_path / ".out.new").exists()
        tiny_layout(store, tmp_path / "out")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "store"]

    def test_a_failing_swap_puts_the_old_layout_back(
        self, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        old = tiny_layout(store, tmp_path / "out")
        image = self.new_image(store)
        rename = Path.rename

        def failing(self: Path, target: Path) -> Path:
            if self.name == ".out.new":
                raise OSError(errno.EIO, "Input/output error")
            return rename(self, target)

        monkeypatch.setattr(Path, "rename", failing)

        with pytest.raises(OSError, match="Input/output error"):
            write_layout(tmp_path / "out", [named(image)], blob_of=store.blob)

        assert read_layout(tmp_path / "out").images[0].digest == old.digest


class TestReading:
    def test_what_was_written_is_read(self, store: Store, tmp_path: Path) -> None:
        image = tiny_layout(store, tmp_path / "out")

        (found,) = read_layout(tmp_path / "out").images

        assert (found.digest, found.manifest) == (image.digest, image.manifest)
        assert (found.config_digest, found.config) == (image.config_digest, image.config)
        assert [(layer.digest, layer.diff_id, layer.size, layer.media_type) for layer in found.layers] == [
            (layer.digest, layer.diff_id, layer.size, layer.media_type) for layer in image.layers
        ]
        assert all(layer.path.stat().st_size == layer.size for layer in found.layers)

    def test_the_runner_reads_our_layouts(self, store: Store, tmp_path: Path) -> None:
        image = tiny_layout(store, tmp_path / "out")

        found = read_runnable(tmp_path / "out", AMD64)

        assert found.digest == image.digest
        assert found.env == (("LANG", "C.UTF-8"), ("PATH", "/usr/bin"))
        assert [layer.diff_id for layer in found.layers] == [layer.diff_id for layer in image.layers]

    def test_no_layout_is_file_not_found(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            read_layout(tmp_path / "nowhere")

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("", "is not JSON"),
            ("[]", "is not a JSON object"),
            ("{}", "'manifests' is not a list"),
            ('{"manifests": [1]}', "'manifests' is not an object"),
            ('{"manifests": [{}]}', "'mediaType' is not a string"),
            ('{"manifests": [{"mediaType": "x"}]}', "'x' is not an image manifest"),
            ("[" * 100_000, "is not JSON"),
        ],
    )
    def test_a_malformed_index_is_an_input_error_that_names_it(
        self, store: Store, tmp_path: Path, text: str, said: str
    ) -> None:
        tiny_layout(store, tmp_path / "out")
        (tmp_path / "out/index.json").write_text(text)

        with pytest.raises(InputError, match=said) as caught:
            read_layout(tmp_path / "out")

        assert "out/index.json" in caught.value.message
        assert "invoke build" in caught.value.hint

    def test_an_index_over_the_bound_is_not_read_to_its_end(self, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        with (tmp_path / "out/index.json").open("wb") as stream:
            stream.truncate(1 << 40)

        with pytest.raises(InputError, match=f"larger than any manifest or config \\({MAX_JSON} bytes\\)"):
            read_layout(tmp_path / "out")

    def test_too_many_images_are_refused(self, store: Store, tmp_path: Path) -> None:
        tiny_layout(store, tmp_path / "out")
        path = tmp_path / "out/index.json"
        index = json.loads(path.read_bytes())
        path.write_text(json.dumps({"manifests": index["manifests"] * (MAX_IMAGES + 1)}))

        with pytest.raises(InputError, match=f"more than {MAX_IMAGES}"):
            read_layout(tmp_path / "out")

    @pytest.mark.parametrize("which", ["digest", "config_digest"])
    def test_a_document_that_is_not_its_digest_is_refused(
        self, store: Store, tmp_path: Path, which: str
    ) -> None:
        image = tiny_layout(store, tmp_path / "out")
        path = tmp_path / "out/blobs/sha256" / hex_of(getattr(image, which))
        data = path.read_bytes()
        path.chmod(0o644)
        path.write_bytes(data.replace(b"sha256:", b"sha256;"))

        with pytest.raises(InputError, match=f"{path.name} has sha256:"):
            read_layout(tmp_path / "out")

    def test_a_layer_that_was_cut_short_is_refused(self, store: Store, tmp_path: Path) -> None:
        image = tiny_layout(store, tmp_path / "out")
        path = tmp_path / "out/blobs/sha256" / hex_of(image.layers[0].digest)
        path.unlink()
        path.write_bytes(b"cut")

        with pytest.raises(InputError, match=f"{path.name} has 3 bytes, not {image.layers[0].size}"):
            read_layout(tmp_path / "out")

    def test_a_layer_that_is_gone_is_file_not_found(self, store: Store, tmp_path: Path) -> None:
        image = tiny_layout(store, tmp_path / "out")
        (tmp_path / "out/blobs/sha256" / hex_of(image.layers[0].digest)).unlink()

        with pytest.raises(FileNotFoundError):
            read_layout(tmp_path / "out")

    def test_a_digest_that_is_a_path_is_refused(self, store: Store, tmp_path: Path) -> None:
        tiny_layout(store, tmp_path / "out")
        path = tmp_path / "out/index.json"
        index = json.loads(path.read_bytes())
        index["manifests"][0]["digest"] = "sha256:../../../../etc/passwd"
        path.write_text(json.dumps(index))

        with pytest.raises(InputError, match="not a sha256 digest"):
            read_layout(tmp_path / "out")


@pytest.mark.parametrize("compression", ["zstd", "gzip"])
class TestSkopeo:
    def test_inspect_gives_back_our_manifest_byte_for_byte(
        self, store: Store, tmp_path: Path, skopeo: str, compression: str
    ) -> None:
        image = tiny_layout(store, tmp_path / "out", compression=compression)

        done = subprocess.run(
            [skopeo, "inspect", "--raw", f"oci:{tmp_path}/out"], capture_output=True, check=True
        )

        assert done.stdout == image.manifest

    def test_copy_verifies_every_blob_and_keeps_the_digest(
        self, store: Store, tmp_path: Path, skopeo: str, compression: str
    ) -> None:
        image = tiny_layout(store, tmp_path / "out", compression=compression)

        subprocess.run(
            [skopeo, "copy", "--insecure-policy", f"oci:{tmp_path}/out:1", f"dir:{tmp_path}/copy"],
            capture_output=True,
            check=True,
        )

        assert (tmp_path / "copy/manifest.json").read_bytes() == image.manifest
        copied = {path.name for path in (tmp_path / "copy").iterdir()}
        assert {hex_of(layer.digest) for layer in image.layers} <= copied

    def test_the_config_is_understood(
        self, store: Store, tmp_path: Path, skopeo: str, compression: str
    ) -> None:
        image = tiny_layout(store, tmp_path / "out", compression=compression)

        done = subprocess.run(
            [skopeo, "inspect", f"oci:{tmp_path}/out"], capture_output=True, check=True, text=True
        )

        found = json.loads(done.stdout)
        assert found["Digest"] == image.digest
        assert found["Labels"] == {"org.example.name": "tiny"}
        assert found["Architecture"] == "amd64"
        assert found["Layers"] == [layer.digest for layer in image.layers]


def test_skopeo_reads_the_tarred_folder_as_a_docker_archive(
    store: Store, tmp_path: Path, skopeo: str
) -> None:
    """The way of `docker load` of older engines: manifest.json, and blobs by path. They know gzip only."""
    image = tiny_layout(store, tmp_path / "out", compression="gzip")
    subprocess.run(["tar", "-C", tmp_path / "out", "-cf", tmp_path / "a.tar", "."], check=True)

    done = subprocess.run(
        [skopeo, "inspect", "--config", f"docker-archive:{tmp_path}/a.tar:tiny:1"],
        capture_output=True,
        check=True,
    )

    assert json.loads(done.stdout)["rootfs"]["diff_ids"] == [layer.diff_id for layer in image.layers]
