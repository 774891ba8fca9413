"""OCI layouts made by hand, sound or not, from raw tar members."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import zstandard

MTIME = 1_700_000_000
_SUFFIX = {"zstd": "+zstd", "gzip": "+gzip", "none": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """A tar member, its name and link kept as given."""

    name: str
    data: bytes = b""
    kind: bytes = tarfile.REGTYPE
    link: str = ""
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    pax: Mapping[str, str] | None = None


def folder(name: str, *, mode: int = 0o755, uid: int = 0, gid: int = 0) -> Raw:
    return Raw(name=name, kind=tarfile.DIRTYPE, mode=mode, uid=uid, gid=gid)


def link(name: str, target: str) -> Raw:
    return Raw(name=name, kind=tarfile.SYMTYPE, link=target, mode=0o777)


def tar(members: Sequence[Raw]) -> bytes:
    """The members as one PAX tar."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for raw in members:
            info = tarfile.TarInfo(raw.name)
            info.type, info.linkname, info.mode, info.mtime = raw.kind, raw.link, raw.mode, MTIME
            info.uid, info.gid, info.size = raw.uid, raw.gid, len(raw.data)
            info.pax_headers = dict(raw.pax or {})
            archive.addfile(info, io.BytesIO(raw.data))
    return buffer.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer's blob and what a manifest says of it."""

    blob: bytes
    diff_id: str
    compression: str = "zstd"

    @property
    def digest(self) -> str:
        return f"sha256:{hashlib.sha256(self.blob).hexdigest()}"


def layer(content: bytes | Sequence[Raw], *, compression: str = "zstd") -> Layer:
    """A tar, or members to make one of, compressed."""
    data = content if isinstance(content, bytes) else tar(content)
    packed = {
        "zstd": lambda: zstandard.ZstdCompressor(level=1).compress(data),
        "gzip": lambda: gzip.compress(data, 1, mtime=0),
        "none": lambda: data,
    }[compression]()
    return Layer(blob=packed, diff_id=f"sha256:{hashlib.sha256(data).hexdigest()}", compression=compression)


def write_layout(
    where: Path,
    layers: Sequence[Layer],
    *,
    config: Mapping[str, object] | None = None,
    architecture: str = "amd64",
) -> str:
    """Write an OCI layout with one image, and return its manifest digest; `config` is the process part."""
    blobs = where / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)

    def keep(data: bytes) -> dict[str, object]:
        name = hashlib.sha256(data).hexdigest()
        (blobs / name).write_bytes(data)
        return {"digest": f"sha256:{name}", "size": len(data)}

    document = {
        "os": "linux",
        "architecture": architecture,
        "config": dict(config or {}),
        "rootfs": {"type": "layers", "diff_ids": [one.diff_id for one in layers]},
    }
    kind = "application/vnd.oci.image."
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{kind}manifest.v1+json",
        "config": {"mediaType": f"{kind}config.v1+json", **keep(json.dumps(document).encode())},
        "layers": [
            {"mediaType": f"{kind}layer.v1.tar{_SUFFIX[one.compression]}", **keep(one.blob)} for one in layers
        ],
    }
    descriptor = keep(json.dumps(manifest).encode())
    platform = {"os": "linux", "architecture": architecture}
    entry = {"mediaType": manifest["mediaType"], **descriptor, "platform": platform}
    index = {"schemaVersion": 2, "manifests": [entry]}
    (where / "index.json").write_text(json.dumps(index), "utf-8")
    (where / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}', "utf-8")
    return str(descriptor["digest"])
