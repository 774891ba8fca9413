"""`invoke smoke`: the checks inside built images; and the same at the end of `invoke build`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainyard.build import BuiltImage
from trainyard.commands.display import Display
from trainyard.errors import TrainyardError
from trainyard.matrix.model import Target
from trainyard.platforms import Platform
from trainyard.report import Report
from trainyard.smoke.image import smoke_layout
from trainyard.smoke.run import SmokeOptions, last_report
from trainyard.smoke.table import print_report
from trainyard.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeRequest:
    """Which runner, which checks (all when `options.only` is empty), and what a missing device means.

    `engine` is the builder whose image is tested, `oci` or `docker`: dist/<target>/<os>-<arch>[.docker].
    """

    runner: str = "auto"
    engine: str = "oci"
    options: SmokeOptions = field(default_factory=SmokeOptions)


def smoke_all(
    workspace: Workspace, cells: Sequence[tuple[Target, Platform]], request: SmokeRequest, display: Display
) -> tuple[Report, ...]:
    """Test the image in dist/ of each cell."""
    return tuple(_smoke(workspace, target, platform, request, display) for target, platform in cells)


def smoke_built(workspace: Workspace, built: BuiltImage, display: Display) -> Report:
    """Test an image that was just assembled; see `smoke_fresh`."""
    plan = built.plan
    content = sum(layer.record.content_size for layer in built.layers)
    return smoke_fresh(
        workspace, plan.target, plan.platform, built.layout, built.image.digest, display, content_size=content
    )


def smoke_fresh(
    workspace: Workspace,
    target: str,
    platform: Platform,
    layout: Path,
    digest: str,
    display: Display,
    *,
    content_size: int | None = None,
) -> Report:
    """Test what a build left in `layout`; a report of the very same image stands, and nothing is run again."""
    standing = _standing_report(layout, digest)
    if standing is None:
        return _run(workspace, target, platform, layout, SmokeRequest(), display, content_size)
    print_report(standing, display.console)
    return standing


def _standing_report(layout: Path, digest: str) -> Report | None:
    try:
        report = last_report(layout)
    except TrainyardError:
        return None
    return report if report is not None and report.ok and report.digest == digest else None


def _smoke(
    workspace: Workspace, target: Target, platform: Platform, request: SmokeRequest, display: Display
) -> Report:
    layout = workspace.project.dist(target.name, platform, engine=request.engine)
    if not layout.is_dir():
        how = "" if request.engine == "oci" else f" --engine {request.engine}"
        raise TrainyardError(
            f"{workspace.project.relative(layout)} is not there: {target.name} {platform} is not built",
            hint=f"invoke build --target {target.name} --platform {platform}{how}",
        )
    return _run(workspace, target.name, platform, layout, request, display)


def _run(
    workspace: Workspace,
    target: str,
    platform: Platform,
    layout: Path,
    request: SmokeRequest,
    display: Display,
    content_size: int | None = None,
) -> Report:
    with display.testing(f"{target} {platform}") as on_line:
        report = smoke_layout(
            layout,
            request.options,
            target=target,
            platform=platform,
            store=workspace.store,
            host=workspace.host,
            environ=workspace.settings.environ,
            runner=request.runner,
            content_size=content_size,
            on_line=on_line,
        )
    print_report(report, display.console)
    return report
