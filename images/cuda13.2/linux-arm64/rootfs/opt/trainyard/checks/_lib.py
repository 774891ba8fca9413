"""What checks share: failing, skipping, holding against claims, and Python in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import NoReturn


class Skip(Exception):  # noqa: N818
    """The check cannot run here; the text says what it needs, and begins with that word."""


def fail(reason: str, **evidence: object) -> NoReturn:
    """End the check with a failure and what was seen."""
    error = AssertionError(reason)
    error.evidence = evidence  # type: ignore[attr-defined]
    raise error


def same(what: str, found: object, claimed: object, **evidence: object) -> None:
    """Fail unless what was found is what was claimed."""
    if found != claimed:
        fail(f"{what} is {found!r}, not {claimed!r}", **evidence)


def close(what: str, found, wanted, *, tolerance: float) -> float:
    """Fail unless two tensors agree; the largest error as a share of the largest wanted value."""
    if found.shape != wanted.shape:
        fail(f"{what} has the shape {tuple(found.shape)}, not {tuple(wanted.shape)}")
    found, wanted = found.detach().cpu().double(), wanted.detach().cpu().double()
    largest = wanted.abs().max().item()
    if largest == 0:
        raise ValueError(f"{what}: nothing but zeros is wanted, which proves nothing")
    error = (found - wanted).abs().max().item() / largest
    # A NaN is not <= anything.
    if not error <= tolerance:
        fail(f"{what}: relative error {error:.2g}, more than {tolerance:g}", error=error)
    return error


def compare_versions(found: dict[str, list[str]], claimed: dict[str, str]) -> list[str]:
    """Every difference between the packages that are installed, by name, and those that are locked."""
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


def locked(claims: dict, name: str) -> str | None:
    """The locked version of a wheel, None if the image has none."""
    return claims["wheels"].get(name)


def need_wheels(claims: dict, *names: str) -> None:
    """Skip where the image does not claim to have these."""
    missing = [name for name in names if locked(claims, name) is None]
    if missing:
        raise Skip(f"needs {', '.join(missing)} among the image's wheels")


def need_torch(claims: dict, *, since: tuple[int, int] = (0, 0)):
    """The torch module; Skip where the image has none, or one older than the check is about."""
    need_wheels(claims, "torch")
    version = release(locked(claims, "torch"))
    if version[:2] < since:
        raise Skip(f"needs torch {since[0]}.{since[1]} or newer, this is {locked(claims, 'torch')}")
    import torch

    return torch


def release(version: str) -> tuple[int, ...]:
    """`2.15.0+cu132` -> (2, 15, 0)."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


def fresh_python(code: str, *, env: dict[str, str | None]) -> dict:
    """The JSON that a new interpreter prints last; `env` is laid over ours, None unsets a variable."""
    merged = {**os.environ, **env}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={name: value for name, value in merged.items() if value is not None},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        fail(f"a fresh Python ended with {done.returncode}", stderr=done.stderr[-3000:])
    return json.loads(done.stdout.strip().rpartition("\n")[2])
