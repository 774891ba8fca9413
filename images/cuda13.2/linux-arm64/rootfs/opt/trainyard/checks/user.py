"""The image runs as a user that is not root, in group 0, with a home and without capabilities."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

from _lib import fail, same

NEEDS = ("image",)


def run(claims: dict) -> dict:
    uid, gid = os.getuid(), os.getgid()
    same("the group", gid, 0)
    if uid == 0:
        fail("the image runs as root")
    if os.geteuid() != uid or os.getegid() != gid:
        fail(f"effective ids {os.geteuid()}:{os.getegid()} are not the real ones {uid}:{gid}")
    if not os.environ.get("HOME"):
        fail("HOME is not set")
    status = dict(
        line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line
    )
    same("the effective capabilities", int(status["CapEff"], 16), 0)
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        # An unknown uid has no name, and torch falls back to its number; that is no fault of the image.
        name = None
    return {
        "uid": uid,
        "gid": gid,
        "groups": sorted(os.getgroups()),
        "name": name,
        "HOME": os.environ["HOME"],
    }
