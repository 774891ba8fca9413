"""An image's own doctor, run in the image by the native runner, becomes a report beside the layout."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.layouts import Layer, Raw, layer, write_layout
from tests.support.pythonimage import CONFIG, SITE, base_layer, files_layer, with_parents
from tests.support.runners import HOST, can_unshare
from trainyard.errors import InputError, RunnerError, UsageError
from trainyard.payload import load_payload
from trainyard.platforms import Platform
from trainyard.report import Report, Status
from trainyard.runner.base import Completed
from trainyard.smoke.image import smoke_layout
from trainyard.smoke.profiles import HOSTILE
from trainyard.smoke.run import DOCTOR, SmokeOptions, junit_path, last_report, read_results, report_path
from trainyard.store import Store

CLAIMS = {"schema": 1, "accelerator": "cuda", "toolkit": "13.2", "wheels": {}}
GOOD = '"""It is good."""\ndef run(claims):\n    return {"toolkit": claims["toolkit"]}\n'
BAD = '"""It is bad."""\nfrom _lib import fail\ndef run(claims):\n    fail("not what it says", seen=1)\n'
DEVICE = (
    '"""There is a device."""\nfrom _devices import need_device\nNEEDS = ("device",)\n'
    "def run(claims):\n    return {'device': need_device(claims)}\n"
)
OTHER = Platform("linux", "amd64" if HOST is not None and HOST.arch == "arm64" else "arm64")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """One store for all: every image here lies over the same base."""
    return Store(tmp_path_factory.mktemp("store"))


class Built:
    """An image with the real doctor and checks of the test's choice."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.layout = folder / "dist" / "cuda13.2" / "linux-amd64"
        self.store = store

    def write(self, checks: Mapping[str, str], files: Mapping[str, str] | None = None) -> Built:
        shipped = {path: data.decode() for path, data in load_payload().items() if "/checks/" not in path}
        shipped |= {path: data.decode() for path, data in load_payload().items() if "/checks/_" in path}
        shipped |= {f"opt/trainyard/checks/{name}.py": code for name, code in checks.items()}
        shipped |= {"opt/trainyard/claims.json": json.dumps(CLAIMS), **(files or {})}
        return self.layers(files_layer(shipped, executable=[path for path in shipped if "/bin/" in path]))

    def layers(self, *extra: Layer) -> Built:
        assert HOST is not None
        write_layout(self.layout, [base_layer(), *extra], config=CONFIG, architecture=HOST.arch)
        return self

    def smoke(self, options: SmokeOptions | None = None, **changes: object) -> Report:
        assert HOST is not None
        arguments = {
            "target": "cuda13.2",
            "platform": HOST,
            "store": self.store,
            "host": HOST,
            "environ": {},
        } | changes
        return smoke_layout(self.layout, options or SmokeOptions(), **arguments)  # type: ignore[arg-type]


@pytest.fixture
def built(tmp_path: Path, shared: Store) -> Built:
    if HOST is None or HOST.os != "linux" or not can_unshare(as_root=os.geteuid() == 0):
        pytest.skip("this host lets us make no namespaces")
    return Built(tmp_path, shared)


def outcome(report: Report) -> dict[str, str]:
    return {result.name: result.status.value for result in report.results}


def test_passes_failures_and_skips_come_out_of_the_image(built: Built) -> None:
    heard: list[str] = []

    report = built.write({"good": GOOD, "bad": BAD, "device": DEVICE}).smoke(on_line=heard.append)

    assert outcome(report) == {"bad": "fail", "device": "skip", "good": "pass"}
    assert not report.ok
    bad, device, good = report.results
    assert bad.reason == "not what it says"
    assert json.loads(bad.evidence)["seen"] == 1
    assert device.reason.startswith("needs an NVIDIA GPU")
    assert json.loads(good.evidence) == {"toolkit": "13.2"}
    assert (report.target, report.platform, report.runner, report.profile) == (
        "cuda13.2",
        str(HOST),
        "native",
        "normal",
    )
    assert heard[-1] == "3 checks, 1 failed, 1 skipped"


def test_both_forms_of_the_report_lie_beside_the_layout(built: Built) -> None:
    report = built.write({"good": GOOD}).smoke()

    assert report_path(built.layout).name == "linux-amd64.report.json"
    assert last_report(built.layout) == report
    assert ET.parse(junit_path(built.layout)).getroot().find("testsuite/testcase") is not None
    names = sorted(path.name for path in built.layout.parent.iterdir())
    assert names == ["linux-amd64", "linux-amd64.junit.xml", "linux-amd64.report.json"]


def test_only_the_checks_that_were_asked_for_run(built: Built) -> None:
    report = built.write({"good": GOOD, "bad": BAD}).smoke(SmokeOptions(only=("good",)))

    assert outcome(report) == {"good": "pass"}
    assert last_report(built.layout) is None, "a part of the checks stands for all"


def test_a_required_device_that_is_missing_fails(built: Built) -> None:
    report = built.write({"device": DEVICE}).smoke(SmokeOptions(require_device=True))

    assert outcome(report) == {"device": "fail"}


def test_a_name_that_no_check_has_is_wrong_usage(built: Built) -> None:
    with pytest.raises(UsageError, match="no check is called 'goood'; did you mean good"):
        built.write({"good": GOOD}).smoke(SmokeOptions(only=("goood",)))


def test_the_checks_pass_under_the_hostile_profile_too(built: Built) -> None:
    who = (
        '"""It runs as somebody."""\nimport os\n'
        'def run(claims):\n    return {"uid": os.getuid(), "home": os.environ.get("HOME")}\n'
    )

    report = built.write({"who": who}).smoke(SmokeOptions(confinement=HOSTILE))

    assert (outcome(report), report.profile) == ({"who": "pass"}, "hostile")
    assert json.loads(report.results[0].evidence) == {"uid": 987654, "home": None}
    assert last_report(built.layout) is None
    assert report_path(built.layout, "hostile").name == "linux-amd64.hostile.report.json"
    assert report_path(built.layout, "hostile").is_file()


def test_the_shipped_checks_of_the_container_pass_in_a_sound_image(built: Built) -> None:
    checks = {
        name: load_payload()[f"opt/trainyard/checks/{name}.py"].decode()
        for name in ("filesystem", "user", "no_network", "bytecode", "python_packages")
    }

    report = built.write(checks).smoke()

    assert outcome(report) == {
        "filesystem": "pass",
        "user": "pass",
        "no_network": "pass",
        "bytecode": "pass",
        "python_packages": "pass",
    }, [result.reason for result in report.results]


def sound(name: str) -> dict[str, str]:
    return {name: load_payload()[f"opt/trainyard/checks/{name}.py"].decode()}


def test_a_setuid_file_that_debian_does_not_ship_fails(built: Built) -> None:
    members = [Raw(name="usr/bin/evil", mode=0o4755)]
    members += [
        Raw(name=path, data=data, mode=0o755 if "/bin/" in path else 0o644)
        for path, data in load_payload().items()
        if "/checks/" not in path or "/checks/_" in path or path.endswith("/filesystem.py")
    ]
    members += [Raw(name="opt/trainyard/claims.json", data=json.dumps(CLAIMS).encode())]

    report = built.layers(layer(with_parents(members))).smoke(SmokeOptions(only=("filesystem",)))

    assert report.results[0].reason == "setuid or setgid: /usr/bin/evil"


def test_bytecode_that_python_would_have_to_check_fails(built: Built) -> None:
    stale = {f"{SITE}/m.py": "x = 1\n"}

    report = built.write(sound("bytecode"), stale).smoke()

    assert report.results[0].reason == f"/{SITE}/m.py: no bytecode (1 of 1 in /{SITE})"


def test_an_image_that_runs_as_root_fails(built: Built) -> None:
    report = built.write(sound("user")).smoke(
        SmokeOptions(confinement=replace(HOSTILE, user="0:0", processes=None))
    )

    assert (outcome(report), report.results[0].reason) == ({"user": "fail"}, "the image runs as root")


def test_an_image_whose_group_is_not_0_fails(built: Built) -> None:
    report = built.write(sound("user")).smoke(SmokeOptions(confinement=replace(HOSTILE, user="1000:1000")))

    assert report.results[0].reason == "the group is 1000, not 0"


def test_a_home_that_cannot_be_written_fails(built: Built) -> None:
    report = built.write(sound("filesystem")).smoke(
        SmokeOptions(confinement=replace(HOSTILE, name="read-only", user="987654:0"))
    )

    # The entrypoint of a real image finds another home; this one has no entrypoint.
    assert report.results[0].reason.startswith("HOME (/home/user) cannot be written")


DOCTORS = {
    "crashes": ("#!/bin/sh\nexit 137\n", "ended with exit code 137 and no results"),
    "talks nonsense": ("#!/bin/sh\necho nonsense\n", "ended with exit code 0 and no results"),
    "says nothing": ("#!/bin/sh\nexit 0\n", "ended with exit code 0 and no results"),
    "gives a list": ("#!/bin/sh\necho '[]'\n", "the doctor: results is not a list"),
    "hangs": ("#!/bin/sh\necho '{}'\nwhile :; do :; done\n", "did not end within 1.5 s"),
}


@pytest.mark.parametrize("name", DOCTORS)
def test_a_doctor_fails_that(name: str, built: Built) -> None:
    script, reason = DOCTORS[name]
    built.write({"good": GOOD}, {DOCTOR.lstrip("/"): script})

    report = built.smoke(SmokeOptions(timeout=1.5 if name == "hangs" else 60))

    assert (outcome(report), report.results[0].reason) == ({"doctor": "fail"}, reason)


def test_an_image_without_a_doctor_is_an_error_that_names_it(built: Built) -> None:
    with pytest.raises(RunnerError, match=f"cannot run {DOCTOR}"):
        built.layers().smoke()
    assert last_report(built.layout) is None


def test_another_platform_is_a_skip_that_says_which_host_it_needs(built: Built) -> None:
    write_layout(built.layout, [], architecture=OTHER.arch)

    report = built.smoke(platform=OTHER)

    assert (report.results[0].status, report.results[0].reason) == (
        Status.SKIP,
        f"needs a {OTHER} host, this one is {HOST}",
    )
    assert last_report(built.layout) is None


def test_a_runner_that_was_asked_for_and_cannot_is_an_error(built: Built) -> None:
    write_layout(built.layout, [], architecture=OTHER.arch)

    with pytest.raises(RunnerError, match="does not run on this host"):
        built.smoke(platform=OTHER, runner="native")
    with pytest.raises(UsageError, match=r"unknown runner 'nativ' .did you mean 'native'"):
        built.smoke(runner="nativ")


def test_a_report_that_was_cut_short_is_not_believed(built: Built) -> None:
    built.layout.parent.mkdir(parents=True)
    report_path(built.layout).write_text('{"schema": 1')

    with pytest.raises(InputError, match=r"linux-amd64\.report\.json is not JSON"):
        last_report(built.layout)


def test_an_exit_code_that_contradicts_the_results_is_a_failure() -> None:
    good = {"name": "a", "status": "pass", "reason": "", "evidence": {}, "seconds": 0}
    for rc, results in ((1, [good]), (0, [{**good, "status": "fail", "reason": "x"}]), (0, [])):
        said = json.dumps({"results": results}).encode()
        found = read_results(Completed(rc=rc, stdout=said, stderr=b"", seconds=0), timeout=1)
        assert found[-1].name == "doctor"
        assert found[-1].status is Status.FAIL
