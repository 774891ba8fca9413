"""Tells whether torch and the accelerator libraries are still the ones that this image was built with.

For the end of a child image's Dockerfile: `RUN trainyard-verify`. Holds claims.json against what is installed:
versions, who installed them, RECORD, what Python would import, and libraries of the same name where the loader
looks. Findings go to stderr, with --json one JSON document to stdout. Exit code: 0 all is the image's own, 1
something is not, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .files import check_files, check_libraries
from .installed import Finding, Installed, folder_of, record

CLAIMS = Path("/opt/trainyard/claims.json")
CONSTRAINTS = Path("/etc/trainyard/constraints.txt")
HOLDS = ("PIP_CONSTRAINT", "UV_CONSTRAINT")
# What our own engine writes; BuildKit's way leaves the file out. An installer in a child writes its own name.
OURS = ("trainyard", "")
SHOWN = 5


def verify(claims: Mapping[str, Any], allowed: Sequence[str], *, full: bool) -> dict[str, Any]:
    """The whole answer as JSON values; packages in `allowed` may be anything."""
    wheels = claims["wheels"]
    guarded = {name: wheels[name] for name in claims["guarded"] if name not in allowed}
    installed = Installed()
    findings = [found for name in guarded for found in check_version(installed, name, guarded[name])]
    # The files of what was replaced are another package's affair.
    sound = sorted(guarded.keys() - {finding.name for finding in findings})
    for name in sound:
        findings += check_files(installed, name, full=full)
        findings += check_imports(installed, name)
    findings += check_libraries(installed, sound)
    findings += check_python()
    return {
        "schema": 1,
        "ok": not findings,
        "target": claims["target"],
        "guarded": guarded,
        "allowed": sorted(allowed),
        "findings": [asdict(finding) for finding in findings],
        "notes": notes_on(installed, guarded, wheels),
    }


def check_version(installed: Installed, name: str, version: str) -> Iterator[Finding]:
    """Whether there is one distribution of that name, and it is the image's."""
    ones = installed.found.get(name, [])
    if not ones:
        yield Finding(name, "removed", version, "not installed")
        return
    if len(ones) > 1:
        places = sorted(f"{one.version} in {folder_of(one)}" for one in ones)
        yield Finding(name, "duplicated", version, ", ".join(places))
        return
    installer = (ones[0].read_text("INSTALLER") or "").strip()
    if ones[0].version != version:
        asked = installed.requirers(name)
        why = f", as {', '.join(asked[:SHOWN])} asks for" if asked else ""
        yield Finding(
            name, "replaced", version, f"{ones[0].version}, put there by {installer or 'hand'}{why}"
        )
    elif folder_of(ones[0]) != installed.site:
        yield Finding(name, "moved", f"in {installed.site}", f"in {folder_of(ones[0])}")
    elif installer not in OURS:
        yield Finding(name, "installed again", f"{version} as built", f"{version}, put there by {installer}")


def check_imports(installed: Installed, name: str) -> Iterator[Finding]:
    """Whether `import` would take the image's own, whatever paths and hooks there are."""
    for row in record(installed.found[name][0]):
        top, _, rest = row.path.partition("/")
        if rest != "__init__.py":
            continue
        try:
            spec = importlib.util.find_spec(top)
        except (ImportError, ValueError) as error:
            yield Finding(name, "shadowed", f"`import {top}` from {installed.site}", str(error))
            continue
        origin = Path(spec.origin).resolve() if spec and spec.origin else None
        if origin != (installed.site / row.path).resolve():
            yield Finding(name, "shadowed", f"`import {top}` from {installed.site}", f"from {origin}")


def check_python() -> Iterator[Finding]:
    """Whether `python` is the one that has torch."""
    found = shutil.which("python")
    if found is not None and Path(found).parent.resolve() != Path(sys.prefix, "bin").resolve():
        yield Finding("python", "shadowed", f"{sys.prefix}/bin/python first on PATH", found)


def notes_on(installed: Installed, guarded: Mapping[str, str], wheels: Mapping[str, str]) -> list[str]:
    """What is no failure: a looser hold, and changes to packages that a child may change."""
    notes = [
        f"{name} does not name {CONSTRAINTS}: an install with it can replace torch"
        for name in HOLDS
        if str(CONSTRAINTS) not in os.environ.get(name, "")
    ]
    lines = CONSTRAINTS.read_text("utf-8").splitlines() if CONSTRAINTS.is_file() else []
    if loose := [name for name, version in guarded.items() if f"{name}=={version}" not in lines]:
        notes.append(f"{CONSTRAINTS} does not hold {', '.join(loose)}")
    for name, version in sorted(wheels.items()):
        found = [one.version for one in installed.found.get(name, [])]
        if name not in guarded and found != [version]:
            notes.append(f"{name} {version} is now {', '.join(found) or 'gone'}")
    if added := len(installed.found.keys() - wheels.keys()):
        notes.append(f"{added} packages came on top")
    return notes


def tell(answer: Mapping[str, Any]) -> str:
    """The answer for a person."""
    lines = []
    for finding in answer["findings"]:
        found = f", found {finding['found']}" if finding["found"] else ""
        lines.append(f"{finding['name']}: {finding['problem']}: expected {finding['expected']}{found}")
        lines += [f"    {file}" for file in finding["files"][:SHOWN]]
        if (more := len(finding["files"]) - SHOWN) > 0:
            lines.append(f"    and {more} more; --json has them")
    lines += [f"note: {note}" for note in answer["notes"]]
    if answer["ok"]:
        lines.append(f"all {len(answer['guarded'])} guarded packages are the image's own")
    else:
        lines.append(
            "error: torch or its libraries are not the ones that the image was built and tested with"
        )
        lines.append(
            "hint: install what the lines above name in another version, or start from an image with the torch that "
            "it needs; --allow NAME accepts a change on purpose"
        )
    return "\n".join(lines) + "\n"


def read_claims(path: Path) -> dict[str, Any]:
    """claims.json; ValueError if it is not one that names guarded packages."""
    claims = json.loads(path.read_bytes())
    if not isinstance(claims, dict) or claims.get("schema") != 1 or "guarded" not in claims:
        raise ValueError("not claims of schema 1 that name guarded packages")
    return claims


def main(arguments: list[str]) -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(prog="trainyard-verify", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("--full", action="store_true", help="read every file, also those that look untouched")
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="NAME",
        help="this package was changed on purpose; may repeat",
    )
    parser.add_argument("--claims", type=Path, default=CLAIMS, metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        claims = read_claims(options.claims)
    except (OSError, ValueError) as error:
        parser.error(f"cannot read the claims: {error}")
    if unknown := sorted(set(options.allow) - set(claims["guarded"])):
        parser.error(f"not guarded: {', '.join(unknown)}; guarded are {', '.join(claims['guarded'])}")
    answer = verify(claims, options.allow, full=options.full)
    sys.stderr.write(tell(answer))
    if options.json:
        sys.stdout.write(json.dumps(answer, sort_keys=True) + "\n")
    return 0 if answer["ok"] else 1
