"""The tree that layers add up to."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.layouts import Raw, folder, layer, link, write_layout
from trainyard.errors import InputError
from trainyard.oci.flatten import FlatImage, flatten
from trainyard.oci.layout import read_layout


def raw(name: str, data: bytes = b"", **fields: Any) -> Raw:
    return Raw(name=name, data=data, **fields)


def flat(tmp_path: Path, *layers: Sequence[Raw], compression: str = "zstd", keep: str = "-") -> FlatImage:
    write_layout(tmp_path, [layer(members, compression=compression) for members in layers])
    _name_the_media_type(tmp_path)
    return flatten(read_layout(tmp_path).images[0], keep=lambda path: path == keep)


def _name_the_media_type(where: Path) -> None:
    """read_layout wants what the image-spec asks for in an index."""
    index = where / "index.json"
    text = index.read_text()
    if "image.manifest" not in text:
        kind = '"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest"'
        index.write_text(text.replace('"digest"', kind))


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("compression", ["zstd", "gzip", "none"])
def test_members_come_with_all_that_is_compared(tmp_path: Path, compression: str) -> None:
    image = flat(
        tmp_path,
        [folder("a", mode=0o775, uid=1, gid=2), raw("a/f", b"x", mode=0o640, uid=3, gid=4), link("a/l", "f")],
        compression=compression,
    )
    a, f, link_ = (image.members[path] for path in ("a", "a/f", "a/l"))

    assert (a.kind, a.mode, a.uid, a.gid) == ("directory", 0o775, 1, 2)
    assert (f.kind, f.mode, f.uid, f.gid, f.sha256) == ("file", 0o640, 3, 4, sha(b"x"))
    assert (link_.kind, link_.link) == ("symlink", "f")


def test_a_later_layer_s_member_replaces_an_earlier_one_and_a_directory_keeps_its_children(
    tmp_path: Path,
) -> None:
    image = flat(
        tmp_path,
        [folder("a"), raw("a/one", b"1"), raw("a/two", b"2")],
        [folder("a", mode=0o700), raw("a/two", b"3")],
    )

    assert image.members["a"].mode == 0o700
    assert image.members["a/one"].sha256 == sha(b"1")
    assert image.members["a/two"].sha256 == sha(b"3")


def test_a_whiteout_removes_a_path_and_all_below_it(tmp_path: Path) -> None:
    image = flat(
        tmp_path,
        [folder("a"), raw("a/f"), folder("ab"), raw("ab/f"), raw("b")],
        [raw(".wh.a"), raw(".wh.b")],
    )

    assert sorted(image.members) == ["ab", "ab/f"]


def test_an_opaque_whiteout_empties_a_directory_but_for_its_own_layer(tmp_path: Path) -> None:
    image = flat(
        tmp_path,
        [folder("a"), raw("a/old")],
        [folder("a"), raw("a/.wh..wh..opq"), raw("a/new")],
    )

    assert sorted(image.members) == ["a", "a/new"]


def test_a_file_in_the_place_of_a_directory_takes_its_children_with_it(tmp_path: Path) -> None:
    image = flat(tmp_path, [folder("a"), raw("a/f")], [link("a", "b")])

    assert sorted(image.members) == ["a"]


def test_a_hard_link_is_the_file_that_it_leads_to(tmp_path: Path) -> None:
    linked = raw("b", kind=tarfile.LNKTYPE, link="a")
    image = flat(tmp_path, [raw("a", b"x", mode=0o755), linked])

    assert image.members["b"] == image.members["a"]


def test_a_hard_link_to_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="hard link to 'a'"):
        flat(tmp_path, [raw("b", kind=tarfile.LNKTYPE, link="a")])


def test_extended_attributes_are_seen(tmp_path: Path) -> None:
    image = flat(tmp_path, [raw("ping", pax={"SCHILY.xattr.security.capability": "v"})])

    assert image.members["ping"].attributes == (("SCHILY.xattr.security.capability", "v"),)


def test_content_is_kept_where_it_was_asked_for_and_only_of_the_last_layer(tmp_path: Path) -> None:
    image = flat(tmp_path, [raw("k", b"1"), raw("other", b"o")], [raw("k", b"2")], keep="k")

    assert image.contents == {"k": b"2"}


def test_dot_slash_names_are_the_same_paths(tmp_path: Path) -> None:
    image = flat(tmp_path, [folder("./"), folder("./a"), raw("./a/f")])

    assert sorted(image.members) == ["a", "a/f"]


def test_a_layer_with_another_diff_id_is_refused(tmp_path: Path) -> None:
    one = layer([raw("a", b"x")])
    write_layout(tmp_path, [type(one)(blob=one.blob, diff_id=f"sha256:{sha(b'else')}")])
    _name_the_media_type(tmp_path)

    with pytest.raises(InputError, match="has diff id"):
        flatten(read_layout(tmp_path).images[0], keep=lambda _path: False)
