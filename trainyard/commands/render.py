"""`invoke render`: write the Dockerfiles that the Plans mean, or say where those in images/ are others."""

from __future__ import annotations

import difflib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainyard.build import layer_record, read_golden
from trainyard.dockerfile import base_image, base_specs, render_context
from trainyard.errors import ReproducibilityError
from trainyard.files import write_atomic
from trainyard.matrix.model import Target
from trainyard.oci.codec import codec
from trainyard.oci.image import Image
from trainyard.payload import load_compiler
from trainyard.plan import Plan
from trainyard.platforms import Platform
from trainyard.workspace import Workspace

_MOST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """One context folder: how many files it has, and what was not as rendered, as lines of a diff."""

    target: str
    platform: str
    folder: str
    files: int
    differences: tuple[str, ...]


def render_all(
    workspace: Workspace, cells: Sequence[tuple[Target, Platform]], *, check: bool
) -> tuple[Rendered, ...]:
    """Render each cell; with `check` nothing is written."""
    return tuple(_render(workspace, target, platform, check=check) for target, platform in cells)


def golden_base(workspace: Workspace, plan: Plan) -> Image:
    """The base image that the golden record promises, so that rendering needs no deb.

    Errors: ReproducibilityError when a base layer of the plan is not on record.
    """
    path = workspace.project.golden(plan.target, plan.platform)
    golden = read_golden(workspace.project, path)
    media_type = codec("zstd").media_type
    known = {
        layer.key: layer_record(layer, media_type=media_type) for layer in (golden.layers if golden else ())
    }
    if missing := [spec.title for spec in base_specs(plan) if spec.key not in known]:
        raise ReproducibilityError(
            f"{workspace.project.relative(path)} lacks {', '.join(missing)}: the Dockerfile names its base by digest",
            hint=f"`invoke build --target {plan.target} --platform {plan.platform} --record`",
        )
    return base_image(plan, known)


def context_differences(workspace: Workspace, plan: Plan) -> tuple[str, ...]:
    """How the folder in images/ differs from what is rendered now, as lines of a diff."""
    folder, found, wanted = _both(workspace, plan)
    return tuple(_differences(workspace.project.relative(folder), found, wanted))


def _both(workspace: Workspace, plan: Plan) -> tuple[Path, dict[str, bytes], dict[str, bytes]]:
    """The context folder, the files in it, and the files that belong there."""
    base = golden_base(workspace, plan)
    folder = workspace.project.docker_context(plan.target, plan.platform)
    return folder, _read(folder), render_context(workspace.project, plan, base, compiler=load_compiler())


def _render(workspace: Workspace, target: Target, platform: Platform, *, check: bool) -> Rendered:
    plan = workspace.plan(target, platform)
    folder, found, wanted = _both(workspace, plan)
    if not check and found != wanted:
        _write(folder, wanted)
    return Rendered(
        target=plan.target,
        platform=str(platform),
        folder=workspace.project.relative(folder),
        files=len(wanted),
        differences=tuple(_differences(workspace.project.relative(folder), found, wanted)),
    )


def _read(folder: Path) -> dict[str, bytes]:
    paths = sorted(path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return {
        str(path.relative_to(folder)): b"a link" if path.is_symlink() else path.read_bytes() for path in paths
    }


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """The folder is all ours: what is no longer rendered goes."""
    shutil.rmtree(folder, ignore_errors=True)
    for path, data in files.items():
        write_atomic(folder / path, data)


def _differences(name: str, found: Mapping[str, bytes], wanted: Mapping[str, bytes]) -> Iterator[str]:
    """A unified diff from what is there to what is rendered."""
    for path in sorted({*found, *wanted}):
        if found.get(path) == wanted.get(path):
            continue
        before, after = (_lines(files.get(path)) for files in (found, wanted))
        sides = [f"{name}/{path}" if path in files else "/dev/null" for files in (found, wanted)]
        diff = list(difflib.unified_diff(before, after, sides[0], sides[1], lineterm=""))
        yield from diff[:_MOST]
        if len(diff) > _MOST:
            yield f"and {len(diff) - _MOST} more lines"


def _lines(data: bytes | None) -> list[str]:
    return (data or b"").decode(errors="replace").splitlines()
