"""Exactly the locked wheels are installed, each whole and with its needs met."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

from _lib import fail


def run(claims: dict) -> dict:
    folder = [entry for entry in map(Path, sys.path) if entry.name == "site-packages"]
    found: dict[str, list] = {}
    for distribution in importlib.metadata.distributions(path=list(map(str, folder))):
        found.setdefault(canonical(distribution.metadata["Name"]), []).append(distribution)
    problems = compare(
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


def compare(found: dict, claimed: dict) -> list[str]:
    """Every difference between what is installed and what is locked."""
    problems = []
    for name in sorted(found.keys() | claimed.keys()):
        versions, wanted = found.get(name, []), claimed.get(name)
        if not versions:
            problems.append(f"{name} {wanted} is locked and not installed")
        elif wanted is None:
            problems.append(f"{name} {versions[0]} is installed and not locked")
        elif len(versions) > 1:
            problems.append(f"{name} is installed {len(versions)} times: {', '.join(versions)}")
        elif versions[0] != wanted:
            problems.append(f"{name} is {versions[0]}, locked is {wanted}")
    return problems


def incomplete(distribution) -> tuple[int, list[str]]:
    """The number of files in RECORD, and those that are missing or have another size."""
    if distribution.files is None:
        return 0, ["no RECORD"]
    broken = []
    for file in distribution.files:
        try:
            size = file.locate().stat().st_size
        except OSError:
            broken.append(f"{file} is missing")
            continue
        if file.size is not None and size != file.size:
            broken.append(f"{file} has {size} bytes, RECORD says {file.size}")
    return len(distribution.files), broken


def canonical(name: str) -> str:
    """PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()
