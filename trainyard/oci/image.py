"""Layers and a config -> the exact bytes of an OCI config and manifest (OCI image-spec 1.1). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from trainyard.digest import canonical_json, oci_digest
from trainyard.store import LayerRecord

CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageConfig:
    """How an image runs, and what it says about itself; `env` and `labels` are (name, value) pairs.

    `created` is RFC 3339 in UTC, to the second; some engines crash on an empty one.
    """

    os: str
    architecture: str
    created: str
    env: Pairs = ()
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    user: str = ""
    working_dir: str = ""
    labels: Pairs = ()
    stop_signal: str = ""

    def __post_init__(self) -> None:
        if not _INSTANT.fullmatch(self.created):
            raise ValueError(f"created must be like 2026-12-01T00:00:00Z, not {self.created!r}")

    def with_labels(self, labels: Pairs) -> ImageConfig:
        """The same config with other labels."""
        return replace(self, labels=labels)

    def to_config(self) -> Mapping[str, object]:
        """The OCI config without what the layers decide; empty fields are left out."""
        process = {
            "Env": [f"{name}={value}" for name, value in self.env],
            "Entrypoint": list(self.entrypoint),
            "Cmd": list(self.cmd),
            "User": self.user,
            "WorkingDir": self.working_dir,
            "Labels": dict(self.labels),
            "StopSignal": self.stop_signal,
        }
        return {
            "os": self.os,
            "architecture": self.architecture,
            "created": self.created,
            "config": {name: value for name, value in process.items() if value},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The bytes of a config and a manifest, and the layers they list, from the bottom up."""

    config: bytes
    manifest: bytes
    layers: tuple[LayerRecord, ...]

    @property
    def config_digest(self) -> str:
        """`sha256:<hex>` of the config, which engines call the image ID."""
        return oci_digest(self.config)

    @property
    def digest(self) -> str:
        """`sha256:<hex>` of the manifest: the image's name in a registry."""
        return oci_digest(self.manifest)


def make_image(
    config: ImageConfig, layers: Sequence[LayerRecord], *, history: Sequence[str], annotations: Pairs = ()
) -> Image:
    """The image of `layers` from the bottom up; `history` says what is in each of them."""
    if len(history) != len(layers):
        raise ValueError(f"{len(layers)} layers, {len(history)} lines of history")
    config_bytes = canonical_json(
        {
            **config.to_config(),
            "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
            "history": [{"created": config.created, "created_by": text} for text in history],
        }
    )
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor(CONFIG, config_bytes),
        "layers": [
            {"mediaType": layer.media_type, "digest": layer.digest, "size": layer.size} for layer in layers
        ],
        **({"annotations": dict(annotations)} if annotations else {}),
    }
    return Image(config=config_bytes, manifest=canonical_json(manifest), layers=tuple(layers))


def descriptor(media_type: str, data: bytes) -> dict[str, object]:
    """An OCI content descriptor of bytes at hand."""
    return {"mediaType": media_type, "digest": oci_digest(data), "size": len(data)}
