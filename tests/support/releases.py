"""Tiny real wheels in the assumed shape of torch 2.15.0 for CUDA 13.4, ROCm 10.0 and Intel XPU.

Assumed shape: none of these indexes can be reached from where this was written. What it is assumed from:
- cu134: METADATA of torch 2.15.0 for CUDA 13.2 on the default index, with the toolkit's version moved.
- rocm10.0: pytorch/pytorch issue 191688 (torch wheels ask for `rocm[libraries,device-all]` and `triton-rocm` by name,
  and carry no ROCm library themselves), ROCm/TheRock RELEASES.md and build_tools/packaging/python/templates/rocm
  (`rocm` with its extras, `rocm-sdk-core`, `rocm-sdk-libraries`, `rocm-sdk-device-<family>`, tagged linux_x86_64).
  There `rocm` itself is a source package; here it is the wheel that a lock needs (docs/how-it-works.md, Indexes).
- xpu: PYTORCH_EXTRA_INSTALL_REQUIREMENTS of torch's XPU builds up to 2.14: Intel's runtime by exact version, on the
  default index, and `triton-xpu`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.wheels import build_wheel

TORCH = "2.15.0"
UPLOADED = "2026-11-01T00:00:00Z"
FAMILIES = ("gfx942", "gfx950", "gfx1201")
_GENERAL = ("filelock", "typing-extensions", "sympy", "jinja2")
_INTEL = (
    *("intel-cmplr-lib-rt", "intel-cmplr-lib-ur", "intel-cmplr-lic-rt", "intel-sycl-rt", "dpcpp-cpp-rt"),
    *("intel-opencl-rt", "intel-openmp", "onemkl-sycl-blas", "intel-pti"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """`own` lies on the target's index, `default`, with its upload times, on the default one."""

    own: tuple[Path, ...]
    default: dict[Path, str]


def cuda(folder: Path, *, machine: str = "x86_64") -> Release:
    """For CUDA 13.4."""
    requires = [
        "cuda-toolkit[cublas,cudart]==13.4.0; platform_system == 'Linux'",
        "nvidia-cudnn-cu13==9.27.0.12; platform_system == 'Linux'",
        "nvidia-nccl-cu13==2.31.2; platform_system == 'Linux'",
        "triton~=3.9.0; platform_system == 'Linux'",
    ]
    own = [
        _torch(folder, "cu134", requires, machine, cuda="13.4"),
        _triton(folder, "triton", machine),
    ]
    toolkit = build_wheel(
        folder,
        name="cuda-toolkit",
        version="13.4.0",
        requires=[
            "nvidia-cublas==13.6.0.5; extra == 'cublas'",
            "nvidia-cuda-runtime==13.4.60; extra == 'cudart'",
        ],
        extra_metadata="Provides-Extra: cublas\nProvides-Extra: cudart",
    )
    tag = f"py3-none-manylinux_2_27_{machine}"
    libraries = [
        build_wheel(folder, name=name, version=version, tag=tag)
        for name, version in (
            ("nvidia-cublas", "13.6.0.5"),
            ("nvidia-cuda-runtime", "13.4.60"),
            ("nvidia-cudnn-cu13", "9.27.0.12"),
            ("nvidia-nccl-cu13", "2.31.2"),
        )
    ]
    return _release(folder, own, [toolkit, *libraries])


def rocm(folder: Path) -> Release:
    """For ROCm 10.0, with the device libraries of three GPU families."""
    own = [
        _torch(folder, "rocm10.0", ["rocm[libraries,device-all]==10.0.*", "triton-rocm==3.9.0"], hip="7.15"),
        _triton(folder, "triton-rocm"),
        build_wheel(
            folder,
            name="rocm",
            version="10.0.0",
            requires=[
                "rocm-sdk-core==10.0.0",
                "rocm-sdk-libraries==10.0.0; extra == 'libraries'",
                *(f"rocm-sdk-device-{one}==10.0.0; extra == 'device-{one}'" for one in FAMILIES),
                *(f"rocm-sdk-device-{one}==10.0.0; extra == 'device-all'" for one in FAMILIES),
            ],
            extra_metadata="\n".join(
                f"Provides-Extra: {extra}"
                for extra in ("libraries", *(f"device-{one}" for one in FAMILIES), "device-all")
            ),
        ),
        *(
            build_wheel(folder, name=name, version="10.0.0", tag="py3-none-linux_x86_64")
            for name in (
                "rocm-sdk-core",
                "rocm-sdk-libraries",
                *(f"rocm-sdk-device-{one}" for one in FAMILIES),
            )
        ),
    ]
    return _release(folder, own, [])


def xpu(folder: Path, *, python: str = "3.13") -> Release:
    """For Intel XPU, and the Python of its base."""
    requires = [*(f"{name}==2026.1.1" for name in _INTEL), "triton-xpu==3.9.0"]
    own = [
        _torch(folder, "xpu", requires, python=python, xpu="20260101"),
        _triton(folder, "triton-xpu", python=python),
    ]
    runtime = [
        build_wheel(folder, name=name, version="2026.1.1", tag="py2.py3-none-manylinux_2_28_x86_64")
        for name in _INTEL
    ]
    return _release(folder, own, runtime)


def _torch(
    folder: Path,
    local: str,
    requires: Sequence[str],
    machine: str = "x86_64",
    *,
    python: str = "3.13",
    **versions: str,
) -> Path:
    """A torch that says what it is built for, and is nothing else."""
    version = f"{TORCH}+{local}"
    lines = [f"__version__ = {version!r}"]
    lines += [f"{name} = {versions.get(name)!r}" for name in ("cuda", "hip", "xpu")]
    return build_wheel(
        folder,
        name="torch",
        version=version,
        tag=f"{_abi(python)}-manylinux_2_28_{machine}",
        requires=[*_GENERAL, *requires],
        files={
            "torch/version.py": "\n".join(lines) + "\n",
            "torch/__init__.py": "from torch import version\n\n__version__ = version.__version__\n",
        },
    )


def _abi(python: str) -> str:
    """Interpreter and ABI tag of a Python, `cp313-cp313`."""
    tag = f"cp{python.replace('.', '')}"
    return f"{tag}-{tag}"


def _triton(folder: Path, name: str, machine: str = "x86_64", *, python: str = "3.13") -> Path:
    return build_wheel(
        folder,
        name=name,
        version="3.9.0",
        tag=f"{_abi(python)}-manylinux_2_27_{machine}.manylinux_2_28_{machine}",
        files={"triton/__init__.py": "__version__ = '3.9.0'\n"},
    )


def _release(folder: Path, own: Sequence[Path], default: Sequence[Path]) -> Release:
    general = [build_wheel(folder, name=name, version="4.20") for name in _GENERAL]
    return Release(own=tuple(own), default=dict.fromkeys([*general, *default], UPLOADED))
