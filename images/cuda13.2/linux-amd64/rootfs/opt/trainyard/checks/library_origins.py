"""No library can come from two places: one folder for each soname on disk, one file for each in a process."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

from _devices import device_files
from _elf import soname
from _lib import fail, locked, need_torch
from _maps import is_private, loaded, one_origin
from _matmul import convolution

NEEDS = ("image",)
LIMIT = 150
FOLDERS = ("/opt", "/usr")
# Triton loads its own copies of CUPTI by their full path, for profiling, in its own processes.
PRIVATE = ("/triton/backends/",)
# g++ needs its own at link time; torch's is loaded first and answers to the soname, which the second part proves.
TWICE = {"libgomp.so.1"}
# What a job has in one process beside torch.
PACKAGES = ("numpy", "torchvision", "pandas", "pyarrow", "onnxruntime")


def run(claims: dict) -> dict:
    sonames = on_disk()
    several = {
        name: paths
        for name, paths in sonames.items()
        if len({Path(path).parent for path in paths}) > 1 and name not in TWICE
    }
    if several:
        name, paths = next(iter(several.items()))
        fail(f"{name} is in {len(paths)} places: {', '.join(paths)}", several=several)
    torch = need_torch(claims)
    for name in PACKAGES:
        if locked(claims, name):
            importlib.import_module(name)
    exercise(torch, claims["accelerator"])
    libraries = loaded()
    one_origin(libraries)
    bundled = {
        name: paths for name, paths in libraries.items() if any(is_private(name, path) for path in paths)
    }
    return {"sonames": len(sonames), "loaded": len(libraries), "bundled": bundled}


def on_disk() -> dict[str, list[str]]:
    """Soname -> every file that the loader would take for it."""
    found: dict[str, list[str]] = {}
    for top in FOLDERS:
        for folder, _, names in os.walk(top):
            for path in (Path(folder, name) for name in names if ".so" in name):
                if path.is_symlink() or any(part in str(path) for part in PRIVATE):
                    continue
                name = soname(path)
                if name and not is_private(name, str(path)):
                    found.setdefault(name, []).append(str(path))
    return {name: sorted(paths) for name, paths in sorted(found.items())}


def exercise(torch, accelerator: str) -> None:
    """What loads more libraries: a convolution, here and on the device, and a collective."""
    import torch.distributed as dist

    convolution(torch, "cpu")
    if accelerator in ("cuda", "rocm", "xpu") and device_files(accelerator)[0]:
        convolution(torch, torch.accelerator.current_accelerator().type)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()
