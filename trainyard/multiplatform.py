"""The built images of one target's platforms as one image: an OCI index that a runtime chooses from by platform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainyard.build import BuiltImage
from trainyard.digest import canonical_json, oci_digest, sha256_hex
from trainyard.errors import InputError, LockError
from trainyard.oci.layout import read_layout, write_layout
from trainyard.oci.naming import NamedImage, image_index
from trainyard.paths import Project
from trainyard.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltIndex:
    """An index, the layout folder that holds it and its images, and its immutable tag."""

    target: str
    tag: str
    digest: str
    layout: Path
    platforms: tuple[str, ...]

    def document(self) -> dict[str, object]:
        """The index's part of `invoke build --json`."""
        return {
            "tag": self.tag,
            "digest": self.digest,
            "layout": str(self.layout),
            "platforms": list(self.platforms),
        }


def write_index(
    project: Project, store: Store, images: Sequence[BuiltImage], *, compression: str
) -> BuiltIndex:
    """Write `dist/<target>/index/` from the images of one target, built with that compression.

    LockError when they are of different versions or days: one tag could not be true of both.
    """
    ordered = sorted(images, key=lambda built: str(built.plan.platform))
    target = ordered[0].plan.target
    tag = index_tag([built.plan.tag for built in ordered], target=target)
    named = [
        NamedImage(name=f"{target}:{tag}", platform=built.plan.platform, image=built.image)
        for built in ordered
    ]
    index = image_index(named)
    folder = project.dist_index(target, compression=compression)
    if not _is_current(folder, index):
        write_layout(folder, named, blob_of=store.blob, index_name=f"{target}:{tag}")
    return BuiltIndex(
        target=target,
        tag=tag,
        digest=oci_digest(index),
        layout=folder,
        platforms=tuple(str(built.plan.platform) for built in ordered),
    )


def index_tag(tags: Sequence[str], *, target: str) -> str:
    """The images' common tag, with one hash for their plans' hashes: `cuda13.2-torch2.15.0-py313-20261201-0a1b2c3d`."""
    stems = sorted({tag.rpartition("-")[0] for tag in tags})
    if len(stems) != 1:
        raise LockError(
            f"the platforms of {target} are locked apart, so one tag cannot name them: {', '.join(stems)}",
            hint=f"invoke lock --target {target} --upgrade",
        )
    return f"{stems[0]}-{sha256_hex(canonical_json(sorted(tags)))[:8]}"


def _is_current(folder: Path, index: bytes) -> bool:
    try:
        return read_layout(folder).index == index
    except (OSError, InputError):
        return False
