"""The two named build contexts of a Dockerfile in images/: the Debian base as an OCI layout, the wheels in a folder.

They are what a Dockerfile needs beside its own folder, for a build here and for a farm that has no trainyard.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trainyard.commands.build import fetch
from trainyard.commands.display import Display
from trainyard.commands.render import golden_base
from trainyard.dockerfile import base_image, base_name, base_specs
from trainyard.errors import InputError, ReproducibilityError
from trainyard.files import link_or_copy
from trainyard.golden import NOT_REPRODUCIBLE_HINT
from trainyard.matrix.model import Target
from trainyard.oci.image import Image
from trainyard.oci.layout import write_layout
from trainyard.oci.naming import NamedImage
from trainyard.plan import Plan
from trainyard.platforms import Platform
from trainyard.workspace import Workspace

# Of a copy; a hard link has the mode that the file has in the cache.
_MODE = 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class Contexts:
    """Both contexts of one Dockerfile; `base_name` and `base_digest` are what its FROM says."""

    plan: Plan
    base: Path
    base_name: str
    base_digest: str
    wheels: Path

    def document(self) -> dict[str, object]:
        """The image's part of `invoke build --engine docker --contexts DIR --json`."""
        return {
            "target": self.plan.target,
            "platform": str(self.plan.platform),
            "tag": self.plan.tag,
            "base": str(self.base),
            "base_name": self.base_name,
            "base_digest": self.base_digest,
            "wheels": str(self.wheels),
        }


def write_all_contexts(
    workspace: Workspace, cells: Sequence[tuple[Target, Platform]], folder: Path, display: Display
) -> tuple[Contexts, ...]:
    """Write `folder`/<target>/<os>-<arch>/base and /wheels of each cell, in place of those that were there."""
    return tuple(_write(workspace, target, platform, folder, display) for target, platform in cells)


def prepare_contexts(
    workspace: Workspace, target: Target, plan: Plan, folder: Path, display: Display
) -> Contexts:
    """Fetch, assemble and write both contexts into an empty `folder`; the caller holds the store.

    Errors: ReproducibilityError when the base is not the one that the Dockerfile names.
    """
    base = _base(workspace, target, plan, display)
    named = NamedImage(name=base_name(plan), platform=plan.platform, image=base)
    write_layout(folder / "base", [named], blob_of=workspace.store.blob)
    wheels = folder / "wheels"
    wheels.mkdir()
    for wheel in plan.wheels.wheels:
        if Path(wheel.filename).name != wheel.filename:
            raise InputError(f"{wheel.requirement}: {wheel.filename!r} is no file name", hint="invoke lock")
        link_or_copy(workspace.store.input(wheel.sha256), wheels / wheel.filename, mode=_MODE)
    return Contexts(
        plan=plan,
        base=folder / "base",
        base_name=base_name(plan),
        base_digest=base.digest,
        wheels=wheels,
    )


def _base(workspace: Workspace, target: Target, plan: Plan, display: Display) -> Image:
    """The base's layers built into the store, and every wheel fetched."""
    with display.assembling(plan) as progress:
        assembler = workspace.assembler(target, plan.platform, compression="zstd", progress=progress)
        missing = assembler.missing(base_specs(plan))
        debs = [deb for spec in missing for deb in spec.debs]
        if missing:
            debs += assembler.sources.python_debs()
        fetch(workspace, plan, wheels=plan.wheels.wheels, debs=debs, display=display)
        layers = assembler.build(base_specs(plan))
    base = base_image(plan, {layer.spec.key: layer.record for layer in layers})
    if base.digest != (promised := golden_base(workspace, plan).digest):
        raise ReproducibilityError(
            f"NOT REPRODUCIBLE: the base is {base.digest}, the Dockerfile names {promised}",
            hint=NOT_REPRODUCIBLE_HINT,
        )
    return base


def _write(
    workspace: Workspace, target: Target, platform: Platform, folder: Path, display: Display
) -> Contexts:
    plan = workspace.plan(target, platform)
    place = folder / target.name / platform.slug
    fresh = place.with_name(f".{place.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        with workspace.store.exclusive():
            contexts = prepare_contexts(workspace, target, plan, fresh, display)
        for name in ("base", "wheels"):
            shutil.rmtree(place / name, ignore_errors=True)
            place.mkdir(exist_ok=True)
            (fresh / name).rename(place / name)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    display.say(f"{target.name} {platform}: base and {len(plan.wheels.wheels)} wheels are in {place}")
    return replace(contexts, base=place / "base", wheels=place / "wheels")
