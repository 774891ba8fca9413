"""What the index files of a layout say of its images: an OCI index for OCI tools, manifest.json for `docker load`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from trainyard.digest import canonical_json, hex_of
from trainyard.oci.image import INDEX, MANIFEST, Image, descriptor
from trainyard.platforms import Platform

REF_NAME = "org.opencontainers.image.ref.name"
# Engines with containerd's image store take the whole name from here.
IMAGE_NAME = "io.containerd.image.name"


class _Blob(Protocol):
    @property
    def digest(self) -> str: ...


class _Documents(Protocol):
    @property
    def manifest(self) -> bytes: ...
    @property
    def config_digest(self) -> str: ...
    @property
    def layers(self) -> Sequence[_Blob]: ...


class Named(Protocol):
    """An image, made here or read from a layout, its platform and name."""

    @property
    def name(self) -> str:
        """`repository:tag`."""

    @property
    def platform(self) -> Platform:
        """What it runs on."""

    @property
    def image(self) -> _Documents:
        """Its manifest, and what that names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedImage:
    """An image, its platform, and the `repository:tag` that it loads as."""

    name: str
    platform: Platform
    image: Image


def image_index(images: Sequence[Named]) -> bytes:
    """The OCI index (image-spec 1.1, image-index.md) of one image's platforms, in the order given.

    ValueError when two are for the same platform: a runtime could not choose.
    """
    platforms = [named.platform for named in images]
    if len(set(platforms)) != len(platforms):
        raise ValueError(f"two images for one platform: {', '.join(map(str, platforms))}")
    return _index([_by_platform(named) for named in images])


def entry_index(images: Sequence[Named]) -> bytes:
    """index.json of a layout that holds these images, each under its own name."""
    return _index([{**_by_platform(named), "annotations": _annotations(named.name)} for named in images])


def index_of_index(name: str, index: bytes) -> bytes:
    """index.json of a layout that holds one image for several platforms."""
    return _index([{**descriptor(INDEX, index), "annotations": _annotations(name)}])


def docker_manifest(images: Sequence[Named]) -> bytes:
    """manifest.json, as `docker save` writes it."""
    return canonical_json([_docker_entry(named) for named in images])


def _index(manifests: list[dict[str, object]]) -> bytes:
    return canonical_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests})


def _by_platform(named: Named) -> dict[str, object]:
    return {
        **descriptor(MANIFEST, named.image.manifest),
        "platform": {"os": named.platform.os, "architecture": named.platform.arch},
    }


def _annotations(name: str) -> dict[str, str]:
    return {REF_NAME: name.rpartition(":")[2], IMAGE_NAME: _full_name(name)}


def _docker_entry(named: Named) -> dict[str, object]:
    def inside(digest: str) -> str:
        return f"blobs/sha256/{hex_of(digest)}"

    return {
        "Config": inside(named.image.config_digest),
        "RepoTags": [named.name],
        "Layers": [inside(layer.digest) for layer in named.image.layers],
    }


def _full_name(name: str) -> str:
    """The name with its registry: Docker's own short forms stand for Docker Hub."""
    first, slash, _ = name.partition("/")
    if not slash:
        return f"docker.io/library/{name}"
    return name if "." in first or ":" in first or first == "localhost" else f"docker.io/{name}"
