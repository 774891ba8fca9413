"""`invoke sbom`: the bill of materials of built images, beside their layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainyard.commands.display import Display
from trainyard.commands.images import built_image
from trainyard.files import write_atomic
from trainyard.matrix.model import Target
from trainyard.oci.flatten import flatten
from trainyard.platforms import Platform
from trainyard.sbom import is_evidence, make_sbom
from trainyard.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class SbomFile:
    """An SBOM on disk, of which image, and what in it has no licence."""

    target: str
    platform: str
    digest: str
    path: str
    components: int
    unlicensed: tuple[str, ...]


def sbom_path(layout: Path) -> Path:
    """Where the SBOM of the image in that layout lies."""
    return layout.with_name(f"{layout.name}.sbom.cdx.json")


def sbom_all(
    workspace: Workspace, cells: Sequence[tuple[Target, Platform]], display: Display
) -> tuple[SbomFile, ...]:
    """Write the SBOM of each image in dist/."""
    return tuple(_sbom(workspace, target, platform, display) for target, platform in cells)


def _sbom(workspace: Workspace, target: Target, platform: Platform, display: Display) -> SbomFile:
    plan = workspace.plan(target, platform)
    layout = workspace.project.dist(target.name, platform)
    image = built_image(
        layout, plan.tag, f"invoke build --target {target.name} --platform {platform} --no-smoke"
    )
    tree = flatten(image, keep=is_evidence, workers=workspace.settings.workers)
    sbom = make_sbom(plan, tree, digest=image.digest)
    path = sbom_path(layout)
    write_atomic(path, sbom.data)
    where = workspace.project.relative(path)
    display.say(f"{where}: {sbom.components} components, {len(sbom.unlicensed)} without a known licence")
    return SbomFile(
        target=target.name,
        platform=str(platform),
        digest=image.digest,
        path=str(path),
        components=sbom.components,
        unlicensed=sbom.unlicensed,
    )
