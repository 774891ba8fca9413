"""Layers become a root folder, and nothing in a layer gets out of it."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import shutil
import stat
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.layouts import MTIME, Layer, Raw, folder, layer, link, tar, write_layout
from trainyard.errors import InputError, SpaceError
from trainyard.oci.runnable import read_runnable
from trainyard.oci.unpack import UnpackedImage, unpack_image
from trainyard.platforms import Platform
from trainyard.store import Store

AMD64 = Platform("linux", "amd64")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
BASE = [folder("usr"), folder("usr/bin"), Raw(name="usr/bin/tool", data=b"tool\n", mode=0o755)]


def unpack(
    tmp_path: Path,
    store: Store,
    *layers: Layer | Sequence[Raw],
    owners: bool = False,
    size: int | None = None,
) -> UnpackedImage:
    made = [one if isinstance(one, Layer) else layer(one) for one in layers]
    layout = tmp_path / "layout"
    write_layout(layout, made)
    return unpack_image(read_runnable(layout, AMD64), store, owners=owners, content_size=size)


def leftovers(store: Store) -> list[str]:
    trees = store.root / "trees"
    return (
        [path.name for path in trees.iterdir() if not path.name.endswith(".lock")] if trees.exists() else []
    )


def test_files_directories_and_links_are_what_the_tar_says(tmp_path: Path, store: Store) -> None:
    members = [
        *BASE,
        link("bin", "usr/bin"),
        Raw(name="usr/bin/twin", kind=tarfile.LNKTYPE, link="usr/bin/tool"),
    ]

    root = unpack(tmp_path, store, members).root

    tool = root / "usr/bin/tool"
    assert tool.read_bytes() == b"tool\n"
    assert stat.S_IMODE(tool.stat().st_mode) == 0o755
    assert tool.stat().st_mtime == MTIME
    assert (root / "bin").readlink() == Path("usr/bin")
    assert (root / "usr/bin/twin").samefile(tool)


@needs_root
def test_root_gives_files_directories_and_links_their_owners(tmp_path: Path, store: Store) -> None:
    members = [folder("home", mode=0o2775, uid=7, gid=8), Raw(name="home/f", uid=9, gid=10, mode=0o4750)]

    root = unpack(tmp_path, store, members, owners=True).root

    home, file = (root / "home").stat(), (root / "home/f").stat()
    assert (home.st_uid, home.st_gid, stat.S_IMODE(home.st_mode)) == (7, 8, 0o2775)
    assert (file.st_uid, file.st_gid, stat.S_IMODE(file.st_mode)) == (9, 10, 0o4750)


def test_without_owners_files_stay_the_callers_and_readable(tmp_path: Path, store: Store) -> None:
    members = [folder("shut", mode=0o000, uid=7), Raw(name="shut/f", data=b"x", mode=0o000, uid=7)]

    root = unpack(tmp_path, store, members).root

    assert (root / "shut/f").read_bytes() == b"x"
    assert (root / "shut/f").stat().st_uid == os.geteuid()
    assert stat.S_IMODE((root / "shut").stat().st_mode) == 0o700


@pytest.mark.parametrize("compression", ["zstd", "gzip", "none"])
def test_each_compression_gives_the_same_files(tmp_path: Path, store: Store, compression: str) -> None:
    root = unpack(tmp_path, store, layer(BASE, compression=compression)).root

    assert (root / "usr/bin/tool").read_bytes() == b"tool\n"


def test_a_file_larger_than_every_buffer_arrives_whole(tmp_path: Path, store: Store) -> None:
    data = hashlib.shake_128(b"seed").digest(5_000_001)

    root = unpack(tmp_path, store, [Raw(name="big", data=data), Raw(name="after", data=b"y")]).root

    assert (root / "big").read_bytes() == data
    assert (root / "after").read_bytes() == b"y"


def test_a_path_longer_than_a_ustar_header_arrives_whole(tmp_path: Path, store: Store) -> None:
    path = "/".join(["d" * 90] * 4)
    parents = ["/".join(path.split("/")[:depth]) for depth in range(1, 4)]

    root = unpack(tmp_path, store, [*map(folder, parents), Raw(name=path, data=b"deep")]).root

    assert (root / path).read_bytes() == b"deep"


def test_later_layers_decide_the_attributes_of_a_shared_directory(tmp_path: Path, store: Store) -> None:
    root = unpack(tmp_path, store, [folder("d", mode=0o755)], [folder("d", mode=0o775), Raw(name="d/f")]).root

    assert stat.S_IMODE((root / "d").stat().st_mode) == 0o775


def test_mount_points_are_there_for_an_image_that_has_none(tmp_path: Path, store: Store) -> None:
    root = unpack(tmp_path, store, BASE).root

    assert {path.name for path in root.iterdir()} == {"usr", "dev", "proc", "sys", "run", "tmp", "etc"}
    assert stat.S_IMODE((root / "tmp").stat().st_mode) == 0o1777


def test_nobody_else_can_reach_the_unpacked_files(tmp_path: Path, store: Store) -> None:
    unpacked = unpack(tmp_path, store, BASE)

    assert stat.S_IMODE(unpacked.root.parent.stat().st_mode) == 0o700


def test_a_second_run_reads_no_blob(tmp_path: Path, store: Store) -> None:
    first = unpack(tmp_path, store, BASE)
    image = read_runnable(tmp_path / "layout", AMD64)
    for one in image.layers:
        one.path.unlink()

    assert unpack_image(image, store, owners=False) == first


def test_a_tree_from_before_a_restart_is_made_anew(tmp_path: Path, store: Store) -> None:
    """Files are not synced to disk, so a power cut may have emptied them."""
    unpacked = unpack(tmp_path, store, BASE)
    marker = unpacked.root.parent / "complete.json"
    marker.write_text(json.dumps({**json.loads(marker.read_text()), "boot": "another"}))
    (unpacked.root / "usr/bin/tool").write_bytes(b"")

    again = unpack(tmp_path, store, BASE)

    assert (again.root / "usr/bin/tool").read_bytes() == b"tool\n"


def test_what_a_killed_run_left_is_cleared_away(tmp_path: Path, store: Store) -> None:
    unpacked = unpack(tmp_path, store, BASE)
    tree = unpacked.root.parent
    half = tree.with_name(f".{tree.name}.tmp")
    tree.rename(half)
    (half / "complete.json").unlink()

    assert unpack(tmp_path, store, BASE) == unpacked
    assert leftovers(store) == [tree.name]


REFUSED = {
    "leaves through dot-dot": ([Raw(name="../evil")], "would leave"),
    "leaves through dot-dot in the middle": ([Raw(name="usr/../../evil")], "would leave"),
    "is absolute": ([Raw(name="/evil")], "would leave"),
    "has an empty component": ([Raw(name="usr//evil")], "would leave"),
    "is below a symbolic link": ([link("usr", "/tmp"), Raw(name="usr/evil")], "file or link in another"),
    "is below a file": ([Raw(name="usr"), Raw(name="usr/evil")], "file or link in another"),
    "replaces a directory by a link": ([folder("usr"), link("usr", "/tmp")], "twice"),
    "writes through a link": ([link("usr", "/tmp/evil"), Raw(name="usr", data=b"x")], "twice"),
    "comes twice": ([Raw(name="a"), Raw(name="a")], "twice"),
    "is a character device": ([Raw(name="mem", kind=tarfile.CHRTYPE)], "devices"),
    "is a block device": ([Raw(name="disk", kind=tarfile.BLKTYPE)], "devices"),
    "is a pipe": ([Raw(name="fifo", kind=tarfile.FIFOTYPE)], "devices"),
    "is a whiteout": ([folder("usr"), Raw(name="usr/.wh.bin")], "whiteouts"),
    "is an opaque whiteout": ([folder("usr"), Raw(name="usr/.wh..wh..opq")], "whiteouts"),
    "has an extended attribute": (
        [Raw(name="ping", pax={"SCHILY.xattr.security.capability": "x"})],
        "extended attributes",
    ),
    "is sparse": ([Raw(name="s", pax={"GNU.sparse.major": "1", "GNU.sparse.name": "t"})], "sparse"),
    "links to a file outside": ([Raw(name="h", kind=tarfile.LNKTYPE, link="/etc/passwd")], "would leave"),
    "links to a file that is not there": (
        [Raw(name="h", kind=tarfile.LNKTYPE, link="later")],
        "no earlier file",
    ),
    "links to a symbolic link": (
        [link("l", "/etc/passwd"), Raw(name="h", kind=tarfile.LNKTYPE, link="l")],
        "no earlier file",
    ),
    "is the root itself": (
        [Raw(name="./", kind=tarfile.SYMTYPE, link="/tmp")],
        "the root is not a directory",
    ),
    "makes /dev a link": ([link("dev", "/dev")], "not a directory"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_member_is_refused_that(name: str, tmp_path: Path, store: Store) -> None:
    members, message = REFUSED[name]

    with pytest.raises(InputError, match=message):
        unpack(tmp_path, store, members)

    assert leftovers(store) == []
    assert not (tmp_path / "evil").exists()
    assert not Path("/tmp/evil").exists()


def test_a_link_in_one_layer_does_not_lead_another_layer_out(tmp_path: Path, store: Store) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()

    with pytest.raises(InputError):
        unpack(tmp_path, store, [link("usr", str(outside))], [folder("usr"), Raw(name="usr/evil")])

    assert list(outside.iterdir()) == []


def test_a_flipped_bit_in_a_blob_is_refused_by_layer(tmp_path: Path, store: Store) -> None:
    good = layer(BASE, compression="none")
    layout = tmp_path / "layout"
    write_layout(layout, [good])
    image = read_runnable(layout, AMD64)
    data = bytearray(good.blob)
    data[good.blob.index(b"tool\n")] ^= 1
    image.layers[0].path.write_bytes(data)

    with pytest.raises(InputError, match=rf"layer {good.digest}: its digest is"):
        unpack_image(image, store, owners=False)
    assert leftovers(store) == []


def test_another_size_than_the_manifests_is_refused(tmp_path: Path, store: Store) -> None:
    good = layer(BASE)
    write_layout(tmp_path / "layout", [good])
    image = read_runnable(tmp_path / "layout", AMD64)
    image.layers[0].path.write_bytes(good.blob + b"x")

    with pytest.raises(InputError, match=f"{len(good.blob) + 1} bytes, not {len(good.blob)}"):
        unpack_image(image, store, owners=False)


def test_another_diff_id_than_the_configs_is_refused(tmp_path: Path, store: Store) -> None:
    wrong = Layer(blob=layer(BASE).blob, diff_id=f"sha256:{'0' * 64}")

    with pytest.raises(InputError, match="its diff id is"):
        unpack(tmp_path, store, wrong)


def broken(data: bytes) -> Layer:
    """A layer whose digests are right and whose content is not."""
    return layer(data)


BROKEN_TARS = {
    "cut in a member": tar([Raw(name="a", data=b"x" * 4000)])[:2000],
    "followed by more": tar(BASE) + b"x" * 512,
    "with a damaged header": tar([Raw(name="a"), Raw(name="b")]).replace(b"b\0\0\0", b"c\0\0\0", 1),
    "not one at all": b"no tar" * 1000,
}


@pytest.mark.parametrize("name", BROKEN_TARS)
def test_a_tar_is_refused_that_is(name: str, tmp_path: Path, store: Store) -> None:
    with pytest.raises(InputError, match="not a sound tar"):
        unpack(tmp_path, store, broken(BROKEN_TARS[name]))
    assert leftovers(store) == []


def test_a_header_that_wants_gigabytes_is_refused(tmp_path: Path, store: Store) -> None:
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, 8 << 30
    header = info.tobuf(tarfile.GNU_FORMAT)

    with pytest.raises(InputError, match="a header of"):
        unpack(tmp_path, store, broken(header + bytes(4096)))


@pytest.mark.parametrize("compression", ["zstd", "gzip"])
def test_a_cut_blob_is_refused(tmp_path: Path, store: Store, compression: str) -> None:
    whole = layer([Raw(name="a", data=os.urandom(100_000))], compression=compression)
    cut = Layer(blob=whole.blob[:50_000], diff_id=whole.diff_id, compression=compression)

    with pytest.raises(InputError, match="layer sha256"):
        unpack(tmp_path, store, cut)


def test_bytes_that_are_no_compression_are_refused(tmp_path: Path, store: Store) -> None:
    for compression in ("zstd", "gzip"):
        wrong = Layer(blob=b"neither" * 100, diff_id=f"sha256:{'0' * 64}", compression=compression)
        with pytest.raises(InputError, match="layer sha256"):
            unpack(tmp_path, store, wrong)


def test_a_disk_that_is_too_small_is_said_before_anything_is_written(tmp_path: Path, store: Store) -> None:
    free = shutil.disk_usage(tmp_path).free

    with pytest.raises(SpaceError, match=r"takes \d+\.\d GB .*, \d+\.\d GB are free"):
        unpack(tmp_path, store, BASE, size=free * 2)
    assert leftovers(store) == []


def test_a_disk_that_fills_up_leaves_nothing(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_handle: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)

    with pytest.raises(SpaceError, match="filled up"):
        unpack(tmp_path, store, BASE)
    assert leftovers(store) == []


def test_many_layers_at_once_give_every_file(tmp_path: Path, store: Store) -> None:
    layers = [[folder("d"), Raw(name=f"d/{number}", data=str(number).encode())] for number in range(40)]

    root = unpack(tmp_path, store, *layers).root

    assert {path.name: path.read_text() for path in (root / "d").iterdir()} == {
        str(n): str(n) for n in range(40)
    }


def test_the_tar_of_the_standard_library_in_each_format_is_read(tmp_path: Path, store: Store) -> None:
    """Other people's images are ustar, GNU or PAX."""
    for number, kind in enumerate((tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=kind) as archive:
            info = tarfile.TarInfo(f"dir{number}/" + "n" * 80)
            info.size = 3
            archive.addfile(info, io.BytesIO(b"abc"))
        root = unpack(tmp_path, store, layer(buffer.getvalue())).root
        assert (root / f"dir{number}" / ("n" * 80)).read_bytes() == b"abc"
