"""What the state layer, SBOMs and checks need to know of one .deb, read in one pass and storable as JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from trainyard.debian.archive import DebArchive
from trainyard.debian.control import Control
from trainyard.debian.elf import shared_library
from trainyard.debian.ldcache import is_library_name
from trainyard.errors import InputError
from trainyard.oci.entry import Entry, Kind

# Changes with what is read, so that facts stored by another version are not taken for ours.
FACTS_FORMAT = 1
# Packaged files that the state layer copies or reads (state.py, reviewed.toml): name/content, both as text.
_CARRIED = (
    "etc/ld.so.conf",
    "usr/share/base-files/",
    "usr/share/base-passwd/",
    "usr/share/ca-certificates/",
    "usr/share/debianutils/",
    "usr/share/libc-bin/",
    "usr/share/pam-configs/",
    "usr/share/pam/",
    "usr/share/readline/",
)
_MAX_CARRIED = 1 << 20
_MAX_LIBRARY = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DebFacts:
    """The facts of one package.

    `listed` are its paths as dpkg lists them, `members` the image's paths with kind and link; `md5` is by
    absolute path of a conffile, in hex; `sonames` are those of shared libraries, "" for one without;
    `contents` those of carried files.
    Text that is not UTF-8 keeps its bytes as surrogate escapes.
    """

    control: Control
    listed: tuple[str, ...]
    members: Mapping[str, tuple[Kind, str]]
    md5: Mapping[str, str]
    sonames: Mapping[str, str]
    contents: Mapping[str, str]

    @property
    def name(self) -> str:
        """The package's name."""
        return self.control.fields["Package"]

    @property
    def version(self) -> str:
        """The package's version."""
        return self.control.fields["Version"]

    @property
    def architecture(self) -> str:
        """Debian's architecture, `all` for none."""
        return self.control.fields.get("Architecture", "")

    def to_json(self) -> object:
        """A value that json.dumps takes, and from_json turns back."""
        return {
            "format": FACTS_FORMAT,
            "stanza": self.control.stanza,
            "control": dict(self.control.files),
            "listed": list(self.listed),
            "members": {path: [kind.value, link] for path, (kind, link) in self.members.items()},
            "md5": dict(self.md5),
            "sonames": dict(self.sonames),
            "contents": dict(self.contents),
        }

    @classmethod
    def from_json(cls, value: object) -> DebFacts:
        """The facts from what to_json gave; ValueError for another format."""
        if not isinstance(value, dict) or value.get("format") != FACTS_FORMAT:
            raise ValueError(f"facts of a .deb in a format that is not {FACTS_FORMAT}")
        data = cast("dict[str, dict[str, str]]", value)
        members = cast("dict[str, tuple[str, str]]", value["members"])
        return cls(
            control=Control(stanza=value["stanza"], files=data["control"]),
            listed=tuple(data["listed"]),
            members={path: (Kind(kind), link) for path, (kind, link) in members.items()},
            md5=data["md5"],
            sonames=data["sonames"],
            contents=data["contents"],
        )


def deb_facts(archive: DebArchive) -> DebFacts:
    """Read the facts out of a .deb; memory holds one library or one small file at a time."""
    control = archive.control
    conffiles = {path.lstrip("/") for path in control.conffiles}
    listed: list[str] = []
    members: dict[str, tuple[Kind, str]] = {}
    md5: dict[str, str] = {}
    sonames: dict[str, str] = {}
    contents: dict[str, str] = {}
    for unpacked in archive.unpacked():
        if unpacked.entry is not None or unpacked.listed == "/." or unpacked.is_replaced:
            listed.append(unpacked.listed)
        if (entry := unpacked.entry) is None:
            continue
        members[entry.path] = (entry.kind, entry.link)
        if entry.kind is not Kind.FILE:
            continue
        is_carried = entry.path.startswith(_CARRIED)
        if is_carried or entry.path in conffiles or _may_be_library(entry):
            data = _read(entry)
            if entry.path in conffiles:
                md5[f"/{entry.path}"] = hashlib.md5(data, usedforsecurity=False).hexdigest()
            if is_carried:
                contents[entry.path] = data.decode("utf-8", "surrogateescape")
            if _may_be_library(entry) and (library := shared_library(data)):
                sonames[entry.path] = library.soname
    return DebFacts(
        control=control, listed=tuple(listed), members=members, md5=md5, sonames=sonames, contents=contents
    )


def _may_be_library(entry: Entry) -> bool:
    folder, _, name = entry.path.rpartition("/")
    return folder.startswith("usr/") and "lib" in folder and is_library_name(name)


def _read(entry: Entry) -> bytes:
    limit = _MAX_LIBRARY if _may_be_library(entry) else _MAX_CARRIED
    if entry.size > limit:
        raise InputError(
            f"{entry.origin}: {entry.path} has {entry.size} bytes, and more than {limit} are not read",
            hint="leave the package out of matrix.yaml, or raise the limit in trainyard/debian/facts.py",
        )
    return b"".join(entry.content)
