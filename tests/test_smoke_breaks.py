"""The real image, broken on purpose in one way at a time: the check that is for it fails, and says so.

Beside it run checks that look at neighbouring things and must not mind (`BYSTANDERS`).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest

from tests.support.runners import built_cuda
from trainyard.runner.base import Command, Confinement
from trainyard.runner.native import NativeRunner
from trainyard.smoke.profiles import NORMAL

pytestmark = pytest.mark.real
SITE = "/opt/venv/lib/python3.13/site-packages"
BYSTANDERS = ("rdma_libraries", "no_network", "process_one")
ROOT = replace(NORMAL, user="0:0")


@dataclass(frozen=True, kw_only=True)
class Break:
    """A shell script that breaks the image, Python that every interpreter of the check runs first, and the reason."""

    reason: str
    script: str = ""
    python: str = ""
    how: Confinement = NORMAL
    options: str = ""


# What changes torch does so only in the process whose command line names the check or its ranks.
BREAKS = {
    "environment": Break(script="export STRAY=1", options="--sealed", reason="has STRAY"),
    "debian_packages": Break(how=ROOT, script="echo >> /usr/bin/make", reason="/usr/bin/make is not as"),
    "python_packages": Break(script=f"rm {SITE}/sympy/abc.py", reason="sympy: sympy/abc.py is missing"),
    "rdma_libraries": Break(
        how=ROOT, script="rm /usr/lib/*-linux-gnu/libibverbs/libefa-rdmav*.so", reason="no provider for efa"
    ),
    "library_origins": Break(
        script=f"mkdir /opt/venv/extra && cp {SITE}/nvidia/nccl/lib/libnccl.so.2 /opt/venv/extra/",
        reason="libnccl.so.2 is in 2 places",
    ),
    "nccl_elastic": Break(
        python="import torch; torch.cuda.nccl.version = lambda: (2, 20, 1)", reason="cannot shrink a group"
    ),
    "nixl_transport": Break(
        script=f"sed -i /nixl/d {SITE}/torch-*.dist-info/entry_points.txt", reason="torch knows no nixl"
    ),
    "cpu_matmul": Break(
        python="import torch; real = torch.Tensor.__matmul__\n"
        "torch.Tensor.__matmul__ = lambda a, b: real(a, b) * (1.5 if a.dtype is torch.float16 else 1)",
        reason="matmul float16",
    ),
    "data_frames": Break(
        python="import polars; real = polars.DataFrame.to_torch\n"
        "def wrong(self):\n    found = real(self)\n    found[7, 0] += 1\n    return found\n"
        "polars.DataFrame.to_torch = wrong",
        reason="polars: 1 of 2000 values are wrong",
    ),
    "data_loader": Break(how=replace(NORMAL, shm_size=1 << 20), reason=""),
    "artifacts": Break(
        script="export TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1", reason="torch.load ran code out of a pickle"
    ),
    "flight_recorder": Break(
        script='mkdir -m 755 /tmp/dumps && export TORCH_FR_DUMP_TEMP_FILE="/tmp/dumps/rank_"',
        reason="/tmp/dumps",
    ),
    "fsdp2": Break(
        python="import torch.distributed.fsdp as f; real = f.MixedPrecisionPolicy\n"
        "f.MixedPrecisionPolicy = lambda **k: real(**{**k, 'param_dtype_override_fn': None})",
        reason="mixed dtype",
    ),
    "pipeline_schedule": Break(
        python="import torch.distributed.pipelining as p; real = p.Schedule1F1B\n"
        "p.Schedule1F1B = lambda stage, n, loss_fn: real(stage, n, loss_fn=loss_fn, scale_grads=False)",
        reason="gradient of stage",
    ),
}


@pytest.fixture(scope="module")
def runner() -> NativeRunner:
    return built_cuda()


def results(runner: NativeRunner, name: str, broken: Break) -> Mapping[str, tuple[str, str]]:
    """Check -> (status, reason), of the check and of the bystanders, in an image that was broken first."""
    lines = [broken.script or "true"]
    if broken.python:
        body = "".join(f"    {line}\n" for line in broken.python.splitlines())
        code = f"import sys\nif any('{name}' in one for one in sys.orig_argv):\n{body}"
        lines += ["mkdir /tmp/s", f"printf %s {shlex.quote(code)} > /tmp/s/sitecustomize.py"]
        lines += ["export PYTHONPATH=/tmp/s"]
    only = " ".join(f"--only {one}" for one in (name, *(one for one in BYSTANDERS if one != name)))
    lines += [f"exec trainyard-doctor --json {only} {broken.options}"]
    command = Command(argv=("/bin/sh", "-ec", "\n".join(lines)), timeout=400)
    done = runner.run(command, broken.how)
    assert done.stdout, done.stderr.decode()
    return {one["name"]: (one["status"], one["reason"]) for one in json.loads(done.stdout)["results"]}


@pytest.mark.parametrize("name", BREAKS)
def test_each_break_is_seen_by_its_check_and_by_no_bystander(runner: NativeRunner, name: str) -> None:
    found = results(runner, name, BREAKS[name])

    assert found[name][0] == "fail", found
    assert BREAKS[name].reason in found[name][1]
    assert [one for one, (status, _) in found.items() if status == "fail"] == [name], found


@pytest.mark.parametrize(
    ("label", "value", "reason"),
    [
        ("dev.trainyard.torch", "2.14.0", "the label dev.trainyard.torch"),
        ("dev.trainyard.toolkit", "12.8", "the label dev.trainyard.toolkit"),
        ("org.opencontainers.image.version", "latest", "which is no tag of ours"),
    ],
)
def test_a_label_that_lies_fails_and_is_named(
    runner: NativeRunner, label: str, value: str, reason: str
) -> None:
    labels = json.dumps({**dict(runner.image.labels), label: value})

    found = results(runner, "labels", Break(reason=reason, options=f"--labels {shlex.quote(labels)}"))

    assert found["labels"][0] == "fail"
    assert reason in found["labels"][1]


def test_without_tini_process_1_is_told(runner: NativeRunner) -> None:
    bare = replace(runner, image=replace(runner.image, entrypoint=()))

    found = results(bare, "process_one", Break(options="--sealed", reason=""))

    assert found["process_one"][0] == "fail"
    assert "not tini" in found["process_one"][1]
