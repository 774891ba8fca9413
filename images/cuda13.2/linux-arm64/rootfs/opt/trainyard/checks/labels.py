"""The image's labels and its tag say what is in it: target, platform, Python, Debian, torch, toolkit, date."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
from pathlib import Path

from _lib import fail, locked, need_torch, release, same

NEEDS = ("image", "labels")
OURS = "dev.trainyard."
VERSION = "org.opencontainers.image.version"
MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
TAG = re.compile(
    r"(?P<target>.+?)(-torch(?P<torch>[^-]+(-[^-]+)?))?-py(?P<python>\d+)-(?P<date>\d{8})-[0-9a-f]{8}(-.+)?"
)


def run(claims: dict) -> dict:
    labels = claims["labels"]
    ours = {name.removeprefix(OURS): value for name, value in labels.items() if name.startswith(OURS)}
    wanted = contents(claims)
    for name, value in wanted.items():
        same(f"the label {OURS}{name}", ours.get(name), value)
    suite = dict(
        line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line
    )["VERSION_CODENAME"]
    same(f"the suite of the label {OURS}debian", ours.get("debian", "").partition(" ")[0], suite)
    tag = TAG.fullmatch(labels.get(VERSION, ""))
    if tag is None:
        fail(f"the label {VERSION} is {labels.get(VERSION)!r}, which is no tag of ours")
    torch = wanted.get("torch")
    same("the target in the tag", tag["target"], wanted["target"])
    same("the torch in the tag", tag["torch"], torch and torch.replace("+", "-"))
    same("the Python in the tag", tag["python"], wanted["python"].replace(".", ""))
    same("the date in the tag", tag["date"], ours.get("until", "")[:10].replace("-", ""))
    return {"labels": len(labels), "tag": labels[VERSION]}


def contents(claims: dict) -> dict[str, str]:
    """What the labels must be, as far as this process can see it for itself."""
    found = {
        "target": claims["target"],
        "platform": f"{sys.platform}/{MACHINES.get(os.uname().machine, os.uname().machine)}",
        "accelerator": claims["accelerator"],
        "python": ".".join(platform.python_version_tuple()[:2]),
    }
    if locked(claims, "torch"):
        found["torch"] = importlib.metadata.version("torch")
        torch = need_torch(claims)
        if claims["accelerator"] == "cuda":
            found["toolkit"] = torch.version.cuda
        elif claims["accelerator"] == "rocm":
            found["toolkit"] = ".".join(map(str, release(torch.version.hip)[:2]))
    return found
