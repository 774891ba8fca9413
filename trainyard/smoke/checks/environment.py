"""The container's environment is the one that the image claims, and nothing slipped in that changes a program."""

from __future__ import annotations

import os

from _lib import fail, same

NEEDS = ("image",)
# Set by the entrypoint, by engines, and by shells.
MAY_BE_ADDED = {
    "HOME",
    "HOSTNAME",
    "TERM",
    "container",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "_",
    "LC_CTYPE",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "XDG_CACHE_HOME",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "TORCH_FR_DUMP_TEMP_FILE",
}
# The entrypoint gives a user without a home another; a device plugin says which devices there are.
MAY_DIFFER = {"HOME", "NVIDIA_VISIBLE_DEVICES"}
# A job sets what it likes, but with these other code would run than the image's.
DANGEROUS = ("LD_PRELOAD", "LD_AUDIT", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE")
LEGACY = "TORCH_DIST_USE_NCCL2"


def run(claims: dict) -> dict:
    claimed: dict[str, str] = claims["env"]
    found = dict(os.environ)
    for name, value in claimed.items():
        if name not in MAY_DIFFER:
            same(f"the variable {name}", found.get(name), value)
    added = sorted(found.keys() - claimed.keys() - MAY_BE_ADDED)
    if claims.get("labels", {}).get("dev.trainyard.nccl") == "legacy":
        same(f"the variable {LEGACY} of a legacy image", found.get(LEGACY), "0")
        added.remove(LEGACY)
    unexpected = added if claims["sealed"] else [name for name in added if name in DANGEROUS]
    if unexpected:
        fail(
            f"the environment has {', '.join(unexpected)}, which the image does not claim",
            unexpected=unexpected,
        )
    nvidia = sorted(name for name in claimed if name.startswith("NVIDIA_"))
    wanted = (
        ["NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_VISIBLE_DEVICES"] if claims["accelerator"] == "cuda" else []
    )
    same("what the image asks of NVIDIA's container toolkit", nvidia, wanted)
    if wanted and not {"compute", "utility"} <= set(claimed["NVIDIA_DRIVER_CAPABILITIES"].split(",")):
        fail(
            f"NVIDIA_DRIVER_CAPABILITIES is {claimed['NVIDIA_DRIVER_CAPABILITIES']!r}, without compute and utility"
        )
    return {"claimed": len(claimed), "added": added}
