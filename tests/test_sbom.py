"""The SBOM of an image: from its own metadata, held against the locks, valid for CycloneDX's own validator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.support.locks import deb, deb_lock, wheel
from tests.support.plans import plan_of, wheel_layer
from trainyard.errors import InputError
from trainyard.oci.flatten import FlatImage, FlatMember
from trainyard.plan import Plan
from trainyard.sbom import Sbom, is_evidence, make_sbom

DIGEST = f"sha256:{'ab' * 32}"
SITE = "opt/venv/lib/python3.13/site-packages"
STATUS = """\
Package: tini
Status: install ok installed
Architecture: amd64
Version: 0.19.0-3
Description: a tiny init
 Package: not-a-field

Package: base-files
Architecture: all
Version: 13.8
"""
FOLDER = FlatMember(kind="directory", mode=0o755, uid=0, gid=0)


def plan() -> Plan:
    one = plan_of(wheel_layer(wheel("demo", "1.0"), wheel("torch", "2.15.0+cu134")))
    debs = (deb("base-files", "13.8"), deb("tini", "0.19.0-3"))
    return replace(one, debs=replace(deb_lock(), debs=debs))


def metadata(name: str, version: str, *lines: str) -> dict[str, bytes]:
    head = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", *lines]
    return {
        f"{SITE}/{name}-{version}.dist-info/METADATA": "\n".join([*head, "", "License: no header"]).encode()
    }


def tree(*changes: Mapping[str, bytes], members: Mapping[str, FlatMember] | None = None) -> FlatImage:
    contents = {
        **metadata("demo", "1.0", "License-Expression: mit or apache-2.0"),
        **metadata("Torch", "2.15.0", "Classifier: License :: OSI Approved :: BSD License"),
        "var/lib/dpkg/status": STATUS.encode(),
    }
    for change in changes:
        contents |= change
    return FlatImage(members=dict(members or {}), contents=contents)


def document(sbom: Sbom) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(sbom.data)
    return found


def component(sbom: Sbom, name: str) -> dict[str, Any]:
    (found,) = [one for one in document(sbom)["components"] if one["name"] == name]
    return dict(found)


def test_every_wheel_and_every_deb_is_a_component_with_the_locked_hash() -> None:
    sbom = make_sbom(plan(), tree(), digest=DIGEST)

    assert [one["name"] for one in document(sbom)["components"]] == ["demo", "torch", "base-files", "tini"]
    assert component(sbom, "demo")["hashes"] == [{"alg": "SHA-256", "content": wheel("demo", "1.0").sha256}]
    assert component(sbom, "tini")["hashes"] == [
        {"alg": "SHA-256", "content": deb("tini", "0.19.0-3").sha256}
    ]


def test_a_purl_names_the_exact_package() -> None:
    sbom = make_sbom(plan(), tree(), digest=DIGEST)

    assert component(sbom, "torch")["purl"].startswith(
        "pkg:pypi/torch@2.15.0%2Bcu134?file_name=torch-2.15.0%2Bcu134"
    )
    assert component(sbom, "tini")["purl"] == "pkg:deb/debian/tini@0.19.0-3?arch=amd64&distro=trixie"
    assert component(sbom, "base-files")["purl"].endswith("?arch=all&distro=trixie")


def test_cyclonedx_s_own_strict_validator_accepts_it() -> None:
    sbom = make_sbom(plan(), tree(metadata("demo", "1.0", "License: Beerware")), digest=DIGEST)

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(sbom.data.decode()) is None


@pytest.mark.parametrize(
    ("lines", "licenses"),
    [
        (["License-Expression: mit or apache-2.0"], [{"expression": "MIT OR Apache-2.0"}]),
        (["License-Expression: my own"], [{"license": {"name": "my own"}}]),
        (["License-Expression: MIT", "License: BSD"], [{"expression": "MIT"}]),
        (["Classifier: License :: OSI Approved :: MIT License"], [{"license": {"name": "MIT License"}}]),
        (["License: BSD-3-Clause"], [{"license": {"name": "BSD-3-Clause"}}]),
        (["License: " + "x" * 81], None),
        (["License: line one", "        line two"], None),
        ([], None),
    ],
)
def test_a_wheel_s_licence_is_what_its_metadata_says_best(lines: list[str], licenses: object) -> None:
    sbom = make_sbom(plan(), tree(metadata("demo", "1.0", *lines)), digest=DIGEST)

    assert component(sbom, "demo").get("licenses") == licenses
    assert ("demo 1.0" in sbom.unlicensed) == (licenses is None)


def test_a_deb_s_licences_are_the_short_names_of_its_copyright_file() -> None:
    copyright_file = (
        b"Format: dep5\n\nFiles: *\nLicense: MIT\n text\n\nFiles: debian/*\nLicense: GPL-2+\n\nLicense: MIT\n"
    )
    sbom = make_sbom(plan(), tree({"usr/share/doc/tini/copyright": copyright_file}), digest=DIGEST)

    assert component(sbom, "tini")["licenses"] == [
        {"license": {"name": "GPL-2+"}},
        {"license": {"name": "MIT"}},
    ]
    assert sbom.unlicensed == ("base-files 13.8",)


def test_a_documentation_folder_that_links_to_another_package_s_is_followed() -> None:
    link = FlatMember(kind="symlink", mode=0o777, uid=0, gid=0, link="base-files")
    sbom = make_sbom(
        plan(),
        tree({"usr/share/doc/base-files/copyright": b"License: GPL\n"}, members={"usr/share/doc/tini": link}),
        digest=DIGEST,
    )

    assert component(sbom, "tini")["licenses"] == [{"license": {"name": "GPL"}}]


def test_packages_that_are_not_the_locked_ones_are_told_all_at_once() -> None:
    here = tree(metadata("stowaway", "3", "License: ?"))
    del here.contents[f"{SITE}/demo-1.0.dist-info/METADATA"]

    with pytest.raises(InputError) as caught:
        make_sbom(plan(), here, digest=DIGEST)

    assert "demo 1.0 is locked and not in the image" in caught.value.message
    assert "stowaway 3 is in the image and not locked" in caught.value.message


def test_a_deb_of_another_version_is_told() -> None:
    with pytest.raises(InputError, match=r"tini 0\.19\.0-4 is in the image and not locked"):
        make_sbom(
            plan(),
            tree({"var/lib/dpkg/status": STATUS.replace("0.19.0-3", "0.19.0-4").encode()}),
            digest=DIGEST,
        )


def test_the_same_image_gives_the_same_bytes_and_another_one_another_serial_number() -> None:
    first, again = (make_sbom(plan(), tree(), digest=DIGEST).data for _ in range(2))
    other = make_sbom(plan(), tree(), digest=f"sha256:{'cd' * 32}")

    assert first == again
    assert document(other)["serialNumber"] != json.loads(first)["serialNumber"]


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        (f"{SITE}/demo-1.0.dist-info/METADATA", True),
        (f"{SITE}/setuptools/_vendor/demo-1.0.dist-info/METADATA", False),
        ("usr/share/doc/tini/copyright", True),
        ("usr/share/doc/tini/changelog.gz", False),
        ("var/lib/dpkg/status", True),
        ("var/lib/dpkg/status-old", False),
    ],
)
def test_only_the_metadata_of_installed_packages_is_evidence(path: str, wanted: bool) -> None:
    assert is_evidence(path) is wanted
