"""What is read out of a .deb is right, complete, and survives the cache."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.support.debs import build_deb
from tests.support.elf import shared_object
from trainyard.debian.archive import DebArchive
from trainyard.debian.facts import DebFacts, deb_facts
from trainyard.errors import InputError
from trainyard.oci.entry import Kind


def facts(folder: Path, **options: object) -> DebFacts:
    path = build_deb(folder, "pkg", "2:1.0-1", **options)  # type: ignore[arg-type]
    return deb_facts(DebArchive(path, name="pkg", version="2:1.0-1"))


def test_name_version_and_architecture_are_those_of_the_control_file(tmp_path: Path) -> None:
    found = facts(tmp_path, architecture="arm64")

    assert (found.name, found.version, found.architecture) == ("pkg", "2:1.0-1", "arm64")


def test_paths_are_listed_as_dpkg_lists_them(tmp_path: Path) -> None:
    """The root is `/.`, order is the archive's, and what the image leaves out is not there."""
    found = facts(tmp_path, files={"usr/bin/a": b"", "usr/share/man/man1/a.1": b""}, directories=["var/run"])

    assert found.listed == (
        "/.",
        "/usr",
        "/usr/bin",
        "/usr/bin/a",
        "/usr/share",
        "/usr/share/man",
        "/var",
        "/var/run",
    )


def test_members_are_the_images_paths_with_kind_and_link(tmp_path: Path) -> None:
    found = facts(tmp_path, files={"lib/x": b""}, symlinks={"usr/bin/sh": "dash"})

    assert found.members["usr/lib/x"] == (Kind.FILE, "")
    assert found.members["usr/bin/sh"] == (Kind.SYMLINK, "dash")


def test_conffiles_have_their_md5(tmp_path: Path) -> None:
    found = facts(tmp_path, files={"etc/a.conf": b"hello", "etc/b": b"x"}, conffiles=["etc/a.conf"])

    assert found.md5 == {"/etc/a.conf": hashlib.md5(b"hello").hexdigest()}


def test_sonames_are_read_in_library_folders_only(tmp_path: Path) -> None:
    library = shared_object("libx.so.1")
    found = facts(
        tmp_path,
        files={
            "usr/lib/x86_64-linux-gnu/libx.so.1.2": library,
            "usr/lib/x86_64-linux-gnu/libtext.so": b"GROUP ( )",
            "usr/lib/x86_64-linux-gnu/plugin.so": library,
            "usr/share/libx.so.1": library,
        },
    )

    assert found.sonames == {"usr/lib/x86_64-linux-gnu/libx.so.1.2": "libx.so.1"}


def test_small_files_that_the_state_layer_needs_are_carried(tmp_path: Path) -> None:
    found = facts(tmp_path, files={"usr/share/base-files/motd": b"hi\n", "usr/share/other/motd": b"no"})

    assert found.contents == {"usr/share/base-files/motd": "hi\n"}


def test_a_carried_file_that_is_too_large_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"pkg=2:1\.0-1: usr/share/pam/huge has 1048577 bytes"):
        facts(tmp_path, files={"usr/share/pam/huge": bytes((1 << 20) + 1)})


def test_facts_survive_json_also_with_bytes_that_are_not_utf_8(tmp_path: Path) -> None:
    found = facts(
        tmp_path,
        files={
            "usr/share/base-files/latin": b"caf\xe9",
            "etc/c": b"x",
            "usr/lib/libx.so.1": shared_object("libx.so.1"),
        },
        conffiles=["etc/c"],
        scripts={"postinst": "#!/bin/sh\n# é\n"},
    )

    assert DebFacts.from_json(json.loads(json.dumps(found.to_json()))) == found


@pytest.mark.parametrize("value", [None, [], {}, {"format": 0}])
def test_facts_of_another_format_are_not_taken_for_ours(value: object) -> None:
    with pytest.raises(ValueError, match="format"):
        DebFacts.from_json(value)
