"""`invoke clean`: what goes, what stays, and how much disk that gives back."""

from __future__ import annotations

import fcntl
from pathlib import Path
from random import Random

import pytest

from tests.support.plans import Yard, wheel_layer
from tests.support.project import workspace_of
from tests.support.wheels import build_wheel
from trainyard.commands.clean import Freed, clean
from trainyard.errors import TrainyardError
from trainyard.oci.validate import validate_layout
from trainyard.workspace import Workspace


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    """A store with one image of two layers, built."""
    made = Yard(tmp_path)
    wheel = build_wheel(tmp_path, files={"demo.bin": Random(1).randbytes(1_100_000)}, compression=0)
    made.build(made.plan([wheel], files={"etc/x": b"x" * 1000}))
    return made


@pytest.fixture
def space(yard: Yard) -> Workspace:
    return workspace_of(yard.project.root, cache=yard.store.root)


def disk(*folders: Path) -> int:
    """Bytes of all files, each inode once."""
    files = [path.lstat() for folder in folders for path in folder.rglob("*") if path.is_file()]
    return sum({one.st_ino: one.st_size for one in files}.values())


def freed(
    space: Workspace, *, layers: bool = False, inputs: bool = False, dist: bool = False
) -> dict[str, int]:
    found: tuple[Freed, ...] = clean(space, layers=layers, inputs=inputs, dist=dist)
    return {item.what: item.bytes for item in found}


def test_what_is_said_to_be_given_back_is_what_the_disk_gets(space: Workspace, yard: Yard) -> None:
    before = disk(yard.folder)

    said = freed(space, layers=True, dist=True, inputs=True)

    assert sum(said.values()) == before - disk(yard.folder) > 0


def test_without_a_flag_only_what_needs_no_download_goes(space: Workspace, yard: Yard) -> None:
    said = freed(space)

    assert set(said) == {"images", "layers", "blobs", "facts"}
    assert list((yard.store.root / "inputs").iterdir())
    assert yard.dist() == []


def test_blobs_that_an_image_still_holds_give_nothing_back(space: Workspace, yard: Yard) -> None:
    """Deleting one of two names of a file frees no byte."""
    assert freed(space, layers=True)["blobs"] == 0
    assert validate_layout(yard.project.root / "dist" / "tiny" / "linux-amd64") == []


def test_an_image_whose_blobs_the_store_still_holds_gives_back_its_documents_alone(
    space: Workspace, yard: Yard
) -> None:
    blobs = sum(blob.stat().st_size for blob in yard.blobs())

    said = freed(space, dist=True)

    assert 0 < said["images"] < 10_000 < blobs


def test_a_layer_that_two_images_share_is_counted_once_with_the_last_of_its_links(
    space: Workspace, yard: Yard
) -> None:
    layout = yard.project.root / "dist" / "tiny" / "linux-amd64"
    other = yard.project.root / "dist" / "other" / "linux-amd64"
    other.mkdir(parents=True)
    for blob in (layout / "blobs" / "sha256").iterdir():
        (other / blob.name).hardlink_to(blob)
    freed(space, layers=True)
    before = disk(yard.folder)

    said = freed(space, dist=True)

    assert said["images"] == before - disk(yard.folder) > 1_000_000


def test_inputs_go_only_when_asked_for(space: Workspace, yard: Yard) -> None:
    size = disk(yard.store.root / "inputs")

    assert freed(space, inputs=True) == {"inputs": size}
    assert yard.blobs()


def test_cleaning_twice_gives_nothing_the_second_time(space: Workspace) -> None:
    freed(space, layers=True, inputs=True, dist=True)

    assert freed(space, layers=True, inputs=True, dist=True) == {}


def test_a_link_is_removed_and_not_followed(space: Workspace, yard: Yard, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x", "utf-8")
    (yard.store.root / "trees").mkdir()
    (yard.store.root / "trees" / "link").symlink_to(outside)

    freed(space, layers=True)

    assert (outside / "precious").exists()
    assert not (yard.store.root / "trees").exists()


def test_nothing_is_removed_under_a_running_build(space: Workspace, yard: Yard) -> None:
    with (yard.store.root / "lock").open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        with pytest.raises(TrainyardError, match="another trainyard"):
            freed(space, layers=True)

    assert yard.blobs()


def test_after_a_clean_the_same_image_is_built_again(space: Workspace, yard: Yard, tmp_path: Path) -> None:
    wheel = yard.admit(tmp_path / "demo-1.0-py3-none-any.whl")
    before = yard.assembler().build([wheel_layer(wheel)])[0].record
    freed(space, layers=True)

    again = yard.assembler().build([wheel_layer(wheel)])[0]

    assert not again.cached
    assert again.record == before
