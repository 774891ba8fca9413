"""`invoke build`: fetch, assemble, hold against the golden record, test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trainyard.assemble import Assembler, Progress
from trainyard.build import BuiltImage, build_image, hold_against_golden, record_golden
from trainyard.commands.display import Display
from trainyard.commands.smoke import smoke_built
from trainyard.fetch import fetch_inputs, missing_inputs
from trainyard.layers import LayerKind, LayerSpec
from trainyard.lock.model import LockedDeb, LockedWheel
from trainyard.lock.routing import own_index
from trainyard.matrix.model import Target
from trainyard.multiplatform import BuiltIndex, write_index
from trainyard.plan import Plan
from trainyard.platforms import Platform
from trainyard.report import Report
from trainyard.workspace import Workspace

_COMPILED = (LayerKind.STDLIB, LayerKind.BYTECODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """How long each stage took."""

    fetch: float
    assemble: float
    smoke: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """How to build: compression `zstd` or `gzip`, whether to write the golden record, whether to test."""

    compression: str = "zstd"
    record: bool = False
    smoke: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOutcome:
    """A built image, how long it took, and its report unless smoke was left out."""

    built: BuiltImage
    seconds: Seconds
    report: Report | None = None

    def document(self) -> dict[str, object]:
        """The image's part of `invoke build --json`."""
        plan, image = self.built.plan, self.built.image
        layers = [
            {
                "key": layer.spec.key,
                "diff_id": layer.record.diff_id,
                "digest": layer.record.digest,
                "size": layer.record.size,
                "content_size": layer.record.content_size,
                "created_by": layer.spec.title,
                "cached": layer.cached,
            }
            for layer in self.built.layers
            if layer.record.files
        ]
        return {
            "target": plan.target,
            "platform": str(plan.platform),
            "tag": plan.tag,
            "digest": image.digest,
            "config_digest": image.config_digest,
            "layers": layers,
            "size": self.built.size,
            "layout": str(self.built.layout),
            "seconds": {
                "fetch": round(self.seconds.fetch, 3),
                "assemble": round(self.seconds.assemble, 3),
                "smoke": None if self.seconds.smoke is None else round(self.seconds.smoke, 3),
            },
            "report": None if self.report is None else self.report.to_document(),
        }


def build_all(
    workspace: Workspace, cells: Sequence[tuple[Target, Platform]], request: BuildRequest, display: Display
) -> tuple[BuildOutcome, ...]:
    """Build and test each image in turn."""
    return tuple(build(workspace, target, platform, request, display) for target, platform in cells)


def index_all(
    workspace: Workspace, outcomes: Sequence[BuildOutcome], request: BuildRequest, display: Display
) -> tuple[BuiltIndex, ...]:
    """One index for each target that was built for more than one platform."""
    targets = dict.fromkeys(outcome.built.plan.target for outcome in outcomes)
    groups = [
        [outcome.built for outcome in outcomes if outcome.built.plan.target == target] for target in targets
    ]
    indexes = []
    for images in groups:
        if len(images) > 1:
            index = write_index(workspace.project, workspace.store, images, compression=request.compression)
            display.say(f"{index.target} {', '.join(index.platforms)}: {index.digest}, {index.tag}")
            indexes.append(index)
    return tuple(indexes)


def build(
    workspace: Workspace, target: Target, platform: Platform, request: BuildRequest, display: Display
) -> BuildOutcome:
    """Build one image, hold it against its golden record, and run its checks where this host can."""
    outcome = _assemble(workspace, target, platform, request, display)
    if not request.smoke:
        return outcome
    start = workspace.clock()
    report = smoke_built(workspace, outcome.built, display)
    seconds = replace(outcome.seconds, smoke=workspace.clock() - start)
    return replace(outcome, report=report, seconds=seconds)


def _assemble(
    workspace: Workspace, target: Target, platform: Platform, request: BuildRequest, display: Display
) -> BuildOutcome:
    plan = workspace.plan(target, platform)
    with workspace.store.exclusive(), display.assembling(plan) as progress:
        if request.record:
            _record(workspace, target, plan, progress, display)
        assembler = workspace.assembler(target, platform, compression=request.compression, progress=progress)
        start = workspace.clock()
        _fetch(workspace, plan, assembler, assembler.missing(plan.layers), display)
        fetched = workspace.clock()
        built = build_image(workspace.project, plan, assembler)
        hold_against_golden(workspace.project, built, compression=request.compression)
        seconds = Seconds(fetch=fetched - start, assemble=workspace.clock() - fetched)
    display.say(f"{target.name} {platform}: {built.image.digest}, {built.size / 1e6:.0f} MB, as recorded")
    return BuildOutcome(built=built, seconds=seconds)


def _record(workspace: Workspace, target: Target, plan: Plan, progress: Progress, display: Display) -> None:
    """The record is always of the default compression."""
    assembler = workspace.assembler(target, plan.platform, compression="zstd", progress=progress)
    golden, moved = record_golden(
        workspace.project,
        plan,
        assembler,
        provide=lambda specs: _fetch(workspace, plan, assembler, specs, display),
    )
    path = workspace.project.relative(workspace.project.golden(plan.target, plan.platform))
    workspace.say(f"{path}: {'recorded' if moved else 'unchanged'}, {golden.manifest_digest}")


def _fetch(
    workspace: Workspace, plan: Plan, assembler: Assembler, specs: Sequence[LayerSpec], display: Display
) -> None:
    """Bring the inputs of those layers into the store; nothing is fetched for a layer that stands."""
    needed = [spec for spec in specs if workspace.store.layer(assembler.record_key(spec)) is None]
    compiling = any(spec.kind in _COMPILED for spec in needed)
    fetch(
        workspace,
        plan,
        wheels=[wheel for spec in needed for wheel in spec.wheels],
        debs=[
            *(deb for spec in needed for deb in spec.debs),
            *(assembler.sources.python_debs() if compiling else ()),
        ],
        display=display,
    )


def fetch(
    workspace: Workspace,
    plan: Plan,
    *,
    wheels: Sequence[LockedWheel],
    debs: Sequence[LockedDeb],
    display: Display,
) -> None:
    """Bring those of these inputs that are not there yet into the store."""
    wheels, debs = missing_inputs(workspace.store, wheels), missing_inputs(workspace.store, debs)
    if not wheels and not debs:
        return
    with display.fetching([*wheels, *debs]) as on_bytes:
        fetch_inputs(
            workspace.store,
            wheels=wheels,
            debs=debs,
            lock=plan.wheels,
            deb_lock=plan.debs,
            origin=workspace.deb_origin(plan.target),
            settings=workspace.settings,
            index=own_index(workspace.matrix.target(plan.target), workspace.settings),
            on_bytes=on_bytes,
        )
