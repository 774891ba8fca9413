"""An image in an OCI layout as the tar that `docker load` and `podman load` read, streamed from its blobs."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trainyard.digest import hex_of, read_chunks, sha256_file
from trainyard.errors import InputError, RunnerError
from trainyard.oci.document import parse
from trainyard.oci.layout import LAYOUT_VERSION, LayoutImage, read_layout
from trainyard.oci.naming import docker_manifest, entry_index
from trainyard.oci.runnable import read_runnable
from trainyard.platforms import Platform

_VERSION = "org.opencontainers.image.version"
_TAG = re.compile(r"\w[\w.-]{0,100}", re.ASCII)  # OCI distribution spec 1.1, with room for what we add
_BLOCK = 512
_END = bytes(2 * _BLOCK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loadable:
    """One image of a layout and the `repository:tag` that an engine shall know it by."""

    layout: Path
    platform: Platform
    name: str
    image: LayoutImage

    @property
    def digest(self) -> str:
        """The manifest's digest."""
        return self.image.digest

    @property
    def size(self) -> int:
        """Bytes of its layers as they are stored, nearly all that is streamed."""
        return sum(layer.size for layer in self.image.layers)


class ImageStore(Protocol):
    """An engine, as far as its images go."""

    @property
    def platform(self) -> Platform | None:
        """What it runs without an emulator; None for a platform that none of our images is for."""

    @property
    def reads_zstd(self) -> bool:
        """Whether it can load our default layers."""

    def image_id(self, loadable: Loadable) -> str:
        """What it calls this image."""

    def load(self, loadable: Loadable, *, on_bytes: Callable[[int], object] = ...) -> bool:
        """See to it that it has the image under its name; whether anything had to be streamed."""


def find_loadable(layout: Path, platform: Platform, *, repository: str, zstd: bool) -> Loadable:
    """The image in a layout folder; for an engine without `zstd`, the one in `<layout>.gzip` beside it.

    Its tag is the one that its label says, and what its folder's name adds to the platform: images of the same
    plan by another engine or with another compression have other names.
    Errors: InputError when the layout is not sound; RunnerError when such an engine has no gzip layout to take.
    """
    image = _read(layout, platform)
    if not zstd and any(layer.media_type.endswith("+zstd") for layer in image.layers):
        layout = layout.with_name(f"{layout.name}.gzip")
        if not layout.is_dir():
            how = " --engine docker" if layout.name.endswith(".docker.gzip") else ""
            raise RunnerError(
                "this engine is older than 23.0 and cannot read layers compressed with zstd",
                hint=f"invoke build --target {repository} --platform {platform}{how} --compression gzip",
            )
        image = _read(layout, platform)
    tag = ".".join(filter(None, (_version(image), layout.name.partition(".")[2])))
    return Loadable(layout=layout, platform=platform, name=f"{repository}:{tag}", image=image)


def stream(loadable: Loadable, on_bytes: Callable[[int], object] = lambda _count: None) -> Iterator[bytes]:
    """The tar, in chunks: the same bytes for the same image and name; no more than a chunk is held.

    `on_bytes` hears how much of the layers was asked for.
    """
    image = loadable.image
    documents = {
        "oci-layout": LAYOUT_VERSION,
        "index.json": entry_index([loadable]),
        "manifest.json": docker_manifest([loadable]),
        _inside(image.digest): image.manifest,
        _inside(image.config_digest): image.config,
    }
    for name, data in documents.items():
        yield from _member(name, len(data), [data])
    for layer in {layer.digest: layer for layer in image.layers}.values():
        for chunk in _member(_inside(layer.digest), layer.size, read_chunks(layer.path)):
            yield chunk
            on_bytes(len(chunk))
    yield _END


def check_blobs(loadable: Loadable) -> None:
    """InputError for a layer that is not what its digest says; for when an engine refused the image.

    Engines check what they are given, and say in many ways that it is not what it should be.
    """
    for layer in loadable.image.layers:
        if (found := sha256_file(layer.path)) != hex_of(layer.digest):
            raise InputError(
                f"{layer.path} is damaged: its sha256 is {found}",
                hint="`invoke clean --layers --dist`, then `invoke build`: the file in the cache is the same one",
            )


def _read(layout: Path, platform: Platform) -> LayoutImage:
    try:
        digest = read_runnable(layout, platform).digest
        return next(image for image in read_layout(layout).images if image.digest == digest)
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}", hint="invoke build") from None


def _version(image: LayoutImage) -> str:
    """The tag of the plan, from the image's own label; of another image the beginning of its digest."""
    process = parse(image.config, f"config {image.config_digest}").fields.get("config")
    labels = process.get("Labels") if isinstance(process, dict) else None
    version = labels.get(_VERSION) if isinstance(labels, dict) else None
    return version if isinstance(version, str) and _TAG.fullmatch(version) else hex_of(image.digest)[:12]


def _inside(digest: str) -> str:
    return f"blobs/sha256/{hex_of(digest)}"


def _member(name: str, size: int, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """A file in a tar; `oci.tar` writes to a sink, and an engine's client wants to be the one that asks."""
    info = tarfile.TarInfo(name)
    info.size = size
    yield info.tobuf(tarfile.PAX_FORMAT)
    yield from chunks
    yield bytes(-size % _BLOCK)
