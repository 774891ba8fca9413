"""`invoke build --engine docker`: the reviewed Dockerfile, built by a BuildKit from contexts that we prepare."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trainyard.buildx import Docker, ImageBuild
from trainyard.commands.contexts import prepare_contexts
from trainyard.commands.display import Display
from trainyard.commands.render import context_differences
from trainyard.commands.smoke import smoke_fresh
from trainyard.dockerfile import epoch
from trainyard.errors import ReproducibilityError, SpaceError
from trainyard.matrix.model import Target
from trainyard.oci.codec import codec
from trainyard.oci.layout import LayoutImage, read_layout
from trainyard.plan import Plan
from trainyard.platforms import Platform
from trainyard.report import Report
from trainyard.workspace import Workspace

_MARGIN = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerRequest:
    """The layers' compression; which buildx builder, empty for the current one; whether it may use its cache.

    `smoke`: whether to test what came of it.
    """

    compression: str = "zstd"
    builder: str = ""
    use_cache: bool = True
    smoke: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerOutcome:
    """An image that Docker built: its plan, its layout folder, how long it took, its report if it was tested."""

    plan: Plan
    image: LayoutImage
    layout: Path
    builder: str
    seconds: float
    report: Report | None = None

    def document(self) -> dict[str, object]:
        """The image's part of `invoke build --json`."""
        return {
            "target": self.plan.target,
            "platform": str(self.plan.platform),
            "tag": self.plan.tag,
            "engine": "docker",
            "builder": self.builder,
            "digest": self.image.digest,
            "config_digest": self.image.config_digest,
            "layers": [
                {"diff_id": layer.diff_id, "digest": layer.digest, "size": layer.size}
                for layer in self.image.layers
            ],
            "size": sum(layer.size for layer in self.image.layers),
            "layout": str(self.layout),
            "seconds": {"build": round(self.seconds, 3)},
            "report": None if self.report is None else self.report.to_document(),
        }


def build_all_docker(
    workspace: Workspace, cells: Sequence[tuple[Target, Platform]], request: DockerRequest, display: Display
) -> tuple[DockerOutcome, ...]:
    """Build and test each image in turn.

    Errors: UsageError for an unknown compression; RunnerError when Docker or its builder cannot; SpaceError;
    ReproducibilityError when images/ is not as rendered.
    """
    codec(request.compression)
    docker = Docker.find(workspace.settings.environ)
    builder = docker.check(request.builder)
    outcomes = []
    for target, platform in cells:
        outcome = _build(workspace, target, platform, request, display, docker, builder)
        if request.smoke:
            report = smoke_fresh(
                workspace, target.name, platform, outcome.layout, outcome.image.digest, display
            )
            outcome = replace(outcome, report=report)
        outcomes.append(outcome)
    return tuple(outcomes)


def _build(
    workspace: Workspace,
    target: Target,
    platform: Platform,
    request: DockerRequest,
    display: Display,
    docker: Docker,
    builder: str,
) -> DockerOutcome:
    plan = workspace.plan(target, platform)
    folder = workspace.project.docker_context(plan.target, platform)
    if context_differences(workspace, plan):
        raise ReproducibilityError(
            f"{workspace.project.relative(folder)} is not what would be rendered, so nobody has reviewed it",
            hint=f"`invoke render --target {plan.target}`, then look at git diff",
        )
    layout = workspace.project.dist(plan.target, platform, engine="docker", compression=request.compression)
    _require_space(plan, layout)
    with workspace.store.exclusive(), workspace.store.scratch() as scratch:
        contexts = prepare_contexts(workspace, target, plan, scratch, display)
        fresh = layout.with_name(f".{layout.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        build = ImageBuild(
            context=folder,
            platform=str(platform),
            base=f"{contexts.base_name}@{contexts.base_digest}",
            base_layout=contexts.base,
            base_digest=contexts.base_digest,
            wheels=contexts.wheels,
            created=epoch(plan),
            layout=fresh,
            compression=request.compression,
            builder=request.builder,
            use_cache=request.use_cache,
        )
        start = workspace.clock()
        try:
            docker.build(build, say=display.say)
            image = read_layout(fresh).images[0]
            shutil.rmtree(layout, ignore_errors=True)
            fresh.rename(layout)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        seconds = workspace.clock() - start
    where = workspace.project.relative(layout)
    display.say(f"{plan.target} {platform}: {image.digest} by {builder} in {seconds:.0f} s, in {where}")
    # The layers moved with the folder.
    return DockerOutcome(
        plan=plan, image=read_layout(layout).images[0], layout=layout, builder=builder, seconds=seconds
    )


def _require_space(plan: Plan, layout: Path) -> None:
    """Here only the finished layout lands; what the builder needs is on its own disk."""
    layout.parent.mkdir(parents=True, exist_ok=True)
    needed = sum(wheel.size for wheel in plan.wheels.wheels) + _MARGIN
    free = shutil.disk_usage(layout.parent).free
    if free < needed:
        raise SpaceError(
            f"the image takes {needed / 1e9:.1f} GB in {layout.parent}, {free / 1e9:.1f} GB are free",
            hint="make room with `invoke clean --dist --layers`",
        )
