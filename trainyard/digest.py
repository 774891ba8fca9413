"""sha256 as OCI writes it: `sha256:<64 hex>`, and bare hex for file stores."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

_HEX = re.compile(r"[0-9a-f]{64}")
CHUNK = 1 << 20


def sha256_hex(data: bytes) -> str:
    """Bare hex sha256 of `data`."""
    return hashlib.sha256(data).hexdigest()


def oci_digest(data: bytes) -> str:
    """`sha256:<hex>` of `data` (OCI image spec, descriptor digests)."""
    return f"sha256:{sha256_hex(data)}"


def is_sha256(text: str) -> bool:
    """Whether `text` is 64 lower-case hex digits."""
    return _HEX.fullmatch(text) is not None


def hex_of(digest: str) -> str:
    """The bare hex of `sha256:<hex>`; ValueError for anything else."""
    algorithm, _, value = digest.partition(":")
    if algorithm != "sha256" or not is_sha256(value):
        raise ValueError(f"not a sha256 digest: {digest!r}")
    return value


def read_chunks(path: Path) -> Iterator[bytes]:
    """The bytes of a file, 1 MiB at a time."""
    with path.open("rb", buffering=0) as stream:
        while chunk := stream.read(CHUNK):
            yield chunk


def sha256_file(path: Path) -> str:
    """Bare hex sha256 of a file, read in chunks."""
    hasher = hashlib.sha256()
    for chunk in read_chunks(path):
        hasher.update(chunk)
    return hasher.hexdigest()


def canonical_json(value: object) -> bytes:
    """JSON with sorted keys, no spaces and UTF-8, so that equal values have equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
