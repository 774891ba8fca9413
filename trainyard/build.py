"""One (target, platform) from its locks to an OCI layout in dist/, held against the golden record."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from trainyard.assemble import Assembler, BuiltLayer, check_conflicts, store_bytes_needed
from trainyard.errors import InputError, ReproducibilityError, SpaceError
from trainyard.files import write_atomic
from trainyard.golden import GoldenLayer, GoldenRecord, OtherFormatError, compare, refuse_other_bytes
from trainyard.layers import FORMAT, LayerSpec
from trainyard.oci.image import Image, make_image
from trainyard.oci.layout import read_layout, write_layout
from trainyard.oci.naming import NamedImage
from trainyard.paths import Project
from trainyard.plan import Plan
from trainyard.store import LayerRecord

MARGIN = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltImage:
    """A finished image: its plan, its layers in order, and the layout folder that holds it."""

    plan: Plan
    layers: tuple[BuiltLayer, ...]
    image: Image
    layout: Path

    @property
    def size(self) -> int:
        """Bytes that a pull of the whole image moves."""
        return (
            len(self.image.config) + len(self.image.manifest) + sum(layer.size for layer in self.image.layers)
        )

    def golden(self) -> GoldenRecord:
        """What this build would record."""
        layers = tuple(_golden_layer(layer.spec, layer.record) for layer in self.layers)
        return _record(self.plan, self.image, layers)


def build_image(project: Project, plan: Plan, assembler: Assembler) -> BuiltImage:
    """Assemble, check the whole image, and write the layout; compare nothing.

    Errors: SpaceError before anything is begun; InputError when a layer or the image is not sound.
    """
    require_space(assembler, plan.layers)
    layers = tuple(assembler.build(plan.layers))
    image = image_of(plan, [(layer.spec, layer.record) for layer in layers])
    folder = project.dist(plan.target, plan.platform, compression=assembler.codec.name)
    if not _is_current(folder, image):
        # Whole-image conflicts can only come from new layers, so an image that stands was checked before.
        check_conflicts(assembler.store, plan.layers)
        write_layout(
            folder,
            [NamedImage(name=f"{plan.target}:{plan.tag}", platform=plan.platform, image=image)],
            blob_of=assembler.store.blob,
        )
    return BuiltImage(plan=plan, layers=layers, image=image, layout=folder)


def require_space(assembler: Assembler, specs: Sequence[LayerSpec]) -> None:
    """Refuse to start a build that the disk cannot hold."""
    needed = store_bytes_needed(assembler.missing(specs))
    if not needed:
        return
    assembler.store.root.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(assembler.store.root).free
    if free < needed + MARGIN:
        raise SpaceError(
            f"layers need {(needed + MARGIN) / 1e9:.1f} GB in {assembler.store.root}, {free / 1e9:.1f} GB are free",
            hint="make room with `invoke clean --dist --layers`, or set TRAINYARD_CACHE to a larger disk",
        )


def image_of(plan: Plan, layers: Sequence[tuple[LayerSpec, LayerRecord]]) -> Image:
    """Config and manifest over the layers that hold something."""
    kept = [(spec, record) for spec, record in layers if record.files]
    return make_image(
        plan.config,
        [record for _, record in kept],
        history=[spec.title for spec, _ in kept],
        annotations=(
            ("org.opencontainers.image.created", plan.config.created),
            ("org.opencontainers.image.version", plan.tag),
        ),
    )


def hold_against_golden(project: Project, built: BuiltImage, *, compression: str) -> None:
    """Compare with the committed record; ReproducibilityError when there is none or it differs."""
    path = project.golden(built.plan.target, built.plan.platform)
    recorded = read_golden(project, path)
    if recorded is None:
        raise ReproducibilityError(
            f"{project.relative(path)} is missing: this image was never recorded",
            hint=f"`invoke build --target {built.plan.target} --platform {built.plan.platform} --record`",
        )
    compare(recorded, built.golden(), diff_ids_only=compression != "zstd")


def record_golden(
    project: Project, plan: Plan, assembler: Assembler, *, provide: Callable[[Sequence[LayerSpec]], object]
) -> tuple[GoldenRecord, bool]:
    """Write the golden record of `plan`, and say whether it moved.

    Layers whose key the old record has are taken from it unless the store has them, so their inputs need not be
    here; `provide` is told the other specs and fetches the inputs of those that must be built. A record of
    another format is replaced whole. Errors: ReproducibilityError when a key that is on record gave other bytes.
    """
    path = project.golden(plan.target, plan.platform)
    old = _comparable(project, path)
    absent = assembler.missing(plan.layers)
    known = {spec.key: golden for spec in absent if old and (golden := old.layer(spec.key))}
    unknown = [spec for spec in plan.layers if spec.key not in known]
    provide(unknown)
    require_space(assembler, unknown)
    records = {layer.spec.key: layer.record for layer in assembler.build(unknown)}
    for key, golden in known.items():
        records[key] = layer_record(golden, media_type=assembler.codec.media_type)
    layers = [(spec, records[spec.key]) for spec in plan.layers]
    new = _record(plan, image_of(plan, layers), tuple(_golden_layer(spec, record) for spec, record in layers))
    if old is not None:
        refuse_other_bytes(old, new)
    moved = old != new
    if moved:
        write_atomic(path, new.to_json().encode())
    return new, moved


def read_golden(project: Project, path: Path) -> GoldenRecord | None:
    """The committed record, or None if there is none."""
    try:
        return GoldenRecord.from_json(path.read_text("utf-8"), source=project.relative(path))
    except FileNotFoundError:
        return None


def _comparable(project: Project, path: Path) -> GoldenRecord | None:
    """The committed record unless it is of another format: no key of it can be one of ours."""
    try:
        return read_golden(project, path)
    except OtherFormatError:
        return None


def _record(plan: Plan, image: Image, layers: tuple[GoldenLayer, ...]) -> GoldenRecord:
    return GoldenRecord(
        format=FORMAT,
        target=plan.target,
        platform=str(plan.platform),
        plan_key=plan.key,
        tag=plan.tag,
        config_digest=image.config_digest,
        manifest_digest=image.digest,
        layers=layers,
    )


def _golden_layer(spec: LayerSpec, record: LayerRecord) -> GoldenLayer:
    fields = {name: value for name, value in asdict(record).items() if name not in ("key", "media_type")}
    return GoldenLayer(key=spec.key, created_by=spec.title, **fields)


def layer_record(golden: GoldenLayer, *, media_type: str) -> LayerRecord:
    """A recorded layer as the store has it."""
    fields = {name: value for name, value in asdict(golden).items() if name != "created_by"}
    return LayerRecord(**fields, media_type=media_type)


def _is_current(folder: Path, image: Image) -> bool:
    try:
        return [found.digest for found in read_layout(folder).images] == [image.digest]
    except (OSError, InputError):
        return False
