"""A small real image out of this host: its Python with the standard library, its /bin/sh, their libraries."""

from __future__ import annotations

import functools
import importlib.util
import marshal
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.support.layouts import Layer, Raw, folder, layer, link

VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
SITE = f"opt/venv/lib/{VERSION}/site-packages"
PYTHON = "/opt/venv/bin/python"
CONFIG: Mapping[str, object] = {
    "Env": [
        "PATH=/opt/venv/bin:/usr/bin:/bin",
        "HOME=/home/user",
        "LD_LIBRARY_PATH=/usr/lib/host",
        "LANG=C.UTF-8",
    ],
    "User": "1000:0",
    "WorkingDir": "/home/user",
}
# What no check imports, so that the image stays small; names of modules.
_UNWANTED = frozenset(
    [
        "__pycache__",
        "site-packages",
        "dist-packages",
        "test",
        "ensurepip",
        "asyncio",
        "cgi",
        "curses",
        "dbm",
        "distutils",
        "doctest",
        "html",
        "http",
        "idlelib",
        "imaplib",
        "lib2to3",
        "mailbox",
        "msilib",
        "multiprocessing",
        "pickletools",
        "pydoc",
        "pydoc_data",
        "sqlite3",
        "tarfile",
        "tkinter",
        "tomllib",
        "turtle",
        "turtledemo",
        "unittest",
        "venv",
        "wsgiref",
        "xml",
        "xmlrpc",
        "_crypt",
        "_curses",
        "_curses_panel",
        "_dbm",
        "_decimal",
        "_gdbm",
        "_pydecimal",
        "_sqlite3",
        "_tkinter",
        "nis",
        "ossaudiodev",
        "readline",
    ]
)


@functools.cache
def base_layer() -> Layer:
    """Python in /usr and a venv of it in /opt/venv, owned by root; 1000:0 owns /home/user."""
    binary = Path(sys.executable).resolve()
    shell = Path("/bin/sh").resolve()
    stdlib = Path(sysconfig.get_path("stdlib"))
    files = {f"usr/bin/{VERSION}": binary, "bin/sh": shell}
    for path in sorted(stdlib.rglob("*")):
        relative = path.relative_to(stdlib)
        names = {part.partition(".")[0] for part in relative.parts}
        wanted = not _UNWANTED & names and not relative.parts[0].startswith(("config-", "_test"))
        if wanted and path.suffix in (".py", ".so") and path.is_file():
            files[f"usr/lib/{VERSION}/{relative}"] = path
    for source in needed([binary, shell, *(path for name, path in files.items() if name.endswith(".so"))]):
        # The loader is asked for by its own path, the others are found by LD_LIBRARY_PATH.
        name = str(source).lstrip("/") if "ld-linux" in source.name else f"usr/lib/host/{source.name}"
        files[name] = source
    members = [
        Raw(name=name, data=path.read_bytes(), mode=0o755 if os.access(path, os.X_OK) else 0o644)
        for name, path in files.items()
    ]
    members += bytecode(files)
    members += [
        Raw(name="opt/venv/pyvenv.cfg", data=b"home = /usr/bin\ninclude-system-site-packages = false\n"),
        link("opt/venv/bin/python", f"/usr/bin/{VERSION}"),
        Raw(name="etc/passwd", data=b"root:x:0:0:root:/root:/bin/sh\nuser:x:1000:0::/home/user:/bin/sh\n"),
        Raw(name="etc/group", data=b"root:x:0:\nstaff:x:50:\n"),
        folder("home/user", mode=0o775, uid=1000),
        folder("opt/venv/bin", mode=0o775),
        folder("opt/venv", mode=0o775),
        folder(SITE, mode=0o775),
    ]
    return layer(with_parents(members))


def bytecode(files: Mapping[str, Path]) -> Iterator[Raw]:
    """What real images carry, and what makes a start here a third as long."""
    for name, path in files.items():
        if path.suffix != ".py":
            continue
        source = path.read_bytes()
        try:
            code = compile(source, f"/{name}", "exec", dont_inherit=True)
        except SyntaxError:
            continue
        header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + importlib.util.source_hash(source)
        yield Raw(name=importlib.util.cache_from_source(name), data=header + marshal.dumps(code))


def needed(binaries: Sequence[Path]) -> set[Path]:
    """The libraries that ldd finds, as it names them."""
    done = subprocess.run(["ldd", *map(str, binaries)], capture_output=True, text=True, check=False)
    return {Path(found) for found in re.findall(r"(/\S+) \(0x", done.stdout)}


def with_parents(members: Sequence[Raw]) -> list[Raw]:
    """The members with every directory above them, sorted so that parents come first."""
    named = {member.name: member for member in members}
    for name in list(named):
        for parent in Path(name).parents:
            if str(parent) != ".":
                named.setdefault(str(parent), folder(str(parent)))
    return sorted(named.values(), key=lambda member: (member.kind != tarfile.DIRTYPE, member.name))


def files_layer(files: Mapping[str, str], *, executable: Sequence[str] = ()) -> Layer:
    """A layer of small text files."""
    members = [
        Raw(name=name, data=text.encode(), mode=0o755 if name in executable else 0o644)
        for name, text in files.items()
    ]
    # Directories that the base has, with the base's attributes: the last layer decides.
    shared = [folder(name, mode=0o775) for name in ("opt/venv", "opt/venv/bin", SITE)]
    return layer(with_parents([*members, *shared]))
