"""The real image, where one is built: its checks pass, and each break is seen by the check that it is for."""

from __future__ import annotations

import json

import pytest

from tests.support.runners import built_cuda
from trainyard.runner.base import Command, Confinement
from trainyard.runner.native import NativeRunner
from trainyard.smoke.profiles import HOSTILE, NORMAL
from trainyard.smoke.run import SmokeOptions, smoke

pytestmark = pytest.mark.real
# Loaded by every Python of the container before torch is; changes torch in the ranks only.
SABOTAGE = """
import sys
if any("_ranks.py" in argument for argument in sys.orig_argv):
    import torch.distributed as dist
    original = dist.NAME
    def broken(*arguments, **options):
        BREAK
    dist.NAME = broken
"""
BREAKS = {
    "all_reduce": ("original(*arguments, **options); arguments[0][7] += dist.get_rank()", "all_reduce SUM"),
    "broadcast": ("pass", "broadcast from rank"),
    "reduce_scatter_tensor": (
        "original(arguments[0], arguments[1].flip(0), **options)",
        "reduce_scatter_tensor",
    ),
    "barrier": ("pass", "barrier let rank 0 go before ranks [1] came"),
}


@pytest.fixture(scope="module")
def runner() -> NativeRunner:
    return built_cuda()


def doctor(runner: NativeRunner, script: str, how: Confinement = NORMAL) -> dict[str, object]:
    """The first result of a doctor that a shell script starts."""
    done = runner.run(Command(argv=("/bin/sh", "-c", script), timeout=400), how)
    assert done.stdout, done.stderr.decode()
    result: dict[str, object] = json.loads(done.stdout)["results"][0]
    return result


@pytest.mark.parametrize("profile", [NORMAL, HOSTILE], ids=lambda profile: profile.name)
def test_all_checks_pass_but_for_the_device(runner: NativeRunner, profile: Confinement) -> None:
    report = smoke(
        runner, SmokeOptions(confinement=profile), target="cuda13.2", labels=dict(runner.image.labels)
    )

    assert [(result.name, result.reason) for result in report.results if result.status.value == "fail"] == []
    skipped = [result.name for result in report.results if result.status.value == "skip"]
    assert [name for name in skipped if "device" not in name] == []


@pytest.mark.parametrize("name", BREAKS)
def test_a_collective_that_gives_wrong_values_fails(runner: NativeRunner, name: str) -> None:
    how, reason = BREAKS[name]
    code = SABOTAGE.replace("NAME", name).replace("BREAK", how)

    result = doctor(
        runner,
        f"mkdir /tmp/s && cat > /tmp/s/sitecustomize.py <<'X'\n{code}\nX\n"
        "PYTHONPATH=/tmp/s exec trainyard-doctor --json --only gloo_collectives",
    )

    assert result["status"] == "fail"
    assert reason in str(result["reason"])


def test_torch_compile_without_a_compiler_fails(runner: NativeRunner) -> None:
    result = doctor(runner, "CXX=/nowhere/g++ exec trainyard-doctor --json --only torch_compile_cpu")

    assert result["status"] == "fail"
    assert "C++ compiler" in str(result["reason"])


def test_a_package_that_a_user_swapped_fails_where_it_can_be_written(runner: NativeRunner) -> None:
    site = "/opt/venv/lib/python*/site-packages"
    result = doctor(
        runner,
        f"mv {site}/numpy-*.dist-info $(echo {site})/numpy-1.0.dist-info && "
        f"sed -i 's/^Version: .*/Version: 1.0/' {site}/numpy-1.0.dist-info/METADATA && "
        "exec trainyard-doctor --json --only python_packages",
    )

    assert result["status"] == "fail"
    assert "numpy is 1.0, locked is" in str(result["reason"])


def test_bytecode_that_was_touched_fails(runner: NativeRunner) -> None:
    result = doctor(
        runner,
        "for f in /opt/venv/lib/python*/site-packages/torch/*.py; do echo '#' >> $f; done; "
        "exec trainyard-doctor --json --only bytecode",
    )

    assert result["status"] == "fail"
    assert "bytecode of another source" in str(result["reason"])
