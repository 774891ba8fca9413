"""An OCI layout folder as something to run: layers with both digests, and how its config starts a process.

Layout, manifest and config: OCI image spec 1.1. Everything read here comes from outside: sizes are bounded,
digests held against the bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trainyard.digest import hex_of, oci_digest
from trainyard.errors import InputError
from trainyard.platforms import Platform

_MAX_JSON = 8 << 20
_MAX_LAYERS = 512
_GZIP = ("application/vnd.oci.image.layer.v1.tar+gzip", "application/vnd.docker.image.rootfs.diff.tar.gzip")
_ZSTD = ("application/vnd.oci.image.layer.v1.tar+zstd",)
_PLAIN = ("application/vnd.oci.image.layer.v1.tar",)
_COMPRESSION = {
    **dict.fromkeys(_GZIP, "gzip"),
    **dict.fromkeys(_ZSTD, "zstd"),
    **dict.fromkeys(_PLAIN, "none"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLayer:
    """A layer blob on disk: `size` bytes with `digest`, that give a tar with `diff_id` (`sha256:<hex>`)."""

    blob: Path
    digest: str
    diff_id: str
    size: int
    compression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnableImage:
    """An image in a layout: its manifest digest, its layers from the bottom up, and its process."""

    digest: str
    platform: Platform
    layers: tuple[StoredLayer, ...]
    env: tuple[tuple[str, str], ...]
    user: str
    working_dir: str
    entrypoint: tuple[str, ...]
    cmd: tuple[str, ...]


def read_runnable(layout: Path, platform: Platform) -> RunnableImage:
    """The image for `platform` in an OCI layout folder.

    Errors: InputError, naming the file, when the folder is no layout, has no such image, or a manifest or
    config is not what its digest says.
    """
    index = _object(_json(layout / "index.json"), layout / "index.json")
    digest = _pick(layout, index, platform)
    manifest_path = _blob(layout, digest)
    manifest = _object(_verified(manifest_path, digest), manifest_path)
    config_digest = _text(_object(manifest.get("config"), manifest_path), "digest", manifest_path)
    config_path = _blob(layout, config_digest)
    config = _object(_verified(config_path, config_digest), config_path)
    process = _object(config.get("config") or {}, config_path)
    return RunnableImage(
        digest=digest,
        platform=_platform(config, config_path),
        layers=_layers(layout, manifest, config, manifest_path),
        env=tuple(_pair(item) for item in _texts(process, "Env", config_path)),
        user=str(process.get("User") or ""),
        working_dir=str(process.get("WorkingDir") or "/"),
        entrypoint=_texts(process, "Entrypoint", config_path),
        cmd=_texts(process, "Cmd", config_path),
    )


def _pick(layout: Path, index: Mapping[str, object], platform: Platform) -> str:
    """The digest of the manifest for `platform`; a lone manifest that names no platform is taken too."""
    source = layout / "index.json"
    descriptors = [_object(item, source) for item in _list(index, "manifests", source)]
    named = {"os": platform.os, "architecture": platform.arch}
    for descriptor in descriptors:
        where = descriptor.get("platform")
        if isinstance(where, dict) and {key: where.get(key) for key in named} == named:
            return _text(descriptor, "digest", source)
    if len(descriptors) == 1 and "platform" not in descriptors[0]:
        return _text(descriptors[0], "digest", source)
    raise InputError(f"{layout} holds no image for {platform}", hint="invoke list shows what is built")


def _layers(
    layout: Path, manifest: Mapping[str, object], config: Mapping[str, object], source: Path
) -> tuple[StoredLayer, ...]:
    descriptors = [_object(item, source) for item in _list(manifest, "layers", source)]
    diff_ids = _texts(_object(config.get("rootfs"), source), "diff_ids", source)
    if len(descriptors) != len(diff_ids) or len(descriptors) > _MAX_LAYERS:
        raise InputError(f"{source}: {len(descriptors)} layers, {len(diff_ids)} diff ids in the config")
    return tuple(
        _layer(layout, descriptor, diff_id, source)
        for descriptor, diff_id in zip(descriptors, diff_ids, strict=True)
    )


def _layer(layout: Path, descriptor: Mapping[str, object], diff_id: str, source: Path) -> StoredLayer:
    media_type = _text(descriptor, "mediaType", source)
    if media_type not in _COMPRESSION:
        raise InputError(f"{source}: layer of unknown media type {media_type!r}")
    size = descriptor.get("size")
    if not isinstance(size, int) or size < 0:
        raise InputError(f"{source}: layer without a size")
    digest = _text(descriptor, "digest", source)
    _hex(diff_id, source)
    blob = _blob(layout, digest)
    return StoredLayer(
        blob=blob, digest=digest, diff_id=diff_id, size=size, compression=_COMPRESSION[media_type]
    )


def _platform(config: Mapping[str, object], source: Path) -> Platform:
    try:
        return Platform.parse(f"{_text(config, 'os', source)}/{_text(config, 'architecture', source)}")
    except ValueError as error:
        raise InputError(f"{source}: {error}") from None


def _json(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_JSON + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", hint="invoke build makes the layout") from None
    if len(data) > _MAX_JSON:
        raise InputError(f"{path} is larger than any manifest or config")
    return data


def _verified(path: Path, digest: str) -> bytes:
    data = _json(path)
    if oci_digest(data) != digest:
        raise InputError(
            f"{path} has {oci_digest(data)}, not {digest}", hint="invoke build writes the layout again"
        )
    return data


def _blob(layout: Path, digest: str) -> Path:
    return layout / "blobs" / "sha256" / _hex(digest, layout)


def _hex(digest: str, source: Path) -> str:
    try:
        return hex_of(digest)
    except ValueError as error:
        raise InputError(f"{source}: {error}") from None


def _object(value: object, source: Path) -> Mapping[str, object]:
    if isinstance(value, bytes):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise InputError(f"{source} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f"{source}: an object was expected")
    return value


def _list(value: Mapping[str, object], name: str, source: Path) -> list[object]:
    found = value.get(name) or []
    if not isinstance(found, list):
        raise InputError(f"{source}: {name} is not a list")
    return found


def _texts(value: Mapping[str, object], name: str, source: Path) -> tuple[str, ...]:
    found = _list(value, name, source)
    if not all(isinstance(item, str) for item in found):
        raise InputError(f"{source}: {name} is not a list of strings")
    return tuple(str(item) for item in found)


def _text(value: Mapping[str, object], name: str, source: Path) -> str:
    found = value.get(name)
    if not isinstance(found, str):
        raise InputError(f"{source}: {name} is missing")
    return found


def _pair(item: str) -> tuple[str, str]:
    name, _, value = item.partition("=")
    return name, value
