"""Packages.xz to packages, with only the fields that a resolver and a lock need."""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainyard.debian.version import is_version
from trainyard.digest import is_sha256
from trainyard.errors import InputError

LIMIT = 512 << 20  # bytes of text; main's index has 57 MB
_MEMORY = 256 << 20  # for the decompressor; xz -9 needs 65 MB
_PATH = re.compile(r"pool/[A-Za-z0-9][A-Za-z0-9._+~:/-]*\.deb")
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_FIELDS = {
    "Package": "name",
    "Version": "version",
    "Architecture": "arch",
    "Essential": "essential",
    "Priority": "priority",
    "Multi-Arch": "multi_arch",
    "Pre-Depends": "pre_depends",
    "Depends": "depends",
    "Provides": "provides",
    "Conflicts": "conflicts",
    "Breaks": "breaks",
    "Filename": "filename",
    "Size": "size",
    "SHA256": "sha256",
}
_FIELD = re.compile(rf"^({'|'.join(_FIELDS)}):(.*(?:\n[ \t].*)*)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One stanza of an index; relations are still text. `path` starts with the archive (see LockedDeb)."""

    name: str
    version: str
    arch: str
    path: str
    size: int
    sha256: str
    is_essential: bool = False
    priority: str = "optional"
    multi_arch: str = "no"
    pre_depends: str = ""
    depends: str = ""
    provides: str = ""
    conflicts: str = ""
    breaks: str = ""


def read_index(path: Path, *, archive: str) -> Iterator[Package]:
    """The packages of an xz-compressed index; InputError for what is not one."""
    for number, stanza in enumerate(_stanzas(_decompress(path)), start=1):
        yield _package(_fields(stanza), archive, number)


def _decompress(path: Path) -> str:
    """The text of an .xz file, at most LIMIT bytes of it."""
    decompressor = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_MEMORY)
    try:
        data = decompressor.decompress(path.read_bytes(), max_length=LIMIT)
    except lzma.LZMAError as error:
        raise InputError(f"the package index cannot be decompressed: {error}") from None
    if not decompressor.eof:
        raise InputError(f"the package index is cut short, or larger than {LIMIT} bytes")
    return data.decode("utf-8", errors="replace")


def _stanzas(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = text.find("\n\n", start)
        end = len(text) if end < 0 else end
        if stanza := text[start:end].strip("\n"):
            yield stanza
        start = end + 2


def _fields(stanza: str) -> dict[str, str]:
    """The wanted fields of a stanza, under our names; folded lines (they begin with a space) are joined."""
    return {_FIELDS[key]: value.strip() for key, value in _FIELD.findall(stanza)}


def _package(fields: dict[str, str], archive: str, number: int) -> Package:
    name, version = fields.get("name", ""), fields.get("version", "")
    path, size, sha256 = fields.get("filename", ""), fields.get("size", ""), fields.get("sha256", "")
    if not (
        _NAME.fullmatch(name)
        and is_version(version)
        and _PATH.fullmatch(path)
        and ".." not in path
        and size.isdecimal()
        and is_sha256(sha256)
    ):
        raise InputError(
            f"stanza {number} of the package index ({name[:50] or 'no name'}) has a bad or missing field"
        )
    return Package(
        name=name,
        version=version,
        arch=fields.get("arch", ""),
        path=f"{archive}/{path}",
        size=int(size),
        sha256=sha256,
        is_essential=fields.get("essential") == "yes",
        priority=fields.get("priority", "optional"),
        multi_arch=fields.get("multi_arch", "no"),
        pre_depends=fields.get("pre_depends", ""),
        depends=fields.get("depends", ""),
        provides=fields.get("provides", ""),
        conflicts=fields.get("conflicts", ""),
        breaks=fields.get("breaks", ""),
    )
