"""Plans of tiny real wheels, made by hand, and what builds them into a store.

    yard = Yard(tmp_path)
    plan = yard.plan([build_wheel(...)], files={"etc/motd": b"hello"})
    built = yard.build(plan)

Only WHEELS and FILES layers: the others need Debian's own packages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.locks import AMD64, deb_lock, wheel_lock
from tests.support.wheels import locked
from trainyard.assemble import Assembler, Progress
from trainyard.build import BuiltImage, build_image
from trainyard.layers import CONSTANT_MTIME, ImageFile, LayerKind, LayerSpec
from trainyard.lock.model import LockedWheel
from trainyard.oci.codec import codec
from trainyard.oci.image import ImageConfig
from trainyard.paths import Project
from trainyard.plan import Plan
from trainyard.sources import LayerSources
from trainyard.store import Store
from trainyard.wheels.archive import Site

CREATED = "2026-12-01T00:00:00Z"


def wheel_layer(*wheels: LockedWheel, part: int = 0, parts: int = 1) -> LayerSpec:
    """A layer of installed wheels."""
    title = f"wheels: {', '.join(wheel.requirement for wheel in wheels)}"
    return LayerSpec(
        kind=LayerKind.WHEELS, title=title, mtime=CONSTANT_MTIME, wheels=wheels, part=part, parts=parts
    )


def file_layer(files: Mapping[str, bytes], *, title: str = "our files") -> LayerSpec:
    """A layer of files that the plan holds."""
    held = tuple(ImageFile(path=path, data=files[path]) for path in sorted(files))
    return LayerSpec(kind=LayerKind.FILES, title=title, mtime=CONSTANT_MTIME, files=held)


def plan_of(*layers: LayerSpec) -> Plan:
    """The plan of these layers from the bottom up."""
    wheels = {wheel.name: wheel for spec in layers for wheel in spec.wheels}
    return Plan(
        target="tiny",
        platform=AMD64,
        layers=layers,
        config=ImageConfig(os="linux", architecture="amd64", created=CREATED, user="1000:0"),
        tag="tiny-1",
        wheels=wheel_lock(*wheels.values()),
        debs=deb_lock(),
    )


@dataclass(frozen=True, slots=True)
class Yard:
    """A project folder and a store beside it."""

    folder: Path

    @property
    def project(self) -> Project:
        return Project(self.folder / "project")

    @property
    def store(self) -> Store:
        return Store(self.folder / "store")

    def admit(self, path: Path) -> LockedWheel:
        """Put a wheel file into the store's inputs, as a download would."""
        wheel = locked(path)
        target = self.store.input(wheel.sha256)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
        return wheel

    def plan(self, wheels: Sequence[Path] = (), *, files: Mapping[str, bytes] | None = None) -> Plan:
        """One layer for each wheel, then one of files; the wheels are put into the store."""
        layers = [wheel_layer(self.admit(path)) for path in wheels]
        return plan_of(*layers, *([file_layer(files)] if files else []))

    def assembler(
        self, *, compression: str = "zstd", workers: int = 2, progress: Progress | None = None
    ) -> Assembler:
        sources = LayerSources(
            store=self.store, site=Site(), host=AMD64, host_debs=deb_lock(), workers=workers
        )
        return Assembler(
            store=self.store,
            codec=codec(compression),
            sources=sources,
            workers=workers,
            progress=progress or Progress(),
        )

    def build(self, plan: Plan, *, compression: str = "zstd", workers: int = 2) -> BuiltImage:
        return build_image(self.project, plan, self.assembler(compression=compression, workers=workers))

    def blobs(self) -> list[Path]:
        """What was kept of finished layers."""
        return sorted((self.store.root / "blobs").glob("*"))

    def leftovers(self) -> list[Path]:
        """What lies where only unfinished work may lie."""
        return sorted((self.store.root / "tmp").glob("*"))

    def dist(self) -> list[Path]:
        """Everything in dist/, dot folders too."""
        return sorted((self.project.root / "dist").rglob("*"))
