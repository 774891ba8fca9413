"""Where members go, and which two may not meet."""

from __future__ import annotations

import pytest

from trainyard.wheels.placement import Placement, collisions
from trainyard.wheels.site import Site

PACKAGES = "opt/venv/lib/python3.13/site-packages"
PLACEMENT = Placement(site=Site(), folder="demo_pkg-1.0.dist-info", name="demo-pkg")


@pytest.mark.parametrize(
    ("member", "target"),
    [
        ("demo/a.py", f"{PACKAGES}/demo/a.py"),
        ("demo_pkg-1.0.dist-info/METADATA", f"{PACKAGES}/demo_pkg-1.0.dist-info/METADATA"),
        ("demo_pkg-1.0.data/purelib/a.py", f"{PACKAGES}/a.py"),
        ("demo_pkg-1.0.data/platlib/a.so", f"{PACKAGES}/a.so"),
        ("demo_pkg-1.0.data/scripts/tool", "opt/venv/bin/tool"),
        ("demo_pkg-1.0.data/data/share/x", "opt/venv/share/x"),
        ("demo_pkg-1.0.data/headers/x.h", "opt/venv/include/site/python3.13/demo-pkg/x.h"),
        ("a.data", f"{PACKAGES}/a.data"),
        ("demo/x.data/y", f"{PACKAGES}/demo/x.data/y"),
        ("demo/module.pyc", f"{PACKAGES}/demo/module.pyc"),
    ],
)
def test_each_scheme_has_its_folder(member: str, target: str) -> None:
    assert PLACEMENT.targets([member]) == ({member: target}, [])


@pytest.mark.parametrize(
    "member",
    [
        "demo_pkg-1.0.data/unknown/x",
        "demo_pkg-1.0.data/scripts",
        "demo_pkg-1.0.data/stdlib/x",
        "demo_pkg-1.0.data/Scripts/x",
    ],
)
def test_an_unknown_scheme_is_a_problem_that_lists_the_known_ones(member: str) -> None:
    targets, problems = PLACEMENT.targets([member])

    assert targets == {}
    assert problems == [f"{member!r} has no known scheme; these are data, headers, platlib, purelib, scripts"]


@pytest.mark.parametrize("member", ["other-1.0.data/scripts/x", "demo_pkg-1.1.data/scripts/x", ".data/x"])
def test_a_data_folder_of_another_name_is_a_problem(member: str) -> None:
    """Installers disagree about these: one would install a script, another a package."""
    targets, problems = PLACEMENT.targets([member])

    assert targets == {}
    assert problems == [f"{member!r} is in a data folder that is not 'demo_pkg-1.0.data'"]


@pytest.mark.parametrize("note", ["RECORD", "INSTALLER", "REQUESTED", "direct_url.json"])
def test_the_installer_s_own_notes_are_not_taken_from_the_wheel(note: str) -> None:
    assert PLACEMENT.targets([f"demo_pkg-1.0.dist-info/{note}"]) == ({}, [])


def test_compiled_bytecode_of_the_wheel_is_left_out() -> None:
    """The image's own Python compiles it, and the layers must not disagree about a path."""
    assert PLACEMENT.targets(["demo/__pycache__/a.cpython-313.pyc"]) == ({}, [])


def test_only_the_scripts_scheme_makes_scripts() -> None:
    assert PLACEMENT.is_script("demo_pkg-1.0.data/scripts/tool")
    assert not PLACEMENT.is_script("demo_pkg-1.0.data/data/bin/tool")
    assert not PLACEMENT.is_script("demo/scripts/tool")


def test_record_and_its_signatures_need_no_line_in_record() -> None:
    folder = "demo_pkg-1.0.dist-info"

    assert PLACEMENT.record_exempt == {f"{folder}/RECORD", f"{folder}/RECORD.jws", f"{folder}/RECORD.p7s"}


def test_different_paths_do_not_collide() -> None:
    assert collisions(["a/b", "a/c", "a.b", "ab/c"]) == []


def test_two_files_for_one_path_collide() -> None:
    assert collisions(["a/b", "c", "a/b", "a/b"]) == ["two files would be installed as /a/b"]


@pytest.mark.parametrize("targets", [["a", "a/b"], ["a/b/c/d", "a"], ["a/b", "a/b/c"]])
def test_a_file_where_another_needs_a_folder_collides(targets: list[str]) -> None:
    problems = collisions(targets)

    assert len(problems) == 1
    assert problems[0].endswith("would be both a file and a folder")
