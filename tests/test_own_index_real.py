"""CUDA 13.4 and ROCm 10.0 the whole way: locked from indexes on loopback, built on the real base, run natively.

The wheels have the assumed shape of tests/support/releases.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.mirrors import share_debs, why_gone
from tests.support.project import Invoke, copy_project
from tests.support.releases import UPLOADED, Release, cuda, rocm
from tests.support.runners import HOST, can_unshare
from tests.support.wheelindex import served_index, served_pages
from tests.support.wheels import build_wheel
from trainyard.oci.runnable import read_runnable
from trainyard.paths import Project
from trainyard.platforms import Platform
from trainyard.runner.base import Command
from trainyard.runner.native import NativeRunner, open_native
from trainyard.smoke.profiles import NORMAL
from trainyard.store import Store

AMD64 = Platform("linux", "amd64")
pytestmark = [
    pytest.mark.real,
    pytest.mark.network,
    pytest.mark.skipif(HOST != AMD64, reason="this host is not linux/amd64"),
    pytest.mark.skipif(
        not can_unshare(as_root=os.geteuid() == 0), reason="this host lets us make no namespaces"
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A target, the wheels that stand for its release, and what its torch says of itself."""

    target: str
    variable: str
    release: Callable[[Path], Release]
    version: str
    built_for: str


CASES = [
    Case(
        target="cuda13.4",
        variable="TRAINYARD_INDEX_PYTORCH_CU134",
        release=cuda,
        version="2.15.0+cu134",
        built_for="13.4",
    ),
    Case(
        target="rocm10.0",
        variable="TRAINYARD_INDEX_PYTORCH_ROCM10_0",
        release=rocm,
        version="2.15.0+rocm10.0",
        built_for="7.15",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Yard:
    """A copy of the project in which one target wants torch and tools alone, locked, built and rendered."""

    case: Case
    project: Project
    invoke: Invoke
    runner: NativeRunner

    def torch(self, expression: str) -> object:
        """The value of a Python expression inside."""
        code = f"import json, torch; print(json.dumps({expression}))"
        done = self.runner.run(Command(argv=("/opt/venv/bin/python", "-c", code)), NORMAL)
        assert done.rc == 0, done.stderr.decode()
        return json.loads(done.stdout)

    def lock_names(self) -> set[str]:
        lines = self.project.wheel_lock(self.case.target, AMD64).read_text("utf-8").splitlines()
        return {line.partition("==")[0] for line in lines if "==" in line and not line.startswith("#")}


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.target)
def yard(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    if reason := why_gone("trixie"):
        pytest.skip(reason)
    case: Case = request.param
    folder = tmp_path_factory.mktemp(case.target)
    root = copy_project(folder / "project")
    matrix = root / "matrix.yaml"
    head, line, tail = matrix.read_text("utf-8").partition(f"\n  {case.target}:\n")
    tail = tail.replace("[torch, tools, vision, data, artifacts]", "[torch, tools]", 1)
    matrix.write_text(head + line + tail.replace("[linux/amd64, linux/arm64]", "[linux/amd64]", 1), "utf-8")
    share_debs("trixie", "amd64", folder / "cache")
    release = case.release(folder / "wheels")
    tools = {
        build_wheel(folder / "wheels", name=name, version="99.0"): UPLOADED for name in ("numpy", "pip", "uv")
    }
    with served_index({**release.default, **tools}) as default, served_pages(release.own) as own:
        environ = {
            "TRAINYARD_CACHE": str(folder / "cache"),
            "UV_DEFAULT_INDEX": default,
            case.variable: f"{own.url}/whl",
        }
        invoke = Invoke(root, environ)
        for words in (("lock",), ("build", "--record", "--no-smoke"), ("render",)):
            done = invoke(*words, "--target", case.target)
            assert done.returncode == 0, done.stderr
        project, store = Project(root), Store(folder / "cache")
        image = read_runnable(project.dist(case.target, AMD64), AMD64)
        runner = open_native(image, store, host=AMD64)
        yield Yard(case=case, project=project, invoke=invoke, runner=runner)


def test_the_stub_is_imported_in_the_image(yard: Yard) -> None:
    found = yard.torch("[torch.__version__, torch.version.cuda or torch.version.hip]")

    assert found == [yard.case.version, yard.case.built_for]


def test_the_same_inputs_give_the_recorded_image_again(yard: Yard) -> None:
    done = yard.invoke("build", "--target", yard.case.target, "--no-smoke")

    assert done.returncode == 0, done.stderr
    assert "as recorded" in done.stderr


def test_the_dockerfile_is_the_targets(yard: Yard) -> None:
    dockerfile = yard.project.docker_context(yard.case.target, AMD64) / "Dockerfile"

    assert dockerfile.read_text("utf-8").startswith(
        f"# {yard.case.target}-torch{yard.case.version}".replace("+", "-")
    )
    assert yard.invoke("render", "--check", "--target", yard.case.target).returncode == 0


def test_the_lock_holds_its_own_accelerator_and_no_other(yard: Yard) -> None:
    kinds = {name.split("-")[0] for name in yard.lock_names()} & {"nvidia", "rocm", "intel"}

    assert kinds == {"nvidia" if yard.case.target.startswith("cuda") else "rocm"}


def test_only_the_gpu_families_of_the_matrix_are_in_the_image(yard: Yard) -> None:
    devices = {name for name in yard.lock_names() if name.startswith("rocm-sdk-device-")}

    wanted = {"rocm-sdk-device-gfx942", "rocm-sdk-device-gfx950"}
    assert devices == (wanted if yard.case.target == "rocm10.0" else set())


def test_nothing_of_nvidia_is_asked_for_by_an_image_for_amd(yard: Yard) -> None:
    names = {name for name, _ in yard.runner.image.env if name.startswith("NVIDIA_")}

    assert bool(names) == yard.case.target.startswith("cuda")
