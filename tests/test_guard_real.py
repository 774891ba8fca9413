"""The guard in the real image: it holds, trainyard-verify is quick, and each way around it is seen."""

from __future__ import annotations

import json

import pytest

from tests.support.runners import built_cuda
from trainyard.runner.base import Command
from trainyard.runner.native import NativeRunner
from trainyard.smoke.profiles import NORMAL

pytestmark = pytest.mark.real
SITE = "/opt/venv/lib/python3.13/site-packages"


@pytest.fixture(scope="module")
def runner() -> NativeRunner:
    return built_cuda()


def answer(runner: NativeRunner, script: str) -> dict[str, object]:
    """The JSON document that a shell script prints last."""
    done = runner.run(Command(argv=("/bin/sh", "-c", script), timeout=120), NORMAL)
    assert done.stdout, done.stderr.decode()
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def check(runner: NativeRunner, script: str = "true") -> tuple[object, object]:
    """(status, reason) of the doctor's check after a shell script."""
    found = answer(runner, f"{script}; trainyard-doctor --json --only derived_guard")["results"]
    assert isinstance(found, list)
    return found[0]["status"], found[0]["reason"]


def test_the_image_holds_its_torch(runner: NativeRunner) -> None:
    assert check(runner) == ("pass", "")


def test_every_guarded_file_of_the_real_image_is_as_its_record_has_it(runner: NativeRunner) -> None:
    found = answer(runner, "trainyard-verify --full --json")

    assert found["findings"] == []
    assert found["notes"] == []
    guarded = found["guarded"]
    assert isinstance(guarded, dict)
    assert {"torch", "triton", "torchvision", "nvidia-nccl-cu13", "nvidia-cudnn-cu13"} <= guarded.keys()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("unset PIP_CONSTRAINT; rm /opt/venv/pip.conf", "pip does not hold torch==2.15.0"),
        ("rm /opt/venv/pip.conf", "pip does not hold torch==2.15.0, the environment being empty"),
        ("export UV_NO_CONFIG=1; unset UV_CONSTRAINT", "uv does not hold torch==2.15.0"),
        (
            f"sed -i s/2.15.0/2.14.1/ {SITE}/torch-2.15.0.dist-info/METADATA",
            "trainyard-verify says: torch: replaced: expected 2.15.0, found 2.14.1",
        ),
        (f"rm {SITE}/nvidia/nccl/lib/libnccl.so.2", "trainyard-verify says: nvidia-nccl-cu13: altered"),
        (
            f"cp {SITE}/nvidia/nccl/lib/libnccl.so.2 {SITE}",
            "trainyard-verify says: nvidia-nccl-cu13: second copy",
        ),
    ],
)
def test_each_way_around_the_hold_fails_the_check(runner: NativeRunner, script: str, reason: str) -> None:
    status, said = check(runner, script)

    assert status == "fail"
    assert str(said).startswith(reason)
