"""A verdict names the missing piece, and only what is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trainyard.inventory.facts import Accelerator, Driver, Host, PythonEnvironment, Way
from trainyard.inventory.judge import Needs, judge, needs_of
from trainyard.matrix.load import load_matrix
from trainyard.matrix.model import Requires
from trainyard.paths import Project

H100 = Accelerator(kind="cuda", name="NVIDIA H100", architecture="9.0")
MI300 = Accelerator(kind="rocm", name="AMD Instinct MI300X", architecture="gfx942")
ARC = Accelerator(kind="xpu", name="Intel(R) Arc(TM) Pro B60 Graphics")
NVIDIA = Driver(kind="cuda", name="nvidia", version="580.105.08", source="nvidia-smi")
WITH_GPUS = (Way(name="native", gpus=True), Way(name="docker", version="28.5.2", gpus=True))

CUDA = Needs(
    target="cuda13.2",
    accelerator="cuda",
    platforms=("linux/amd64", "linux/arm64"),
    python="3.13",
    requires=Requires(driver=">=580", compute_capability=">=7.5"),
)
ROCM = Needs(
    target="rocm10.0",
    accelerator="rocm",
    platforms=("linux/amd64",),
    python="3.13",
    requires=Requires(kernel=">=6.8", modules=["amdgpu"]),
    families=("gfx942", "gfx950"),
)
XPU = Needs(
    target="xpu",
    accelerator="xpu",
    platforms=("linux/amd64",),
    python="3.14",
    requires=Requires(kernel=">=6.8", modules=["xe", "i915"]),
)
MPS = Needs(
    target="mps",
    accelerator="mps",
    platforms=("darwin/arm64",),
    python="3.13",
    requires=Requires(macos=">=15"),
)
GPU_HOST = Host(
    platform="linux/amd64",
    os="Debian",
    kernel="6.12.9",
    glibc="2.36",
    ways=WITH_GPUS,
    drivers=(
        NVIDIA,
        Driver(kind="rocm", name="amdgpu"),
        Driver(kind="xpu", name="xe"),
    ),
    accelerators=(H100, MI300, ARC),
    modules=("nvidia", "amdgpu", "xe"),
)
MAC = Host(
    platform="darwin/arm64",
    os="macOS 15.6.1",
    macos="15.6.1",
    pythons=(PythonEnvironment(whose="python3 on PATH", version="3.13.5"),),
    accelerators=(Accelerator(kind="mps", name="Apple M4"),),
)


def missing(needs: Needs, host: Host) -> tuple[str, list[str]]:
    found = judge(needs, host)
    return found.runs, [str(one) for one in found.missing]


@pytest.mark.parametrize("needs", [CUDA, ROCM, XPU], ids=lambda needs: needs.target)
def test_a_machine_that_has_it_all_runs_it(needs: Needs) -> None:
    assert missing(needs, GPU_HOST) == ("yes", [])


def test_a_mac_that_has_it_all_runs_mps() -> None:
    assert missing(MPS, MAC) == ("yes", [])


@pytest.mark.parametrize(
    ("needs", "host", "said"),
    [
        (CUDA, MAC, "platform: needs linux/amd64 or linux/arm64; this is darwin/arm64"),
        (MPS, GPU_HOST, "platform: needs darwin/arm64; this is linux/amd64"),
        (MPS, replace(MAC, macos="14.7.8"), "macOS: needs >=15; this has 14.7.8"),
        (
            MPS,
            replace(MAC, pythons=(PythonEnvironment(whose="x", version="3.9.6"),)),
            "Python: needs 3.13; this has 3.9.6",
        ),
        (
            CUDA,
            replace(GPU_HOST, ways=(Way(name="docker", problem="no engine answers"),)),
            "container engine: needs docker, podman or user namespaces; docker: no engine answers",
        ),
        (
            replace(CUDA, requires=Requires(glibc=">=2.39")),
            GPU_HOST,
            "glibc: needs >=2.39; this has 2.36",
        ),
    ],
)
def test_what_cannot_start_says_why(needs: Needs, host: Host, said: str) -> None:
    runs, found = missing(needs, host)

    assert (runs, found[:1]) == ("no", [said])


def driven(**changes: str) -> Host:
    return replace(GPU_HOST, drivers=(replace(NVIDIA, **changes),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("needs", "host", "said"),
    [
        (CUDA, replace(GPU_HOST, drivers=(), accelerators=()), "device: needs an NVIDIA GPU; none is here"),
        (CUDA, driven(version="570.86.15"), "driver: needs >=580; this has 570.86.15"),
        (
            CUDA,
            driven(version="", problem="the module nouveau has the device"),
            "driver: needs NVIDIA's >=580; the module nouveau has the device",
        ),
        (
            CUDA,
            replace(GPU_HOST, accelerators=(replace(H100, name="NVIDIA TITAN V", architecture="7.0"),)),
            "compute capability: needs >=7.5; NVIDIA TITAN V has 7.0",
        ),
        (
            CUDA,
            replace(GPU_HOST, ways=(Way(name="native", problem="forbidden"), Way(name="docker"))),
            (
                "device in containers: needs the NVIDIA Container Toolkit (its runtime, or a CDI file); "
                "no engine here has it"
            ),
        ),
        (ROCM, replace(GPU_HOST, kernel="5.15.0"), "kernel: needs >=6.8; this has 5.15.0"),
        (ROCM, replace(GPU_HOST, accelerators=()), "device: needs an AMD GPU; none is here"),
        (ROCM, replace(GPU_HOST, modules=("nvidia",)), "kernel module: needs amdgpu; loaded: nvidia"),
        (
            ROCM,
            replace(GPU_HOST, accelerators=(replace(MI300, architecture="gfx1100"),)),
            "GPU family: needs gfx942 or gfx950; this has gfx1100; `families` in matrix.yaml adds it",
        ),
        (
            XPU,
            replace(GPU_HOST, drivers=(Driver(kind="xpu", name="xe", problem="there is no render node"),)),
            "driver: needs xe; there is no render node",
        ),
        (XPU, replace(GPU_HOST, modules=()), "kernel module: needs xe or i915; loaded: none of a GPU"),
    ],
)
def test_what_starts_without_its_accelerator_says_what_that_needs(
    needs: Needs, host: Host, said: str
) -> None:
    assert missing(needs, host) == ("cpu", [said])


def test_one_device_that_is_new_enough_is_enough() -> None:
    mixed = replace(GPU_HOST, accelerators=(replace(H100, architecture="7.0"), H100))

    assert missing(CUDA, mixed) == ("yes", [])


def test_every_missing_piece_is_said_at_once() -> None:
    bare = replace(driven(version="470.57"), ways=(Way(name="docker"),))

    assert len(judge(CUDA, bare).missing) == 2


def test_a_target_of_matrix_yaml_is_judged_by_what_it_requires() -> None:
    matrix = load_matrix(Project(Path(__file__).parents[1]).matrix)
    needs = needs_of(matrix.target("cuda13.2"))

    assert needs == CUDA
