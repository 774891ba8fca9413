"""Whether every wheel of a lock belongs to the target's accelerator and toolkit: no mixed stacks. No I/O.

What a name says is what its publisher promised: `-cu13` is CUDA 13, `rocm-*` is ROCm. torch says it in its local
version, `2.15.0+cu134`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from packaging.version import Version

from trainyard.lock.model import LockedWheel
from trainyard.matrix.model import Accelerator

_STACKS: dict[Accelerator, re.Pattern[str]] = {
    "cuda": re.compile(r"nvidia-.+|cuda-.+|.+-cu\d\d|.+-cuda\d\dx?"),
    "rocm": re.compile(r"rocm(-.+)?|(.+-)?triton-rocm|amd-torch-.+|.+-rocm\d*"),
    "xpu": re.compile(r"intel-.+|(.+-)?triton-xpu|onemkl-.+|oneccl(-.+)?|dpcpp-.+|impi-.+"),
}
_CALLED: dict[Accelerator, str] = {"cuda": "CUDA", "rocm": "ROCm", "xpu": "Intel XPU"}
# torch, what is compiled against it, and libraries that carry their toolkit's name nowhere.
_AROUND = re.compile(r"torch|torchvision|torchaudio|(.+-)?triton(-.+)?|mkl|tbb|tcmlib|umf")
_MAJOR = re.compile(r".+-cu(?:da)?(\d\d)x?")
# Packages whose version is the toolkit's own.
_VERSIONED: dict[Accelerator, re.Pattern[str]] = {
    "cuda": re.compile(r"cuda-toolkit"),
    "rocm": re.compile(r"rocm|rocm-sdk-.+"),
}
_LOCAL = re.compile(r"(cu\d{3}|rocm\d+(?:\.\d+)*|xpu|cpu)\b.*")


def is_of_a_toolkit(name: str) -> bool:
    """Whether a package, by its normalised name, is torch, compiled against it, or an accelerator's library."""
    return any(pattern.fullmatch(name) for pattern in (_AROUND, *_STACKS.values()))


def strangers(
    accelerator: Accelerator, toolkit: str, wheels: Sequence[LockedWheel]
) -> tuple[tuple[str, str], ...]:
    """(name, sentence) for every wheel of another accelerator or another version of the toolkit."""
    return tuple(
        (wheel.name, f"{wheel.name} {wheel.version} {reason}")
        for wheel in wheels
        for reason in _reasons(accelerator, toolkit, wheel)
    )


def _reasons(accelerator: Accelerator, toolkit: str, wheel: LockedWheel) -> Iterator[str]:
    for stack, pattern in _STACKS.items():
        if stack != accelerator and pattern.fullmatch(wheel.name):
            yield f"is for {_CALLED[stack]}"
    if accelerator == "cuda" and (major := _MAJOR.fullmatch(wheel.name)):
        wanted = toolkit.partition(".")[0]
        if major[1] != wanted:
            yield f"is for CUDA {major[1]}, and the target has CUDA {toolkit}"
    versioned = _VERSIONED.get(accelerator)
    if versioned is not None and versioned.fullmatch(wheel.name) and not _within(wheel.version, toolkit):
        yield f"is not of {_CALLED[accelerator]} {toolkit}"
    local = Version(wheel.version).local
    if local is not None and (said := _LOCAL.fullmatch(local)) and not _fits(said[1], accelerator, toolkit):
        yield f"is built for {said[1]}, and the target is {_label(accelerator, toolkit)}"


def _within(version: str, toolkit: str) -> bool:
    """Whether `13.2.2` is of `13.2`."""
    parts = toolkit.split(".")
    return Version(version).public.split(".")[: len(parts)] == parts


def _fits(said: str, accelerator: Accelerator, toolkit: str) -> bool:
    """Whether a local version such as `cu134`, `rocm10.0.0` or `xpu` is of that toolkit."""
    if said.startswith("cu"):
        return accelerator == "cuda" and said == f"cu{toolkit.replace('.', '')}"
    if said.startswith("rocm"):
        return accelerator == "rocm" and _within(said.removeprefix("rocm"), toolkit)
    return said == accelerator


def _label(accelerator: Accelerator, toolkit: str) -> str:
    return f"{_CALLED[accelerator]} {toolkit}" if accelerator in _CALLED else accelerator
