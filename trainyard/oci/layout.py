"""Images <-> an OCI image layout folder (OCI image-spec 1.1, image-layout.md) that `docker load` takes too.

oci-layout, index.json       what OCI tools read: manifests by digest, name and platform
manifest.json                what `docker load` of the tarred folder reads
blobs/sha256/<hex>           manifests, configs, layers; read-only, layers shared with the store
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainyard.digest import hex_of, oci_digest
from trainyard.errors import InputError
from trainyard.files import link_or_copy, write_atomic
from trainyard.oci.document import HINT, Document, parse, read_bounded
from trainyard.oci.image import INDEX, MANIFEST
from trainyard.oci.naming import NamedImage, docker_manifest, entry_index, image_index, index_of_index
from trainyard.store import LayerRecord

LAYOUT_VERSION = b'{"imageLayoutVersion":"1.0.0"}'
MAX_LAYERS = 512
MAX_IMAGES = 64
_READ_ONLY = 0o444


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutLayer:
    """A layer blob that a layout names: digest and diff id (`sha256:<hex>`), and its size in bytes."""

    path: Path
    digest: str
    diff_id: str
    size: int
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutImage:
    """An image in a layout: manifest and config, both held against their digests, and its layers, unread."""

    digest: str
    manifest: bytes
    config_digest: str
    config: bytes
    layers: tuple[LayoutLayer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A layout folder and its images, in the order of index.json.

    `index` are the bytes of the OCI index when they are one image for several platforms, else None.
    """

    folder: Path
    images: tuple[LayoutImage, ...]
    index: bytes | None = None


def write_layout(
    folder: Path,
    images: Sequence[NamedImage],
    *,
    blob_of: Callable[[str], Path],
    index_name: str | None = None,
) -> None:
    """Make `folder` the layout of these images, in place of the one that was there; `blob_of` takes bare hex.

    With `index_name`, a `repository:tag`, they are one image for several platforms: an OCI index of that name.
    It is built beside `folder` and renamed: a reader finds the old one or the new one, and a kill leaves dot
    folders that the next write removes. Errors: InputError when a layer's blob is missing or cut short.
    """
    fresh, old = (folder.with_name(f".{folder.name}.{end}") for end in ("new", "old"))
    for leftover in (fresh, old):
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        _fill(fresh, images, blob_of, index_name)
        if folder.exists():
            folder.rename(old)
        fresh.rename(folder)
    except BaseException:
        if old.exists() and not folder.exists():
            old.rename(folder)
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)


def read_layout(folder: Path) -> Layout:
    """The images of a layout folder; layer blobs are there and have their size, but are not opened.

    Errors: FileNotFoundError when the layout or a blob is missing; InputError, naming the file, when a
    document is too large, malformed, or not what its digest says, or a layer was cut short.
    """
    entries = parse(read_bounded(folder / "index.json"), f"{folder}/index.json").children("manifests")
    _check_version(folder)
    index = None
    if len(entries) == 1 and entries[0].text("mediaType") == INDEX:
        index, document = _read_document(folder, entries[0])
        entries = document.children("manifests")
    if len(entries) > MAX_IMAGES:
        raise InputError(f"{folder}: {len(entries)} images, more than {MAX_IMAGES}")
    return Layout(folder=folder, images=tuple(_read_image(folder, item) for item in entries), index=index)


def blob_path(folder: Path, digest: str) -> Path:
    """Where a layout keeps the blob of `sha256:<hex>`."""
    return folder / "blobs" / "sha256" / hex_of(digest)


def _check_version(folder: Path) -> None:
    version = parse(read_bounded(folder / "oci-layout"), f"{folder}/oci-layout").text("imageLayoutVersion")
    if version != "1.0.0":
        raise InputError(f"{folder} is a layout of version {version!r}, not 1.0.0", hint=HINT)


def _read_image(folder: Path, item: Document) -> LayoutImage:
    if item.text("mediaType") != MANIFEST:
        raise InputError(f"{item.where}: {item.text('mediaType')!r} is not an image manifest", hint=HINT)
    manifest_bytes, manifest = _read_document(folder, item)
    config_bytes, config = _read_document(folder, manifest.child("config"))
    layers = manifest.children("layers")
    diff_ids = config.child("rootfs").texts("diff_ids")
    if len(layers) != len(diff_ids) or len(layers) > MAX_LAYERS:
        raise InputError(f"{manifest.where}: {len(layers)} layers, {len(diff_ids)} diff ids", hint=HINT)
    return LayoutImage(
        digest=item.digest(),
        manifest=manifest_bytes,
        config_digest=manifest.child("config").digest(),
        config=config_bytes,
        layers=tuple(
            _read_layer(folder, layer, diff_id) for layer, diff_id in zip(layers, diff_ids, strict=True)
        ),
    )


def _read_layer(folder: Path, item: Document, diff_id: str) -> LayoutLayer:
    path = blob_path(folder, item.digest())
    if path.stat().st_size != item.number("size"):
        raise InputError(f"{path} has {path.stat().st_size} bytes, not {item.number('size')}", hint=HINT)
    return LayoutLayer(
        path=path,
        digest=item.digest(),
        diff_id=diff_id,
        size=item.number("size"),
        media_type=item.text("mediaType"),
    )


def _read_document(folder: Path, item: Document) -> tuple[bytes, Document]:
    path = blob_path(folder, item.digest())
    data = read_bounded(path)
    if oci_digest(data) != item.digest():
        raise InputError(f"{path} has {oci_digest(data)}", hint=HINT)
    return data, parse(data, str(path))


def _fill(
    folder: Path, images: Sequence[NamedImage], blob_of: Callable[[str], Path], index_name: str | None
) -> None:
    blob_path(folder, oci_digest(b"")).parent.mkdir(parents=True)
    for image in (named.image for named in images):
        for layer in image.layers:
            target = blob_path(folder, layer.digest)
            if not target.exists():
                _place(layer, blob_of(hex_of(layer.digest)), target)
        write_atomic(blob_path(folder, image.config_digest), image.config, mode=_READ_ONLY)
        write_atomic(blob_path(folder, image.digest), image.manifest, mode=_READ_ONLY)
    if index_name is None:
        write_atomic(folder / "index.json", entry_index(images))
        # Engines without containerd's store read this; they know no image of several platforms.
        write_atomic(folder / "manifest.json", docker_manifest(images))
    else:
        index = image_index(images)
        write_atomic(blob_path(folder, oci_digest(index)), index, mode=_READ_ONLY)
        write_atomic(folder / "index.json", index_of_index(index_name, index))
    write_atomic(folder / "oci-layout", LAYOUT_VERSION)


def _place(layer: LayerRecord, source: Path, target: Path) -> None:
    """The store's blob at `target`: the same file, else the same blocks, else a copy."""
    size = source.stat().st_size if source.exists() else None
    if size != layer.size:
        found = "not in the cache" if size is None else f"{size} bytes in the cache"
        raise InputError(
            f"layer {layer.digest} of {layer.size} bytes is {found}",
            hint="`invoke clean --layers`, then `invoke build`",
        )
    link_or_copy(source, target, mode=_READ_ONLY)
