"""trainyard-verify sees each way in which a child image loses the torch that it was built on, and only that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.guarded import NCCL, WHEELS, Child
from trainyard.layers import CONSTANT_MTIME


@pytest.fixture
def child(tmp_path: Path) -> Child:
    return Child(tmp_path)


def found(child: Child, *arguments: str) -> dict[str, object]:
    """The one finding."""
    findings = child.answer(*arguments)["findings"]
    assert isinstance(findings, list)
    assert len(findings) == 1, findings
    one: dict[str, object] = findings[0]
    return one


def test_an_untouched_image_is_its_own(child: Child) -> None:
    answer = child.answer("--full")

    assert answer["findings"] == []
    assert answer["guarded"] == {"nvidia-nccl-cu13": "2.30.7", "torch": "2.15.0", "triton": "3.9.0"}


def test_another_torch_is_named_with_who_put_it_there_and_who_asked(child: Child) -> None:
    child.install(
        "serving", "0.9", {"serving.py": ""}, requires=("torch==2.14.1 ; sys_platform == 'linux'", "six<2")
    )
    child.install("torch", "2.14.1", {"torch/__init__.py": ""})

    assert found(child) == {
        "name": "torch",
        "problem": "replaced",
        "expected": "2.15.0",
        "found": "2.14.1, put there by uv, as serving 0.9 (torch==2.14.1) asks for",
        "files": [],
    }


def test_another_build_of_the_same_version_is_another_torch(child: Child) -> None:
    child.install("torch", "2.15.0+cpu", {"torch/__init__.py": ""})

    assert child.findings() == [("torch", "replaced")]


def test_the_same_version_installed_again_is_not_what_was_tested(child: Child) -> None:
    child.install("torch", "2.15.0", WHEELS["torch", "2.15.0"], "--reinstall")

    assert found(child)["problem"] == "installed again"
    assert found(child)["found"] == "2.15.0, put there by uv"


def test_a_removed_library_is_missed(child: Child) -> None:
    child.uv("uninstall", "nvidia-nccl-cu13")

    assert child.findings() == [("nvidia-nccl-cu13", "removed")]


def test_a_second_torch_elsewhere_on_the_path_is_a_duplicate(child: Child, tmp_path: Path) -> None:
    child.install("torch", "2.14.1", {"torch/__init__.py": ""}, "--target", str(tmp_path / "more"))
    child.env["PYTHONPATH"] = str(tmp_path / "more")

    assert child.findings() == [("torch", "duplicated")]


def test_a_folder_that_hides_torch_without_being_installed_is_seen(child: Child, tmp_path: Path) -> None:
    (tmp_path / "more" / "torch").mkdir(parents=True)
    (tmp_path / "more" / "torch" / "__init__.py").write_text("")
    child.env["PYTHONPATH"] = str(tmp_path / "more")

    one = found(child)

    assert (one["name"], one["problem"]) == ("torch", "shadowed")
    assert str(tmp_path / "more") in str(one["found"])


def test_another_python_first_on_the_path_is_seen(child: Child, tmp_path: Path) -> None:
    (tmp_path / "conda").mkdir()
    (tmp_path / "conda" / "python").symlink_to(child.python.resolve())
    child.env["PATH"] = f"{tmp_path}/conda:{child.env['PATH']}"

    assert child.findings() == [("python", "shadowed")]


def test_a_package_that_overwrites_the_files_of_another_is_named(child: Child) -> None:
    """nvidia-nccl-cu12 and -cu13 install to one path, and no installer minds."""
    child.install("nvidia-nccl-cu12", "2.27.3", {NCCL: b"\x7fELF nccl for CUDA 12.."})

    one = found(child)

    assert (one["name"], one["problem"]) == ("nvidia-nccl-cu13", "altered")
    assert one["found"] == "1 are not; nvidia-nccl-cu12 2.27.3 has files of the same name"
    assert one["files"] == [f"{NCCL}: 21 bytes expected, 23 found"]


def test_an_altered_file_of_the_same_size_is_seen_by_its_time(child: Child) -> None:
    child.write("torch/nn.py", "relu = sum\n")

    one = found(child)

    assert (one["name"], one["problem"]) == ("torch", "altered")
    files = one["files"]
    assert isinstance(files, list)
    assert files[0].startswith("torch/nn.py: sha256=")


def test_an_altered_file_with_its_old_time_is_seen_when_everything_is_read(child: Child) -> None:
    path = child.write("torch/nn.py", "relu = sum\n")
    os.utime(path, (CONSTANT_MTIME, CONSTANT_MTIME))

    assert child.findings() == []
    assert child.findings("--full") == [("torch", "altered")]


def test_a_file_that_was_only_touched_or_copied_is_the_images_own(child: Child) -> None:
    (child.site / NCCL).touch()

    assert child.findings() == []


def test_a_missing_file_and_a_missing_record_are_seen(child: Child) -> None:
    (child.site / NCCL).unlink()
    (child.site / "triton-3.9.0.dist-info" / "RECORD").unlink()

    assert child.findings() == [("nvidia-nccl-cu13", "altered"), ("triton", "altered")]


def test_a_link_in_a_files_place_is_followed_and_read(child: Child, tmp_path: Path) -> None:
    (tmp_path / "libnccl.so.2").write_bytes(b"\x7fELF nccl for CUDA 12")
    (child.site / NCCL).unlink()
    (child.site / NCCL).symlink_to(tmp_path / "libnccl.so.2")

    assert child.findings() == [("nvidia-nccl-cu13", "altered")]


@pytest.mark.parametrize("place", ["site", "LD_LIBRARY_PATH"])
def test_a_second_copy_of_a_library_is_found_where_the_loader_looks(
    child: Child, tmp_path: Path, place: str
) -> None:
    if place == "site":
        copy = child.write("other/libs/libnccl.so.2", b"\x7fELF")
    else:
        copy = tmp_path / "lib" / "libnccl.so.2"
        copy.parent.mkdir()
        copy.write_bytes(b"\x7fELF")
        child.env["LD_LIBRARY_PATH"] = f"/nonexistent:{copy.parent}"

    one = found(child)

    assert (one["name"], one["problem"]) == ("nvidia-nccl-cu13", "second copy")
    assert one["files"] == [str(copy)]


def test_the_compilers_own_library_is_no_second_copy(child: Child) -> None:
    """torch bundles libgomp, and every g++ brings one."""
    child.write("sklearn/libgomp.so.1", b"\x7fELF")

    assert child.findings() == []


def test_a_link_to_the_images_library_is_no_second_copy(child: Child, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libnccl.so.2").symlink_to(child.site / NCCL)
    child.env["LD_LIBRARY_PATH"] = str(tmp_path / "lib")

    assert child.findings() == []


def test_what_a_child_may_change_is_a_note(child: Child) -> None:
    child.install("numpy", "2.4.6", {"numpy/__init__.py": ""})
    child.install("extra", "1.0", {"extra.py": ""})
    notes = child.answer()["notes"]

    assert isinstance(notes, list)
    assert "numpy 2.5.5 is now 2.4.6" in notes
    assert "1 packages came on top" in notes


def test_a_hold_that_was_taken_off_is_a_note(child: Child) -> None:
    child.env["PIP_CONSTRAINT"] = "/my/own.txt"
    notes = child.answer()["notes"]

    assert isinstance(notes, list)
    assert any(
        note.startswith("PIP_CONSTRAINT does not name /etc/trainyard/constraints.txt") for note in notes
    )


def test_a_change_on_purpose_is_accepted_by_name_and_nothing_else_is(child: Child) -> None:
    child.install("triton", "3.8.0", {"triton/__init__.py": ""})
    child.install("torch", "2.14.1", {"torch/__init__.py": ""})

    assert child.findings("--allow", "triton") == [("torch", "replaced")]


def test_the_text_for_a_person_names_the_finding_its_files_and_what_to_do(child: Child) -> None:
    (child.site / NCCL).unlink()
    done = child.run()

    assert done.returncode == 1
    assert done.stdout == ""
    assert f"    {NCCL}: missing\n" in done.stderr
    assert "error: " in done.stderr
    assert "hint: " in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--allow", "numpy"), "not guarded: numpy"),
        (("--claims", "/nonexistent"), "cannot read the claims"),
    ],
)
def test_a_wrong_use_ends_with_2(child: Child, arguments: tuple[str, ...], said: str) -> None:
    done = child.run(*arguments)

    assert done.returncode == 2
    assert said in done.stderr


def test_it_leaves_no_file_behind(child: Child) -> None:
    before = sorted(str(path) for path in child.prefix.rglob("*"))
    child.run("--full")

    assert sorted(str(path) for path in child.prefix.rglob("*")) == before
