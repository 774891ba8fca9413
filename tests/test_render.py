"""`invoke render`: what it writes, and what --check calls a difference."""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.locks import AMD64
from trainyard.commands.render import Rendered, golden_base, render_all
from trainyard.errors import ReproducibilityError, TrainyardError
from trainyard.paths import Project
from trainyard.settings import settings_from
from trainyard.workspace import Workspace

ROOT = Path(__file__).parents[1]
TARGET = "cuda13.2"


def workspace_in(root: Path) -> Workspace:
    return Workspace(
        project=Project(root),
        settings=settings_from({"TRAINYARD_CACHE": str(root / "cache")}, home=root, cores=2),
        host=AMD64,
        clock=lambda: 0.0,
        now=lambda: datetime(2026, 12, 1, tzinfo=UTC),
        apt_sources=dict,
    )


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    """A copy of what is rendered from, without what was rendered."""
    for name in ("templates", "lockfiles"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "matrix.yaml", tmp_path)
    (tmp_path / "images" / TARGET).mkdir(parents=True)
    for record in (ROOT / "images" / TARGET).glob("*.json"):
        shutil.copy(record, tmp_path / "images" / TARGET)
    return workspace_in(tmp_path)


def render(space: Workspace, *, check: bool = False) -> Rendered:
    return render_all(space, [(space.matrix.target(TARGET), AMD64)], check=check)[0]


def folder_of(space: Workspace) -> Path:
    return space.project.docker_context(TARGET, AMD64)


def test_the_committed_dockerfiles_are_what_is_rendered_now() -> None:
    """After a change of locks, templates or checks: `invoke build --record`, then `invoke render`."""
    space = workspace_in(ROOT)
    target = space.matrix.target(TARGET)
    results = render_all(space, [(target, platform) for platform in target.platforms], check=True)

    assert [line for result in results for line in result.differences] == []


def test_a_rendered_folder_passes_the_check_and_renders_to_itself(space: Workspace) -> None:
    assert render(space).differences
    assert render(space, check=True).differences == ()
    assert render(space).differences == ()


def test_check_writes_nothing(space: Workspace) -> None:
    assert render(space, check=True).differences
    assert not folder_of(space).exists()


def test_a_hand_edited_file_is_shown_as_a_diff(space: Workspace) -> None:
    render(space)
    path = folder_of(space) / "Dockerfile"
    path.write_text(path.read_text().replace("USER 1000:0", "USER 0"))
    found = render(space, check=True).differences

    assert "-USER 0" in found
    assert "+USER 1000:0" in found
    assert any(line.startswith("---") and line.endswith("Dockerfile") for line in found)


def test_a_file_too_many_and_one_too_few_are_named(space: Workspace) -> None:
    render(space)
    (folder_of(space) / "rootfs" / "backdoor").write_text("x\n")
    (folder_of(space) / "requirements" / "uv.txt").unlink()
    found = "\n".join(render(space, check=True).differences)

    assert "rootfs/backdoor" in found
    assert "requirements/uv.txt" in found


def test_a_link_in_the_place_of_a_file_is_a_difference(space: Workspace) -> None:
    render(space)
    path = folder_of(space) / "Dockerfile"
    path.rename(path.with_name("real"))
    path.symlink_to("real")

    assert any("Dockerfile" in line for line in render(space, check=True).differences)


def test_a_change_of_the_template_alone_is_a_difference(space: Workspace) -> None:
    render(space)
    template = space.project.templates / "Dockerfile.j2"
    template.write_text(template.read_text().replace("--no-deps", "--no-deps --verbose", 1))

    assert render(space, check=True).differences


def test_rendering_again_repairs_everything(space: Workspace) -> None:
    render(space)
    (folder_of(space) / "rootfs" / "backdoor").write_text("x\n")
    (folder_of(space) / "Dockerfile").unlink()
    render(space)

    assert render(space, check=True).differences == ()


def test_the_golden_record_is_never_touched(space: Workspace) -> None:
    record = space.project.golden(TARGET, AMD64)
    before = record.read_bytes()
    render(space)

    assert record.read_bytes() == before


def test_without_a_golden_record_the_base_has_no_digest_to_name(space: Workspace) -> None:
    space.project.golden(TARGET, AMD64).unlink()
    with pytest.raises(ReproducibilityError, match="names its base by digest") as caught:
        golden_base(space, space.plan(space.matrix.target(TARGET), AMD64))

    assert "--record" in caught.value.hint


def test_hadolint_finds_nothing_in_the_committed_dockerfiles() -> None:
    """No rule is waived."""
    hadolint = Path(sys.executable).with_name("hadolint")
    assert hadolint.exists(), "it is in requirements.txt: uv pip sync requirements.txt"
    files = sorted((ROOT / "images").rglob("Dockerfile"))
    done = subprocess.run([hadolint, "--no-color", *files], capture_output=True, text=True, check=False)

    assert files
    assert done.stdout == ""
    assert done.returncode == 0, done.stderr


def test_a_missing_template_is_named(space: Workspace) -> None:
    (space.project.templates / "Dockerfile.j2").unlink()

    with pytest.raises(TrainyardError, match=r"templates/Dockerfile\.j2 is missing"):
        render(space)
