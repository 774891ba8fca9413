"""Tiny real images: entries -> layers in a store -> a layout folder.

record = keep_layer(store, [file_entry("etc/x", b"x")])
write_layout(folder, [named(tiny_image([record]))], blob_of=store.blob)
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import zstandard

from trainyard.digest import sha256_hex
from trainyard.oci.codec import Codec, codec
from trainyard.oci.entry import Entry, file_entry, symlink_entry
from trainyard.oci.image import Image, ImageConfig, make_image
from trainyard.oci.layer import WrittenLayer, write_layer
from trainyard.oci.layout import write_layout
from trainyard.oci.naming import NamedImage
from trainyard.platforms import Platform
from trainyard.store import LayerRecord, Store

MTIME = 946_684_800
CREATED = "2026-12-01T00:00:00Z"
AMD64 = Platform("linux", "amd64")


def packed(entries: Iterable[Entry], *, using: Codec | None = None) -> tuple[WrittenLayer, bytes]:
    """What `write_layer` says of the entries, and the blob."""
    sink = io.BytesIO()
    return write_layer(entries, mtime=MTIME, codec=using or codec("zstd"), sink=sink), sink.getvalue()


def unzstd(blob: bytes) -> bytes:
    """The tar inside a zstd blob, by a decompressor that trainyard does not use."""
    return zstandard.ZstdDecompressor().decompressobj().decompress(blob)


def keep_layer(store: Store, entries: Iterable[Entry], *, compression: str = "zstd") -> LayerRecord:
    """A layer in the store, under a key made of its digest."""
    written, blob = packed(entries, using=codec(compression))
    record = LayerRecord(
        key=sha256_hex(blob),
        diff_id=written.diff_id,
        digest=written.digest,
        size=written.size,
        content_size=written.content_size,
        files=written.files,
        media_type=written.media_type,
    )
    with store.scratch() as folder:
        (folder / "blob").write_bytes(blob)
        store.keep_layer(record, folder / "blob")
    return record


def tiny_image(layers: Sequence[LayerRecord], *, arch: str = "amd64") -> Image:
    """An image of these layers with every config field filled in."""
    config = ImageConfig(
        os="linux",
        architecture=arch,
        created=CREATED,
        env=(("LANG", "C.UTF-8"), ("PATH", "/usr/bin")),
        entrypoint=("/bin/true",),
        cmd=("--help",),
        user="1000:0",
        working_dir="/home",
        labels=(("org.example.name", "tiny"),),
        stop_signal="SIGTERM",
    )
    history = [f"layer {position}" for position, _ in enumerate(layers)]
    return make_image(config, layers, history=history, annotations=(("org.example.kind", "test"),))


def named(image: Image, *, name: str = "tiny:1", platform: Platform = AMD64) -> NamedImage:
    """The image as a layout takes it."""
    return NamedImage(name=name, platform=platform, image=image)


def tiny_layout(store: Store, folder: Path, *, compression: str = "zstd") -> Image:
    """A layout of two layers in `folder`, and the image in it."""
    base = [file_entry("etc/motd", b"hello\n"), symlink_entry("bin", "usr/bin")]
    top = [file_entry("opt/venv/lib/data.bin", bytes(range(256)) * 5000)]
    layers = [keep_layer(store, entries, compression=compression) for entries in (base, top)]
    image = tiny_image(layers)
    write_layout(folder, [named(image)], blob_of=store.blob)
    return image
