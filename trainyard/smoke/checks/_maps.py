"""Which shared libraries this process has loaded, by soname."""

from __future__ import annotations

from pathlib import Path

from _elf import soname
from _lib import fail


def loaded() -> dict[str, list[str]]:
    """Soname -> files in /proc/self/maps that answer to it; more than one is trouble."""
    found: dict[str, set[str]] = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.partition("/")[2]
        if ".so" in path and not path.endswith(" (deleted)"):
            name = soname(Path("/", path))
            if name:
                found.setdefault(name, set()).add(f"/{path}")
    return {name: sorted(paths) for name, paths in sorted(found.items())}


def is_private(name: str, path: str) -> bool:
    """A wheel's bundled copy under a name with a hash in it: nothing else can pick it up by mistake."""
    stem = name.partition(".so")[0]
    own = Path(path).name
    return own.startswith((f"{stem}.", f"{stem}-")) and not own.startswith(f"{stem}.so")


def one_origin(libraries: dict[str, list[str]]) -> None:
    """Fail when two files of one soname are loaded, private copies aside."""
    for name, paths in libraries.items():
        shared = [path for path in paths if not is_private(name, path)]
        if len(shared) > 1:
            fail(f"{name} is loaded twice: {' and '.join(shared)}", loaded=paths)
