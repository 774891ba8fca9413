"""An OCI layout folder -> everything in it that is not what it says it is.

Nothing is believed: every digest, size and diff id is computed again, and every count compared. It shares no
code with what writes layouts but the names of media types.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from trainyard.digest import CHUNK, hex_of, oci_digest
from trainyard.errors import InputError
from trainyard.oci.codec import LAYER, decompressed
from trainyard.oci.document import Document, parse, read_bounded
from trainyard.oci.image import CONFIG, INDEX, MANIFEST

_LAYERS = (LAYER, f"{LAYER}+gzip", f"{LAYER}+zstd")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def validate_layout(folder: Path) -> list[str]:
    """Every mismatch in a layout folder, one a line; empty is good. Never raises for what it finds there."""
    validation = _Validation(folder)
    for step in (validation.marker, validation.index, validation.docker, validation.strays):
        with validation.noting():
            step()
    return validation.problems


@dataclass(slots=True)
class _Validation:
    folder: Path
    problems: list[str] = field(default_factory=list)
    # Digests that some document names; of images, config -> layers; of layers, what was computed for them.
    _named: set[str] = field(default_factory=set)
    _images: dict[str, list[str]] = field(default_factory=dict)
    _diff_ids: dict[tuple[str, str], str | None] = field(default_factory=dict)

    @contextlib.contextmanager
    def noting(self) -> Iterator[None]:
        """Turn what stops a step into a line; the other steps go on."""
        try:
            yield
        except InputError as error:
            self.problems.append(error.message)
        except OSError as error:
            self.problems.append(f"{error.filename or self.folder}: {error.strerror or error}")

    def marker(self) -> None:
        document = self._top("oci-layout")
        self._same("oci-layout: imageLayoutVersion", document.text("imageLayoutVersion"), "1.0.0")

    def index(self) -> None:
        index = self._top("index.json")
        self._same("index.json: schemaVersion", index.number("schemaVersion"), 2)
        self._same("index.json: mediaType", index.fields.get("mediaType", INDEX), INDEX)
        manifests = index.children("manifests")
        if not manifests:
            self.problems.append("index.json: no image")
        for item in manifests:
            with self.noting():
                self._image(item)

    def docker(self) -> None:
        """manifest.json may be missing; if not, it must tell of the same images as index.json."""
        path = self.folder / "manifest.json"
        if not path.exists():
            return
        listed = parse(b'{"images": %b}' % read_bounded(path), "manifest.json").children("images")
        found = {item.text("Config"): item.texts("Layers") for item in listed}
        for config in sorted({*found, *self._images}):
            self._same(f"manifest.json: layers of {config!r}", found.get(config), self._images.get(config))

    def strays(self) -> None:
        for path in sorted((self.folder / "blobs").glob("*/*")):
            if f"{path.parent.name}:{path.name}" not in self._named:
                self.problems.append(f"blobs/{path.parent.name}/{path.name!r}: no document names it")

    def _image(self, item: Document) -> None:
        manifest = self._document(item, MANIFEST)
        self._same(f"{manifest.where}: schemaVersion", manifest.number("schemaVersion"), 2)
        self._same(f"{manifest.where}: mediaType", manifest.text("mediaType"), MANIFEST)
        layers = manifest.children("layers")
        config = self._document(manifest.child("config"), CONFIG)
        where = f"blobs/sha256/{hex_of(manifest.child('config').digest())}"
        self._images[where] = [f"blobs/sha256/{hex_of(layer.digest())}" for layer in layers]
        with self.noting():
            self._config(config, item, count=len(layers))
        diff_ids = config.child("rootfs").texts("diff_ids")
        self._same(f"{config.where}: number of diff ids", len(diff_ids), len(layers))
        for position, layer in enumerate(layers):
            with self.noting():
                self._layer(layer, diff_ids[position] if position < len(diff_ids) else None)

    def _config(self, config: Document, item: Document, *, count: int) -> None:
        self._same(f"{config.where}: rootfs.type", config.child("rootfs").text("type"), "layers")
        history = config.children("history")
        filled = [entry for entry in history if not entry.fields.get("empty_layer")]
        self._same(f"{config.where}: history entries with a layer", len(filled), count)
        for document in (config, *history):
            if not _INSTANT.fullmatch(document.text("created")):
                self.problems.append(
                    f"{config.where}: created {document.text('created')!r} is no RFC 3339 time"
                )
        own = (config.text("os"), config.text("architecture"))
        if "platform" in item.fields:
            platform = item.child("platform")
            said = (platform.text("os"), platform.text("architecture"))
            self._same(f"{config.where}: os and architecture", own, said)

    def _layer(self, item: Document, diff_id: str | None) -> None:
        media_type = item.text("mediaType")
        if media_type not in _LAYERS:
            self.problems.append(f"{item.where}: layer of media type {media_type!r}")
        key = (item.digest(), media_type)
        if key not in self._diff_ids:
            self._diff_ids[key] = self._streamed(item, media_type)
        found = self._diff_ids[key]
        if found is not None and diff_id is not None:
            self._same(f"layer {item.digest()}: diff id", diff_id, found)

    def _streamed(self, item: Document, media_type: str) -> str | None:
        """Hold a layer blob against its descriptor; its diff id, or None where it cannot be decompressed."""
        tar = hashlib.sha256()
        diff_id = None
        with self._blob(item).open("rb") as stream:
            blob = _Hashed(stream)
            with self.noting():
                for chunk in decompressed(cast("BinaryIO", blob), media_type):
                    tar.update(chunk)
                diff_id = f"sha256:{tar.hexdigest()}"
            blob.drain()
        self._same(f"layer {item.digest()}: digest", f"sha256:{blob.hasher.hexdigest()}", item.digest())
        self._same(f"layer {item.digest()}: size", blob.size, item.number("size"))
        return diff_id

    def _document(self, item: Document, media_type: str) -> Document:
        """The small document that a descriptor names, held against it."""
        self._same(f"{item.where}: mediaType of {item.digest()}", item.text("mediaType"), media_type)
        path = self._blob(item)
        data = read_bounded(path)
        where = f"blobs/sha256/{path.name}"
        self._same(f"{where}: digest", oci_digest(data), item.digest())
        self._same(f"{where}: size", len(data), item.number("size"))
        return parse(data, where)

    def _blob(self, item: Document) -> Path:
        digest = item.digest()
        self._named.add(digest)
        path = self.folder / "blobs" / "sha256" / hex_of(digest)
        if not stat.S_ISREG(path.lstat().st_mode):  # a pipe would wait for ever
            raise InputError(f"blobs/sha256/{path.name} is not a regular file")
        return path

    def _top(self, name: str) -> Document:
        return parse(read_bounded(self.folder / name), name)

    def _same(self, what: str, found: object, expected: object) -> None:
        if found != expected:
            self.problems.append(f"{what}: {found!r}, expected {expected!r}")


@dataclass(slots=True)
class _Hashed:
    """A file that is hashed and counted as it is read."""

    stream: BinaryIO
    size: int = 0
    hasher: hashlib._Hash = field(default_factory=hashlib.sha256)

    def read(self, size: int = CHUNK) -> bytes:
        data = self.stream.read(CHUNK if size < 0 else size)
        self.hasher.update(data)
        self.size += len(data)
        return data

    def drain(self) -> None:
        """What a decompressor left unread belongs to the digest too."""
        while self.read():
            pass
