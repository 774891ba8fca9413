"""What a layout says of an image's process is read whole, or refused by file name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.layouts import Raw, layer, write_layout
from trainyard.errors import InputError
from trainyard.oci.runnable import read_runnable
from trainyard.platforms import Platform

AMD64, ARM64 = Platform("linux", "amd64"), Platform("linux", "arm64")
PROCESS = {
    "Env": ["A=1", "B=x=y"],
    "User": "1000:0",
    "WorkingDir": "/home",
    "Entrypoint": ["/tini", "--"],
    "Cmd": ["sh"],
}


def test_the_process_and_both_digests_of_each_layer_are_read(tmp_path: Path) -> None:
    one = layer([Raw(name="a")])
    digest = write_layout(tmp_path, [one], config=PROCESS)

    image = read_runnable(tmp_path, AMD64)

    assert image.digest == digest
    assert image.env == (("A", "1"), ("B", "x=y"))
    assert (image.user, image.working_dir, image.entrypoint, image.cmd) == (
        "1000:0",
        "/home",
        ("/tini", "--"),
        ("sh",),
    )
    assert [(found.digest, found.diff_id, found.size) for found in image.layers] == [
        (one.digest, one.diff_id, len(one.blob))
    ]


def test_an_image_without_a_process_runs_as_root_in_the_root_folder(tmp_path: Path) -> None:
    write_layout(tmp_path, [])

    image = read_runnable(tmp_path, AMD64)

    assert (image.user, image.working_dir, image.entrypoint) == ("", "/", ())


def test_a_platform_that_is_not_there_is_refused(tmp_path: Path) -> None:
    write_layout(tmp_path, [])

    with pytest.raises(InputError, match="no image for linux/arm64"):
        read_runnable(tmp_path, ARM64)


def test_a_folder_that_is_no_layout_is_refused_with_the_way_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"index\.json: No such file") as caught:
        read_runnable(tmp_path, AMD64)

    assert "invoke build" in caught.value.hint


def test_a_changed_config_is_refused_by_its_digest(tmp_path: Path) -> None:
    write_layout(tmp_path, [], config=PROCESS)
    index = json.loads((tmp_path / "index.json").read_text())
    blobs = tmp_path / "blobs" / "sha256"
    manifest = json.loads((blobs / index["manifests"][0]["digest"][7:]).read_text())
    config = blobs / manifest["config"]["digest"][7:]
    config.write_text(config.read_text().replace("1000:0", "0:0"))

    with pytest.raises(InputError, match=rf"{config.name} has sha256:[0-9a-f]+"):
        read_runnable(tmp_path, AMD64)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"manifests": "x"}, "'manifests' is not a list"),
        ({"manifests": []}, "no image for"),
        ({"manifests": ["x"]}, "'manifests' is not an object"),
    ],
)
def test_an_index_of_another_shape_is_refused(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    write_layout(tmp_path, [])
    (tmp_path / "index.json").write_text(json.dumps(change))

    with pytest.raises(InputError, match=message):
        read_runnable(tmp_path, AMD64)


def test_a_digest_that_is_a_path_is_refused(tmp_path: Path) -> None:
    write_layout(tmp_path, [])
    index = json.loads((tmp_path / "index.json").read_text())
    index["manifests"][0]["digest"] = "sha256:../../../etc/passwd"
    (tmp_path / "index.json").write_text(json.dumps(index))

    with pytest.raises(InputError, match="digest"):
        read_runnable(tmp_path, AMD64)


def test_an_index_that_is_not_json_or_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        read_runnable(tmp_path, AMD64)

    with (tmp_path / "index.json").open("wb") as stream:
        stream.truncate(100 << 20)
    with pytest.raises(InputError, match="larger than any"):
        read_runnable(tmp_path, AMD64)
