"""Exactly the locked Debian packages are installed, whole, and no file of theirs was changed."""

from __future__ import annotations

import shutil
import subprocess

from _lib import Skip, compare_versions, fail

NEEDS = ("image",)


def run(claims: dict) -> dict:
    if shutil.which("dpkg") is None or "debs" not in claims:
        raise Skip("needs dpkg, and claims of Debian packages")
    listed = ask("dpkg-query", "--show", "--showformat", "${Package}\t${Version}\t${db:Status-Abbrev}\n")
    found: dict[str, list[str]] = {}
    problems = []
    for name, version, status in (line.split("\t") for line in listed.splitlines()):
        found.setdefault(name, []).append(version)
        if status.strip() != "ii":
            problems.append(f"{name} has the state {status.strip()!r}, not 'ii'")
    problems += compare_versions(found, claims["debs"])
    # `??5??????  c /etc/x`: a digest that is another, `missing     /etc/x`; both name the file last.
    problems += [
        f"{line.split()[-1]} is not as its package has it" for line in ask("dpkg", "--verify").splitlines()
    ]
    if problems:
        fail("; ".join(problems[:10]), problems=problems)
    return {"packages": len(found)}


def ask(*command: str) -> str:
    """What a tool says; it must end well."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        fail(f"{' '.join(command)} ended with {done.returncode}", stderr=done.stderr[-2000:])
    return done.stdout
