"""Exactly the locked wheels are installed, each whole and with its needs met."""

from __future__ import annotations

import csv
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

from _lib import compare_versions, fail


def run(claims: dict) -> dict:
    folder = [entry for entry in map(Path, sys.path) if entry.name == "site-packages"]
    found: dict[str, list] = {}
    for distribution in importlib.metadata.distributions(path=list(map(str, folder))):
        found.setdefault(canonical(distribution.metadata["Name"]), []).append(distribution)
    problems = compare_versions(
        {name: [one.version for one in ones] for name, ones in found.items()}, claims["wheels"]
    )
    files = 0
    for name, distributions in found.items():
        for distribution in distributions:
            count, broken = incomplete(distribution)
            files += count
            problems += [f"{name}: {problem}" for problem in broken[:5]]
    if problems:
        fail("; ".join(problems[:10]), problems=problems)
    evidence = {"packages": len(found), "files": files}
    if "pip" in found:
        done = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True)
        if done.returncode:
            fail(f"pip check: {done.stdout.strip()}", stderr=done.stderr[-2000:])
        evidence["pip_check"] = done.stdout.strip()
    return evidence


def incomplete(distribution) -> tuple[int, list[str]]:
    """The number of files in RECORD, and those that are missing or have another size.

    RECORD is read here: `Distribution.files` leaves out what is missing, from Python 3.12 on.
    """
    record = distribution.read_text("RECORD")
    if record is None:
        return 0, ["no RECORD"]
    rows = list(csv.reader(record.splitlines()))
    broken = []
    for path, _, size in rows:
        try:
            found = Path(distribution.locate_file(path)).stat().st_size
        except OSError:
            broken.append(f"{path} is missing")
            continue
        if size and found != int(size):
            broken.append(f"{path} has {found} bytes, RECORD says {size}")
    return len(rows), broken


def canonical(name: str) -> str:
    """PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()
