"""Every module of a sample has bytecode that fits it and that Python takes without a look at the source."""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from pathlib import Path

from _lib import Skip, fail

NEEDS = ("image",)
STEP = 7
UNCHECKED = 0b01  # PEP 552: hash-based, and the source is not looked at


def run(claims: dict) -> dict:
    if claims.get("bytecode") is False:
        raise Skip("needs an image with bytecode, this one is built with --no-bytecode")
    counts = {}
    for folder in sorted({Path(sysconfig.get_path("purelib")), Path(sysconfig.get_path("stdlib"))}):
        sources = sorted(path for path in folder.rglob("*.py") if counts_as_module(path, folder))
        sample = sources[::STEP]
        problems = {str(path): problem for path in sample if (problem := look(path))}
        if problems:
            path, problem = next(iter(problems.items()))
            fail(
                f"{path}: {problem} ({len(problems)} of {len(sample)} in {folder})",
                problems=dict(list(problems.items())[:20]),
            )
        counts[str(folder)] = {"modules": len(sources), "sample": len(sample)}
    return counts


def counts_as_module(path: Path, folder: Path) -> bool:
    """Files that can be imported by name; templates and tests with syntax errors on purpose cannot."""
    parts = path.relative_to(folder).with_suffix("").parts
    if "site-packages" in parts or "dist-packages" in parts:
        return False
    return all(part.isidentifier() for part in parts)


def look(path: Path) -> str:
    """What is wrong with the bytecode of a source file, empty if nothing is."""
    try:
        source = path.read_bytes()
        header = Path(importlib.util.cache_from_source(str(path))).read_bytes()[:16]
    except OSError:
        return "" if not compiles(path) else "no bytecode"
    if header[:4] != importlib.util.MAGIC_NUMBER:
        return f"bytecode of another Python than {sys.version.split()[0]}"
    if int.from_bytes(header[4:8], "little") != UNCHECKED:
        return "bytecode that is checked against the source's time"
    if header[8:16] != importlib.util.source_hash(source):
        return "bytecode of another source"
    return ""


def compiles(path: Path) -> bool:
    """Some wheels carry files for other Pythons."""
    try:
        compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True
