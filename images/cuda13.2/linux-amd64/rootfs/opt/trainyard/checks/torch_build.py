"""torch was built for the claimed accelerator and toolkit, and has what goes with them compiled in."""

from __future__ import annotations

from _lib import fail, locked, need_torch, release, same


def run(claims: dict) -> dict:
    torch = need_torch(claims)
    accelerator, toolkit = claims["accelerator"], claims["toolkit"]
    built = {
        "cuda": torch.version.cuda,
        "rocm": torch.version.hip,
        "xpu": getattr(torch.version, "xpu", None),
        "mps": "yes" if torch.backends.mps.is_built() else None,
    }
    for name, version in built.items():
        if name == accelerator and not version:
            fail(f"torch {torch.__version__} has no {name} compiled in", built=built)
        if name != accelerator and version:
            fail(
                f"torch {torch.__version__} is built for {name} {version}, not for {accelerator}", built=built
            )
    if accelerator == "cuda":
        same("torch.version.cuda", built["cuda"], toolkit)
    if accelerator == "rocm" and release(built["rocm"])[:2] != release(toolkit)[:2]:
        fail(f"torch.version.hip is {built['rocm']!r}, not {toolkit!r}")
    evidence = {"version": torch.__version__, "git": torch.version.git_version, "built": built}
    evidence["backends"] = {
        name: getattr(torch.backends, name).is_available() for name in ("mkl", "mkldnn", "openmp")
    }
    if not evidence["backends"]["openmp"]:
        fail("torch has no OpenMP compiled in", **evidence)
    if accelerator in ("cuda", "rocm"):
        evidence["architectures"] = torch.cuda.get_arch_list()
        if not evidence["architectures"]:
            fail("torch has kernels for no GPU architecture", **evidence)
    if accelerator == "cuda" and (wheel := locked(claims, "nvidia-cudnn-cu13")):
        major, minor, patch = release(wheel)
        evidence["cudnn"] = torch.backends.cudnn.version()
        same("cuDNN", evidence["cudnn"], major * 10000 + minor * 100 + patch)
    return evidence
