"""One check in a process of its own: `_child.py FILE`, the claims as JSON on stdin, the result on stdout."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
MAX_TEXT = 4000


def main(file: Path) -> int:
    """Import the check, run it, write {status, reason, evidence} to what was stdout."""
    result = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a library that prints must not end up in the result
    claims = json.load(sys.stdin)
    # At the end: a check's name must never shadow a module that torch imports.
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
    sys.path += [str(file.parent), str(HERE)]
    from _lib import Skip

    evidence: object = {}
    try:
        status, reason, evidence = "pass", "", load(file).run(claims)
    except Skip as error:
        status, reason = "skip", str(error)
    except AssertionError as error:
        status, reason = "fail", str(error) or "an assertion failed"
        evidence = {"traceback": tail(traceback.format_exc()), **getattr(error, "evidence", {})}
    except BaseException as error:
        status, reason = "fail", f"{type(error).__name__}: {error}"
        evidence = {"traceback": tail(traceback.format_exc())}
    with result:
        json.dump({"status": status, "reason": reason, "evidence": evidence}, result, default=str)
    return 0


def load(file: Path):
    """The check as a module."""
    spec = importlib.util.spec_from_file_location(f"trainyard_check_{file.stem}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tail(text: str) -> str:
    """The last lines of a traceback."""
    return text[-MAX_TEXT:]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
