"""Tells whether this image is what it says, and works where it runs.

Runs every check of a folder, each in a process of its own with a time limit, and holds what it finds against
claims.json. The table goes to stderr, with --json one JSON document to stdout. A check that needs what is not
here is skipped and says so; --require-device makes a missing device a failure. Exit code: 0 no failure, 1 a
check failed, 2 wrong usage. Stdlib only: it runs under the Python that is being tested.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

HERE = Path(__file__).resolve().parent
CHILD = HERE / "checks" / "_child.py"
IMAGE_PREFIX = "/opt/venv"
DEFAULT_LIMIT = 120.0
MAX_TEXT, MAX_LINE = 4000, 300
MAX_RESULT = 1 << 20
Claims = Mapping[str, object]


@dataclass(frozen=True)
class Check:
    """A check's file, read and not imported: its sentence, what it needs, and its time limit in seconds."""

    name: str
    path: Path
    claim: str
    needs: tuple[str, ...]
    limit: float


@dataclass(frozen=True)
class Result:
    """What a check found; `evidence` is whatever JSON it gave."""

    name: str
    status: str
    reason: str
    evidence: object
    seconds: float


def find_checks(folder: Path) -> list[Check]:
    """The checks of a folder in name order; files that begin with an underscore are not checks."""
    return [read_check(path) for path in sorted(folder.glob("[!_]*.py"))]


def read_check(path: Path) -> Check:
    """A check from its source: docstring, and the constants NEEDS and LIMIT if it has them."""
    tree = ast.parse(path.read_text("utf-8"))
    constants = {
        target.id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in ("NEEDS", "LIMIT")
    }
    return Check(
        name=path.stem,
        path=path,
        claim=(ast.get_docstring(tree) or "").partition("\n")[0],
        needs=tuple(constants.get("NEEDS", ())),
        limit=float(constants.get("LIMIT", DEFAULT_LIMIT)),
    )


def run_check(check: Check, claims: Claims, options: argparse.Namespace) -> Result:
    """Run one check in a fresh interpreter and a session of its own, which is killed when it is over."""
    start = time.monotonic()
    limit = options.limit or check.limit
    if missing := lacking(check, claims):
        return Result(check.name, "skip", missing, {}, 0.0)
    with scratch_file("claims") as given, scratch_file("result") as out, scratch_file("noise") as noise:
        given.write(json.dumps(claims).encode())
        given.seek(0)
        process = subprocess.Popen(
            [sys.executable, str(CHILD), str(check.path)],
            stdin=given,
            stdout=out,
            stderr=noise,
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        written, heard = read_back(out, MAX_RESULT), tail(read_back(noise, MAX_RESULT))
    status, reason, evidence = outcome(code, written, heard, limit)
    if status == "skip" and options.require_device and "device" in check.needs:
        status, reason = "fail", f"--require-device: {reason}"
    return Result(check.name, status, reason[:MAX_TEXT], evidence, round(time.monotonic() - start, 3))


def lacking(check: Check, claims: Claims) -> str:
    """What a check needs that a look from here shows is not to be had; empty if there is no such thing."""
    if "image" in check.needs and sys.prefix != IMAGE_PREFIX:
        return f"needs the image's own Python in {IMAGE_PREFIX}, this one is {sys.prefix}"
    if "labels" in check.needs and "labels" not in claims:
        return (
            "needs --labels with the JSON of `docker image inspect --format '{{json .Config.Labels}}' IMAGE`"
        )
    return ""


def outcome(code: int | None, written: bytes, noise: str, limit: float) -> tuple[str, str, object]:
    """(status, reason, evidence) of a check from how its process ended; what it does not say is a failure."""
    if code is None:
        return "fail", f"did not end within {limit:g} s", {"output": noise}
    if code < 0:
        return "fail", f"killed by {signal.Signals(-code).name}", {"output": noise}
    try:
        document = json.loads(written)
        status, reason, evidence = document["status"], str(document["reason"]), document["evidence"]
    except (ValueError, KeyError, TypeError):
        return "fail", f"ended with exit code {code} and no result", {"output": noise}
    if status not in ("pass", "fail", "skip"):
        return "fail", f"gave the status {status!r}", {"output": noise}
    if status == "skip" and not reason.startswith("needs "):
        return "fail", f"was skipped and does not say what it needs: {reason}", {"output": noise}
    if status == "fail":
        evidence = {**evidence, "output": noise} if isinstance(evidence, dict) else evidence
    return status, reason, evidence


def scratch_file(name: str) -> IO[bytes]:
    """A file that no folder holds: also where nothing at all can be written."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create(name), "w+b")
    return tempfile.TemporaryFile()


def read_back(stream: IO[bytes], limit: int) -> bytes:
    """The end of what a child wrote into a scratch file."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - limit))
    return stream.read(limit)


def tail(text: bytes) -> str:
    """The last lines of a log."""
    return text.decode("utf-8", "replace")[-MAX_TEXT:]


def say(line: str) -> None:
    """Talk goes to stderr."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def load_claims(options: argparse.Namespace) -> dict[str, object]:
    """claims.json, the image's labels where they are given, and whether there is meant to be no network."""
    claims = json.loads(options.claims.read_bytes())
    if not isinstance(claims, dict) or claims.get("schema") != 1:
        raise ValueError(f"{options.claims}: not claims of schema 1")
    if options.labels is not None:
        labels = json.loads(options.labels)
        if not isinstance(labels, dict):
            raise ValueError("--labels: not a JSON object")
        claims["labels"] = labels
    return {**claims, "sealed": options.sealed}


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line; exits with 2 for what is not one."""
    parser = argparse.ArgumentParser(prog="trainyard-doctor", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="this check only; may repeat"
    )
    parser.add_argument("--require-device", action="store_true", help="a missing device is a failure")
    parser.add_argument("--sealed", action="store_true", help="the container was started without a network")
    parser.add_argument(
        "--labels", metavar="JSON", help="the image's labels, which cannot be seen from inside"
    )
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="time limit for each check")
    parser.add_argument("--list", action="store_true", help="name the checks and end")
    parser.add_argument("--claims", type=Path, default=HERE / "claims.json", metavar="FILE")
    parser.add_argument("--checks", type=Path, default=HERE / "checks", metavar="FOLDER")
    options = parser.parse_args(arguments)
    options.checks = options.checks.resolve()
    names = [path.stem for path in sorted(options.checks.glob("[!_]*.py"))]
    for name in options.only:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            parser.error(f"no check is called {name!r}" + (f"; did you mean {near[0]}?" if near else ""))
    options.loaded = {}
    if not options.list:
        try:
            options.loaded = load_claims(options)
        except (OSError, ValueError) as error:
            parser.error(f"cannot read the claims: {error}")
    return options


def main(arguments: list[str]) -> int:
    """Run what was asked for; the exit code."""
    options = parse(arguments)
    checks = find_checks(options.checks)
    chosen = [check for check in checks if not options.only or check.name in options.only]
    width = max((len(check.name) for check in chosen), default=0)
    if options.list:
        for check in chosen:
            needs = f" (needs: {', '.join(check.needs)})" if check.needs else ""
            sys.stdout.write(f"{check.name:{width}}  {check.claim}{needs}\n")
        return 0
    results = []
    for check in chosen:
        results.append(result := run_check(check, options.loaded, options))
        say(f"{result.status:4}  {check.name:{width}}  {result.seconds:6.1f} s  {result.reason[:MAX_LINE]}")
    failed, skipped = (sum(result.status == status for result in results) for status in ("fail", "skip"))
    if options.json:
        document = {"schema": 1, "results": [asdict(result) for result in results]}
        sys.stdout.write(json.dumps(document, sort_keys=True) + "\n")
    say(f"{len(results)} checks, {failed} failed, {skipped} skipped")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
