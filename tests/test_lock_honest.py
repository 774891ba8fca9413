"""No mixed stacks: what each name and local version promises, held against the target."""

from __future__ import annotations

import pytest

from tests.support.locks import AMD64, target, wheel, wheel_lock
from trainyard.lock.freshness import stale_reasons
from trainyard.lock.honest import strangers
from trainyard.matrix.model import Accelerator


def said(accelerator: Accelerator, toolkit: str, name: str, version: str = "1.0") -> list[str]:
    return [sentence for _, sentence in strangers(accelerator, toolkit, [wheel(name, version)])]


@pytest.mark.parametrize(
    ("accelerator", "toolkit", "name", "version", "sentence"),
    [
        ("cuda", "13.4", "nvidia-nccl-cu12", "2.27", "is for CUDA 12, and the target has CUDA 13.4"),
        ("cuda", "13.4", "cupy-cuda12x", "14.0", "is for CUDA 12, and the target has CUDA 13.4"),
        ("cuda", "13.4", "cuda-toolkit", "13.2.2", "is not of CUDA 13.4"),
        ("cuda", "13.4", "rocm-sdk-core", "10.0.0", "is for ROCm"),
        ("cuda", "13.4", "triton-rocm", "3.9.0", "is for ROCm"),
        ("cuda", "13.4", "pytorch-triton-xpu", "3.9.0", "is for Intel XPU"),
        ("cuda", "13.4", "intel-sycl-rt", "2026.1.1", "is for Intel XPU"),
        ("rocm", "10.0", "nvidia-ml-py", "13.0", "is for CUDA"),
        ("rocm", "10.0", "cuda-bindings", "13.5.0", "is for CUDA"),
        ("rocm", "10.0", "rocm", "7.14.0", "is not of ROCm 10.0"),
        ("rocm", "10.0", "rocm-sdk-device-gfx942", "10.1.0", "is not of ROCm 10.0"),
        ("xpu", "2026.1", "rocm", "10.0.0", "is for ROCm"),
        ("xpu", "2026.1", "nvidia-cublas", "13.4", "is for CUDA"),
        ("mps", "15", "nvidia-cublas", "13.4", "is for CUDA"),
        ("mps", "15", "intel-openmp", "2026.1", "is for Intel XPU"),
    ],
)
def test_a_wheel_of_another_stack_or_version_is_told(
    accelerator: Accelerator, toolkit: str, name: str, version: str, sentence: str
) -> None:
    assert said(accelerator, toolkit, name, version) == [f"{name} {version} {sentence}"]


@pytest.mark.parametrize(
    ("accelerator", "toolkit", "name", "version"),
    [
        ("cuda", "13.4", "nvidia-nccl-cu13", "2.31.2"),
        ("cuda", "13.4", "nvidia-cufft", "12.2.0.57"),
        ("cuda", "13.4", "cuda-toolkit", "13.4.1"),
        ("cuda", "13.2", "cuda-bindings", "13.5.0"),
        ("rocm", "10.0", "rocm", "10.0.0.post1"),
        ("rocm", "10.0", "triton-rocm", "3.9.0"),
        ("xpu", "2026.1", "intel-sycl-rt", "2026.1.1"),
        ("cuda", "13.4", "numpy", "2.5"),
        ("mps", "15", "torch", "2.15.0"),
        ("cuda", "13.4", "rockets", "1.0"),
    ],
)
def test_a_wheel_of_the_target_or_of_no_accelerator_is_not(
    accelerator: Accelerator, toolkit: str, name: str, version: str
) -> None:
    assert said(accelerator, toolkit, name, version) == []


@pytest.mark.parametrize(
    ("accelerator", "toolkit", "local", "fits"),
    [
        ("cuda", "13.4", "cu134", True),
        ("cuda", "13.4", "cu132", False),
        ("cuda", "13.4", "cpu", False),
        ("rocm", "10.0", "rocm10.0", True),
        ("rocm", "10.0", "rocm10.0.0", True),
        ("rocm", "10.0", "rocm10.1", False),
        ("rocm", "10.0", "cu134", False),
        ("xpu", "2026.1", "xpu", True),
        ("xpu", "2026.1", "cpu", False),
        ("mps", "15", "cpu", False),
        ("cuda", "13.4", "git1234567", True),
    ],
)
def test_what_a_local_version_says_must_be_the_target(
    accelerator: Accelerator, toolkit: str, local: str, fits: bool
) -> None:
    assert (said(accelerator, toolkit, "torch", f"2.15.0+{local}") == []) is fits


def test_a_lock_that_was_edited_to_mix_is_stale() -> None:
    lock = wheel_lock(wheel("torch", "2.15.0"), wheel("nvidia-nccl-cu12", "2.27"))

    assert "nvidia-nccl-cu12 2.27 is for CUDA 12, and the target has CUDA 13.2" in stale_reasons(
        target(), AMD64, lock
    )
