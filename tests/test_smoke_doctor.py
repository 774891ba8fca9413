"""The doctor tells a pass from a failure from a skip, whatever a check does to it."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

SMOKE = Path(__file__).parents[1] / "trainyard" / "smoke"
CLAIMS = {"schema": 1, "wheels": {}, "accelerator": "cuda", "toolkit": "13.2"}


class Doctor:
    """The doctor over a folder of checks made by the test."""

    def __init__(self, folder: Path) -> None:
        self.checks = folder / "checks"
        self.checks.mkdir()
        self.claims = folder / "claims.json"
        self.claims.write_text(json.dumps(CLAIMS))

    def add(self, name: str, code: str) -> None:
        (self.checks / f"{name}.py").write_text(f'"""The {name} is fine."""\n' + textwrap.dedent(code))

    def start(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                sys.executable,
                SMOKE / "doctor.py",
                "--claims",
                self.claims,
                "--checks",
                self.checks,
                *arguments,
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def results(self, *arguments: str) -> Mapping[str, dict[str, object]]:
        done = self.start("--json", *arguments)
        return {result["name"]: result for result in json.loads(done.stdout)["results"]}


@pytest.fixture
def doctor(tmp_path: Path) -> Doctor:
    return Doctor(tmp_path)


def test_a_check_that_returns_passes_with_its_evidence(doctor: Doctor) -> None:
    doctor.add("good", "def run(claims):\n    return {'toolkit': claims['toolkit']}")

    result = doctor.results()["good"]

    assert (result["status"], result["reason"], result["evidence"]) == ("pass", "", {"toolkit": "13.2"})
    assert doctor.start().returncode == 0


def test_a_failed_assertion_is_the_reason_and_brings_what_was_seen(doctor: Doctor) -> None:
    doctor.add(
        "bad", "from _lib import fail\ndef run(claims):\n    print('noise')\n    fail('no way', seen=7)"
    )

    result = doctor.results()["bad"]

    assert (result["status"], result["reason"]) == ("fail", "no way")
    assert isinstance(result["evidence"], dict)
    assert result["evidence"]["seen"] == 7
    assert result["evidence"]["output"] == "noise\n"
    assert doctor.start().returncode == 1


BROKEN = {
    "raises": ("def run(claims):\n    raise RuntimeError('boom')", "RuntimeError: boom"),
    "cannot be imported": ("import nosuchmodule", "ModuleNotFoundError: No module named 'nosuchmodule'"),
    "leaves": ("import sys\ndef run(claims):\n    sys.exit(0)", "SystemExit: 0"),
    "leaves in a hurry": (
        "import os\ndef run(claims):\n    os._exit(0)",
        "ended with exit code 0 and no result",
    ),
    "crashes": ("import os\ndef run(claims):\n    os.kill(os.getpid(), 11)", "killed by SIGSEGV"),
    "gives no JSON": ("def run(claims):\n    return {(1, 2): 3}", "ended with exit code 1 and no result"),
    "has no run": ("", "AttributeError: module 'trainyard_check_broken' has no attribute 'run'"),
    "hangs": ("import time\nLIMIT = 0.3\ndef run(claims):\n    time.sleep(60)", "did not end within 0.3 s"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_check_fails_that(name: str, doctor: Doctor) -> None:
    code, reason = BROKEN[name]
    doctor.add("broken", code)
    doctor.add("good", "def run(claims):\n    return {}")

    results = doctor.results()

    assert results["broken"]["status"] == "fail"
    assert str(results["broken"]["reason"]).startswith(reason)
    assert results["good"]["status"] == "pass"


def test_a_skip_says_what_it_needs_and_is_no_failure(doctor: Doctor) -> None:
    doctor.add("later", "from _lib import Skip\ndef run(claims):\n    raise Skip('needs a moon')")

    result = doctor.results()["later"]

    assert (result["status"], result["reason"]) == ("skip", "needs a moon")
    assert doctor.start().returncode == 0


def test_a_missing_device_fails_when_one_is_required_and_only_then(doctor: Doctor) -> None:
    skip = "from _lib import Skip\ndef run(claims):\n    raise Skip('needs a GPU')"
    doctor.add("device", f"NEEDS = ('device',)\n{skip}")
    doctor.add("other", skip)

    results = doctor.results("--require-device")

    assert results["device"]["status"] == "fail"
    assert results["device"]["reason"] == "--require-device: needs a GPU"
    assert results["other"]["status"] == "skip"
    assert doctor.results()["device"]["status"] == "skip"


def test_what_needs_the_image_is_skipped_outside_of_one(doctor: Doctor) -> None:
    doctor.add("inside", "NEEDS = ('image',)\ndef run(claims):\n    return {}")

    result = doctor.results()["inside"]

    assert result["status"] == "skip"
    assert "/opt/venv" in str(result["reason"])


def test_noise_on_stdout_does_not_reach_the_result(doctor: Doctor) -> None:
    doctor.add(
        "loud",
        """
        import os
        def run(claims):
            print("{}")
            os.system("echo '{}'")
            os.write(1, b"x" * 3_000_000)
            return {"fine": True}
        """,
    )

    assert doctor.results()["loud"]["evidence"] == {"fine": True}


def test_a_process_that_a_check_leaves_behind_does_not_hold_up_the_doctor(doctor: Doctor) -> None:
    doctor.add(
        "leaky",
        """
        import subprocess, sys
        def run(claims):
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(50)"])
            return {"pid": child.pid}
        """,
    )
    start = time.monotonic()

    evidence = doctor.results()["leaky"]["evidence"]

    assert time.monotonic() - start < 30
    assert isinstance(evidence, dict)
    pid = evidence["pid"]
    end = time.monotonic() + 5
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    assert not alive(pid)


def alive(pid: int) -> bool:
    """Whether a process runs; one that waits to be collected does not."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def test_a_check_named_like_a_module_does_not_shadow_it(doctor: Doctor) -> None:
    doctor.add("json", "import json\ndef run(claims):\n    return {'file': json.__file__}")

    evidence = doctor.results()["json"]["evidence"]

    assert isinstance(evidence, dict)
    assert not str(evidence["file"]).startswith(str(doctor.checks))


def test_only_the_named_checks_run(doctor: Doctor) -> None:
    for name in ("one", "two", "three"):
        doctor.add(name, "def run(claims):\n    return {}")

    assert set(doctor.results("--only", "one", "--only", "three")) == {"one", "three"}


def test_an_unknown_name_is_wrong_usage_with_a_near_miss(doctor: Doctor) -> None:
    doctor.add("torch_import", "def run(claims):\n    return {}")

    done = doctor.start("--only", "torch_imprt", "--json")

    assert (done.returncode, done.stdout) == (2, "")
    assert "no check is called 'torch_imprt'; did you mean torch_import?" in done.stderr


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 2}'])
def test_claims_that_are_none_are_wrong_usage(doctor: Doctor, text: str) -> None:
    doctor.claims.write_text(text)

    done = doctor.start("--json")

    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot read the claims" in done.stderr


def test_no_checks_at_all_is_no_success(doctor: Doctor) -> None:
    assert doctor.start().returncode == 1


def test_the_list_has_each_checks_sentence_and_runs_nothing(doctor: Doctor) -> None:
    doctor.add("moon", "NEEDS = ('device',)\nraise SystemExit")

    done = doctor.start("--list")

    assert (done.returncode, done.stdout) == (0, "moon  The moon is fine. (needs: device)\n")


def test_each_result_is_said_as_it_comes(doctor: Doctor) -> None:
    doctor.add("bad", "def run(claims):\n    assert False, 'first\\nsecond'")

    done = doctor.start()

    assert done.stderr.splitlines()[0].startswith("fail  bad")
    assert done.stderr.splitlines()[-1] == "1 checks, 1 failed, 0 skipped"


def test_every_shipped_check_says_in_one_sentence_what_it_proves() -> None:
    done = subprocess.run(
        [sys.executable, SMOKE / "doctor.py", "--list"], capture_output=True, text=True, check=True
    )

    lines = done.stdout.splitlines()
    assert len(lines) == len(list((SMOKE / "checks").glob("[!_]*.py")))
    assert all(len(line.split("  ", 1)[1].strip()) > 30 for line in lines)
