"""RDMA's user space loads, with a provider for the usual cards: without it NCCL falls back to sockets silently."""

from __future__ import annotations

import ctypes
from pathlib import Path

from _lib import Skip, fail

NEEDS = ("image",)
LIBRARIES = ("libibverbs.so.1", "librdmacm.so.1", "libnuma.so.1")
# NVIDIA, AWS, Broadcom, Intel
PROVIDERS = ("mlx5", "efa", "bnxt_re", "irdma")


def run(claims: dict) -> dict:
    if claims["accelerator"] == "mps":
        raise Skip("needs an image for Linux")
    try:
        for name in LIBRARIES:
            ctypes.CDLL(name)
    except OSError as error:
        fail(f"a library does not load: {error}")
    verbs = ctypes.CDLL("libibverbs.so.1")
    count = ctypes.c_int()
    verbs.ibv_get_device_list.restype = ctypes.c_void_p
    devices = verbs.ibv_get_device_list(ctypes.byref(count))
    found = sorted(
        path.name.partition("-rdmav")[0].removeprefix("lib")
        for folder in Path("/usr/lib").glob("*-linux-gnu/libibverbs")
        for path in folder.iterdir()
    )
    missing = [name for name in PROVIDERS if name not in found]
    if missing:
        fail(f"no provider for {', '.join(missing)}", providers=found)
    return {"providers": found, "devices": count.value if devices else 0}
