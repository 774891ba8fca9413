"""What is in an image, as a CycloneDX document: every wheel and every .deb, by name, version, hash and licence.

The locks say which components there must be, the image's own metadata which there are and under which licence;
the two are held against each other. Pure.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from urllib.parse import quote

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.utils import canonicalize_name

from trainyard.digest import canonical_json
from trainyard.errors import InputError
from trainyard.oci.flatten import FlatImage
from trainyard.plan import Plan

SPECIFICATION = "1.6"
# A `License:` of METADATA may hold a whole licence; what is longer than this is no name.
_LONGEST_NAME = 80
_STATUS = "var/lib/dpkg/status"
_METADATA = re.compile(r"(?:.*/)?site-packages/[^/]+\.dist-info/METADATA")
_COPYRIGHT = re.compile(r"usr/share/doc/([^/]+)/copyright")
_DEP5_LICENSE = re.compile(r"^License:[ \t]*(\S.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sbom:
    """The document's bytes, how many components it lists, and those whose licence is nowhere to be found."""

    data: bytes
    components: int
    unlicensed: tuple[str, ...]


def is_evidence(path: str) -> bool:
    """Whether an SBOM is made from that file's content: for `flatten(keep=...)`."""
    return bool(path == _STATUS or _METADATA.fullmatch(path) or _COPYRIGHT.fullmatch(path))


def make_sbom(plan: Plan, tree: FlatImage, *, digest: str) -> Sbom:
    """The SBOM of the image with that manifest digest and file tree.

    InputError naming every package that the image has and the locks do not, or the other way round.
    """
    wheels = _wheels(plan, tree)
    debs = _debs(plan, tree)
    components = [*wheels, *debs]
    document = {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPECIFICATION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPECIFICATION,
        # The same image has the same serial number, whoever makes its SBOM.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}",
        "version": 1,
        "metadata": {
            "timestamp": plan.config.created,
            "tools": {"components": [{"type": "application", "name": "trainyard"}]},
            "component": {
                "bom-ref": digest,
                "type": "container",
                "name": plan.target,
                "version": plan.tag,
                "hashes": [_hash(digest.removeprefix("sha256:"))],
            },
        },
        "components": components,
        "dependencies": [
            {"ref": digest, "dependsOn": [str(component["bom-ref"]) for component in components]},
        ],
    }
    return Sbom(
        data=canonical_json(document) + b"\n",
        components=len(components),
        unlicensed=tuple(f"{one['name']} {one['version']}" for one in components if "licenses" not in one),
    )


def _wheels(plan: Plan, tree: FlatImage) -> list[dict[str, object]]:
    found: dict[tuple[str, str], list[dict[str, object]]] = {}
    for path in sorted(tree.contents):
        if _METADATA.fullmatch(path):
            metadata = HeaderParser().parsestr(tree.contents[path].decode("utf-8", "replace"))
            key = (canonicalize_name(metadata["Name"] or ""), metadata["Version"] or "")
            found[key] = _wheel_licenses(
                metadata["License-Expression"],
                metadata.get_all("Classifier", []),
                metadata["License"],
            )
    locked = {(wheel.name, wheel.version.partition("+")[0]): wheel for wheel in plan.wheels.wheels}
    here = {(name, version.partition("+")[0]): licenses for (name, version), licenses in found.items()}
    _require_same("wheels", locked, here)
    return [
        _component(
            name=wheel.name,
            version=wheel.version,
            purl=f"pkg:pypi/{wheel.name}@{quote(wheel.version, safe='')}?file_name={quote(wheel.filename, safe='')}",
            sha256=wheel.sha256,
            licenses=here[key],
        )
        for key, wheel in sorted(locked.items())
    ]


def _debs(plan: Plan, tree: FlatImage) -> list[dict[str, object]]:
    if plan.debs is None:
        return []
    status = tree.contents.get(_STATUS, b"").decode("utf-8", "replace")
    here = {
        (fields.get("Package", ""), fields.get("Version", "")): fields
        for fields in map(_fields, status.split("\n\n"))
        if fields
    }
    locked = {(deb.name, deb.version): deb for deb in plan.debs.debs}
    _require_same("debs", locked, here)
    suite = plan.debs.base
    return [
        _component(
            name=deb.name,
            version=deb.version,
            purl=f"pkg:deb/debian/{quote(deb.name, safe='')}@{quote(deb.version, safe='')}"
            f"?arch={here[key].get('Architecture', plan.debs.arch)}&distro={suite}",
            sha256=deb.sha256,
            licenses=_deb_licenses(tree, deb.name),
        )
        for key, deb in sorted(locked.items())
    ]


def _require_same(what: str, locked: Iterable[tuple[str, str]], here: Iterable[tuple[str, str]]) -> None:
    wanted, found = set(locked), set(here)
    lines = [f"{name} {version} is locked and not in the image" for name, version in sorted(wanted - found)]
    lines += [f"{name} {version} is in the image and not locked" for name, version in sorted(found - wanted)]
    if lines:
        raise InputError(
            "\n  ".join([f"the image's {what} are not the locked ones:", *lines]), hint="invoke build"
        )


def _component(
    *, name: str, version: str, purl: str, sha256: str, licenses: list[dict[str, object]]
) -> dict[str, object]:
    return {
        "bom-ref": purl,
        "type": "library",
        "name": name,
        "version": version,
        "purl": purl,
        "hashes": [_hash(sha256)],
        **({"licenses": licenses} if licenses else {}),
    }


def _hash(sha256: str) -> dict[str, str]:
    return {"alg": "SHA-256", "content": sha256}


def _wheel_licenses(
    expression: str | None, classifiers: Iterable[str], name: str | None
) -> list[dict[str, object]]:
    """What METADATA says, best first: an SPDX expression (PEP 639), classifiers, a short `License`."""
    if expression:
        try:
            return [{"expression": str(canonicalize_license_expression(expression))}]
        except InvalidLicenseExpression:
            return _named([expression])
    said = [text.rpartition(" :: ")[2] for text in classifiers if text.startswith("License :: ")]
    if not said and name and "\n" not in name.strip() and len(name.strip()) <= _LONGEST_NAME:
        said = [name.strip()]
    return _named(said)


def _deb_licenses(tree: FlatImage, name: str) -> list[dict[str, object]]:
    """The short names in a machine-readable debian/copyright (DEP 5), its own or its source package's."""
    folder = f"usr/share/doc/{name}"
    member = tree.members.get(folder)
    if member is not None and member.kind == "symlink":
        folder = f"usr/share/doc/{member.link.rstrip('/').rpartition('/')[2]}"
    text = tree.contents.get(f"{folder}/copyright", b"").decode("utf-8", "replace")
    return _named(
        found.strip() for found in _DEP5_LICENSE.findall(text) if len(found.strip()) <= _LONGEST_NAME
    )


def _named(names: Iterable[str]) -> list[dict[str, object]]:
    return [{"license": {"name": name}} for name in sorted(set(names))]


def _fields(stanza: str) -> Mapping[str, str]:
    """The one-line fields of a dpkg stanza."""
    pairs = (line.partition(": ") for line in stanza.splitlines() if not line.startswith((" ", "\t")))
    return {name: value for name, _, value in pairs if value}
