"""The .dist-info folder must be one, complete, and of the locked distribution."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.wheels import Member, build_wheel, locked
from trainyard.errors import InputError
from trainyard.lock.model import LockedWheel
from trainyard.wheels.archive import Site, WheelArchive


def refused(path: Path, wheel: LockedWheel | None = None) -> str:
    with pytest.raises(InputError) as caught:
        WheelArchive(path, wheel or locked(path), Site()).check()
    return caught.value.message


def test_metadata_gives_name_version_licence_and_requirements(tmp_path: Path) -> None:
    path = build_wheel(
        tmp_path,
        name="Demo_Pkg",
        version="1.0+cu132",
        requires=["numpy>=2", 'x; extra == "y"'],
        extra_metadata="License-Expression: Apache-2.0\nLicense: see LICENSE",
    )
    archive = WheelArchive(path, locked(path), Site())

    assert archive.metadata.name == "Demo_Pkg"
    assert archive.metadata.version == "1.0+cu132"
    assert archive.metadata.license_expression == "Apache-2.0"
    assert archive.metadata.license == "see LICENSE"
    assert archive.requires() == ("numpy>=2", 'x; extra == "y"')


def test_a_wheel_without_licence_or_requirements_says_so(tmp_path: Path) -> None:
    path = build_wheel(tmp_path)
    archive = WheelArchive(path, locked(path), Site())

    assert archive.requires() == ()
    assert archive.metadata.license_expression == ""


@pytest.mark.parametrize("name", ["demo.pkg", "Demo-Pkg", "demo_pkg"])
def test_names_agree_by_their_normal_form(tmp_path: Path, name: str) -> None:
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    path = build_wheel(tmp_path, name="demo_pkg", metadata=text)

    WheelArchive(path, locked(path), Site()).check()


def test_versions_agree_by_their_value(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, metadata="Metadata-Version: 2.1\nName: demo\nVersion: 1.0.0\n")

    WheelArchive(path, locked(path), Site()).check()


@pytest.mark.parametrize(
    ("name", "version"),
    [("other", "1.0"), ("demo", "1.1"), ("demo", "1.0+local"), ("demo", "nonsense"), ("", "")],
)
def test_metadata_of_another_distribution_is_refused(tmp_path: Path, name: str, version: str) -> None:
    path = build_wheel(tmp_path, metadata=f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")

    assert "METADATA says" in refused(path)
    assert "the lock demo==1.0" in refused(path)


def test_a_wheel_of_another_distribution_than_the_lock_says_is_refused(tmp_path: Path) -> None:
    path = build_wheel(tmp_path)

    assert "demo-1.0.dist-info is not of the locked torch==1.0" in refused(path, locked(path, name="torch"))
    assert "demo-1.0.dist-info is not of the locked demo==2.0" in refused(path, locked(path, version="2.0"))


def test_no_dist_info_is_refused(tmp_path: Path) -> None:
    assert "has 0 .dist-info folders" in refused(build_wheel(tmp_path, dist_info="demo-1.0.info"))


def test_a_second_dist_info_is_refused(tmp_path: Path) -> None:
    message = refused(build_wheel(tmp_path, members=[Member(name="evil-1.0.dist-info/METADATA")]))

    assert "has 2 .dist-info folders instead of one: demo-1.0.dist-info, evil-1.0.dist-info" in message


def test_a_dist_info_below_a_package_is_a_folder_like_any_other(tmp_path: Path) -> None:
    """setuptools carries those of what it vendors."""
    path = build_wheel(tmp_path, files={"demo/_vendor/x-1.dist-info/METADATA": "Name: x\n"})

    WheelArchive(path, locked(path), Site()).check()


@pytest.mark.parametrize(
    ("omit", "problem"),
    [("METADATA", "has no METADATA"), ("WHEEL", "has no WHEEL file"), ("RECORD", "has no RECORD")],
)
def test_a_missing_file_is_named(tmp_path: Path, omit: str, problem: str) -> None:
    assert problem in refused(build_wheel(tmp_path, omit=[omit]))


@pytest.mark.parametrize("version", ["2.0", "0.1", "1", "1.x", "", "1.0 beta"])
def test_only_wheel_format_1_is_read(tmp_path: Path, version: str) -> None:
    path = build_wheel(tmp_path, wheel=f"Wheel-Version: {version}\nRoot-Is-Purelib: true\n")

    assert "only 1.x is known" in refused(path)


def test_a_newer_minor_of_the_wheel_format_is_read(tmp_path: Path) -> None:
    path = build_wheel(tmp_path, wheel="Wheel-Version: 1.9\nRoot-Is-Purelib: true\n")

    WheelArchive(path, locked(path), Site()).check()


def test_everything_wrong_in_dist_info_comes_at_once(tmp_path: Path) -> None:
    path = build_wheel(
        tmp_path,
        metadata="Name: other\nVersion: 1.0\n",
        wheel="Wheel-Version: 2.0\n",
        entry_points="../sh = m:f",
        record=lambda rows: rows[1:],
        data={"wrong/x": "x"},
    )
    message = refused(path)

    assert "METADATA says other" in message
    assert "Wheel-Version 2.0" in message
    assert "cannot become a script" in message
    assert "RECORD has no line for 'demo/__init__.py'" in message
    assert "'demo-1.0.data/wrong/x' has no known scheme" in message
