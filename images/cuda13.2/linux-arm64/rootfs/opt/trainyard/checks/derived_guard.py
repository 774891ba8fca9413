"""pip and uv refuse another torch, also in an empty environment, and trainyard-verify finds all as it was built."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

from _lib import Skip, fail, locked

NEEDS = ("image",)
BIN = "/opt/venv/bin"
CONSTRAINTS = Path("/etc/trainyard/constraints.txt")


def run(claims: dict) -> dict:
    torch = locked(claims, "torch")
    if torch is None:
        raise Skip("needs torch among the image's wheels")
    pins = [f"{name}=={claims['wheels'][name]}" for name in claims["guarded"]]
    lines = CONSTRAINTS.read_text().splitlines()
    if lines != pins:
        fail(f"{CONSTRAINTS} does not hold the guarded packages", lines=lines, claimed=pins)
    with tempfile.TemporaryDirectory() as folder:
        for env in (dict(os.environ), {"HOME": os.environ.get("HOME", "/")}):
            refuse(torch, env, folder)
    # Where the image's own packages are all there is, nothing may look changed.
    done = subprocess.run(["trainyard-verify", "--json"], capture_output=True, text=True)
    if not done.stdout:
        fail(f"trainyard-verify ended with {done.returncode}", stderr=done.stderr[-3000:])
    answer = json.loads(done.stdout)
    if done.returncode or answer["notes"]:
        said = done.stderr.strip().splitlines()
        fail(f"trainyard-verify says: {said[0] if said else done.returncode}", answer=answer)
    return {"guarded": len(pins), "notes": answer["notes"]}


def refuse(torch: str, env: dict, folder: str) -> None:
    """Both installers must name the pin as what stands against another torch; neither needs an index for that.

    Into `folder`: uv would leave its lock in the environment, which the other checks look at.
    """
    asked = f"torch!={torch.partition('+')[0]}"
    common = ("install", "--no-index", "--dry-run", asked)
    for command in (
        (f"{BIN}/python", "-m", "pip", *common),
        (
            f"{BIN}/uv",
            "pip",
            *common,
            "--offline",
            "--no-cache",
            "--python",
            f"{BIN}/python",
            "--target",
            folder,
        ),
    ):
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        if done.returncode == 0 or f"torch=={torch}" not in done.stdout + done.stderr:
            installer = "uv" if "uv" in command[0] else "pip"
            held = "as the image sets it" if len(env) > 1 else "empty"
            fail(
                f"{installer} does not hold torch=={torch}, the environment being {held}",
                stderr=done.stderr[-3000:],
            )
