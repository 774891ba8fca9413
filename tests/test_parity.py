"""What counts as the same image, and what is called a difference."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from trainyard.oci.flatten import FlatImage, FlatMember
from trainyard.parity import KNOWN, Parity, compare_images, contents_needed

SITE = "opt/venv/lib/python3.13/site-packages"
INFO = f"{SITE}/demo-1.0.dist-info"
CONFIG = {"os": "linux", "architecture": "amd64", "config": {"Env": ["A=1", "B=2"], "User": "1000:0"}}
OURS = (
    b"#!/opt/venv/bin/python\nimport sys\n\nfrom demo import main\n\n"
    b'if __name__ == "__main__":\n    sys.exit(main())\n'
)
UVS = (
    b"#!/opt/venv/bin/python\n# -*- coding: utf-8 -*-\nimport sys\nfrom demo import main\n"
    b'if __name__ == "__main__":\n    if sys.argv[0].endswith(".exe"):\n'
    b"        sys.argv[0] = sys.argv[0][:-4]\n    sys.exit(main())\n"
)


def member(content: str = "same", **changes: object) -> FlatMember:
    fields = {"kind": "file", "mode": 0o664, "uid": 0, "gid": 0, "sha256": content}
    return FlatMember(**(fields | changes))  # type: ignore[arg-type]


def compare(
    ours: dict[str, FlatMember],
    theirs: dict[str, FlatMember],
    *,
    texts: tuple[dict[str, bytes], dict[str, bytes]] = ({}, {}),
    config: dict[str, object] | None = None,
) -> Parity:
    return compare_images(
        FlatImage(members=ours, contents=texts[0]),
        FlatImage(members=theirs, contents=texts[1]),
        our_config=json.dumps(CONFIG).encode(),
        their_config=json.dumps(config or CONFIG).encode(),
    )


def two_texts(path: str, ours: bytes, theirs: bytes) -> Parity:
    """A path whose content differs, and is at hand."""
    return compare({path: member("a")}, {path: member("b")}, texts=({path: ours}, {path: theirs}))


def test_equal_trees_have_no_difference_and_every_path_is_counted() -> None:
    tree = {"etc": member(kind="directory"), "etc/x": member()}

    assert compare(tree, dict(tree)) == Parity(compared=2, known=(), differences=())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "symlink"),
        ("mode", 0o644),
        ("uid", 1),
        ("gid", 1),
        ("link", "elsewhere"),
        ("sha256", "other"),
        ("attributes", (("security.capability", "x"),)),
    ],
)
def test_each_compared_field_is_named_when_it_differs(field: str, value: Any) -> None:
    found = compare({"etc/x": member()}, {"etc/x": replace(member(), **{field: value})}).differences

    assert len(found) == 1
    assert found[0].startswith(f"/etc/x: {field} ")


def test_a_path_on_one_side_only_is_named_with_its_side() -> None:
    found = compare({"a": member()}, {"b": member()}).differences

    assert found == ("/a: not in Docker's image", "/b: only in Docker's image")


def test_installer_may_be_missing_but_not_where_a_package_vendors_one() -> None:
    vendored = f"{SITE}/demo/_vendor/x-1.dist-info/INSTALLER"
    result = compare({f"{INFO}/INSTALLER": member(), vendored: member()}, {})

    assert [count for _, count in result.known] == [1]
    assert result.differences == (f"/{vendored}: not in Docker's image",)


def test_a_launcher_may_be_in_other_words() -> None:
    assert two_texts("opt/venv/bin/demo", OURS, UVS).differences == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"from demo import main", b"from evil import main"),
        (b"sys.exit(main())", b"sys.exit(other())"),
        (b"#!/opt/venv/bin/python", b"#!/usr/bin/python3"),
        (b"import sys\n", b"import sys\nfrom x import y\n"),
    ],
)
def test_a_launcher_that_calls_something_else_is_a_difference(old: bytes, new: bytes) -> None:
    assert two_texts("opt/venv/bin/demo", OURS, UVS.replace(old, new)).differences


def test_two_programs_are_no_launchers() -> None:
    assert two_texts("opt/venv/bin/uv", b"\x7fELF1", b"\x7fELF2").differences


def test_a_launcher_with_another_mode_is_a_difference() -> None:
    path = "opt/venv/bin/demo"
    found = compare({path: member("a")}, {path: member("b", mode=0o775)}, texts=({path: OURS}, {path: UVS}))

    assert found.differences


def test_record_may_differ_in_the_rows_of_what_may_differ_and_in_order() -> None:
    ours = b"demo.py,sha256=x,1\ndemo-1.0.dist-info/INSTALLER,sha256=y,10\n../../../bin/demo,sha256=z,5\n"
    theirs = b"../../../bin/demo,sha256=other,7\ndemo.py,sha256=x,1\n"

    assert two_texts(f"{INFO}/RECORD", ours, theirs).differences == ()


def test_record_with_another_row_is_a_difference() -> None:
    assert two_texts(f"{INFO}/RECORD", b"demo.py,sha256=x,1\n", b"demo.py,sha256=y,1\n").differences
    assert two_texts(f"{INFO}/RECORD", b"demo.py,sha256=x,1\n", b"").differences


@pytest.mark.parametrize(("mode", "differs"), [(0o775, False), (0o644, True), (0o666, True), (0o4775, True)])
def test_record_may_be_executable_in_docker_s_image_and_nothing_else(mode: int, differs: bool) -> None:
    """uv keeps the mode of the wheel's RECORD; protobuf's is executable."""
    path, text = f"{INFO}/RECORD", b"demo.py,sha256=x,1\n"
    found = compare({path: member("a")}, {path: member("b", mode=mode)}, texts=({path: text}, {path: text}))

    assert bool(found.differences) == differs


def test_uv_s_own_launcher_of_pip_may_be_extra_and_no_other_program() -> None:
    result = compare({}, {"opt/venv/bin/pip3.13": member(), "opt/venv/bin/evil": member()})

    assert result.differences == ("/opt/venv/bin/evil: only in Docker's image",)


def test_texts_are_asked_for_where_they_are_needed() -> None:
    assert contents_needed("opt/venv/bin/demo")
    assert contents_needed(f"{INFO}/RECORD")
    assert not contents_needed(f"{SITE}/torch/lib/libtorch_cuda.so")


def test_every_known_difference_has_a_reason_and_lies_in_the_environment() -> None:
    """Rulings: RECORD, INSTALLER and bin/ are the only places."""
    assert all(known.reason and known.path.startswith("opt/venv/") for known in KNOWN)
    assert all(
        "RECORD" in known.path or "INSTALLER" in known.path or "/bin/" in known.path for known in KNOWN
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("User", "0"),
        ("Env", ["A=1"]),
        ("Entrypoint", ["/bin/sh"]),
        ("Labels", {"a": "b"}),
        ("WorkingDir", "/"),
    ],
)
def test_a_config_that_starts_differently_is_a_difference(name: str, value: object) -> None:
    process = {**CONFIG["config"], name: value}  # type: ignore[dict-item]
    found = compare({}, {}, config={**CONFIG, "config": process}).differences

    assert len(found) == 1
    assert found[0].startswith(f"config: {name} ")


def test_the_order_of_variables_does_not_matter() -> None:
    process = {"Env": ["B=2", "A=1"], "User": "1000:0"}

    assert not compare({}, {}, config={**CONFIG, "config": process}).differences


def test_another_architecture_is_a_difference() -> None:
    assert compare({}, {}, config={**CONFIG, "architecture": "arm64"}).differences
