"""The image's own Python on the host: unpacked from the locked debs and run by its own loader, as any user.

No root, no namespace, no maintainer script: glibc's loader is started as a program and told where the
libraries are, and PYTHONHOME says where the standard library is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainyard.bytecode.unpack import unpack
from trainyard.debian.archive import DebArchive
from trainyard.digest import sha256_hex
from trainyard.errors import InputError, LockError
from trainyard.lock.model import DebLock, LockedDeb
from trainyard.oci.entry import Kind
from trainyard.platforms import Platform
from trainyard.store import Store

_LOADERS = {"amd64": "ld-linux-x86-64.so.2", "arm64": "ld-linux-aarch64.so.1"}
_MINIMAL = re.compile(r"python(3\.\d+)-minimal")
# What libpython3.x-stdlib loads beside libc: names without the version that Debian puts into some of them.
_LIBRARIES = (
    "libbz2-", "libc6", "libdb5", "libexpat1", "libffi", "libgcc-s1", "libgdbm", "liblzma5", "libncursesw",
    "libreadline", "libsqlite3-", "libssl3", "libtinfo", "libuuid1", "libzstd1", "zlib1g",
)  # fmt: skip
_MAX_SOURCE = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePython:
    """A Python that runs here: `argv` to put before its arguments, `env` to run it in, instead of the host's.

    `root` holds its unpacked debs, `version` is `3.13`.
    """

    root: Path
    version: str
    argv: tuple[str, ...]
    env: Mapping[str, str]

    @property
    def cache_tag(self) -> str:
        """What stands in the names of its bytecode files: `cpython-313` (PEP 3147)."""
        return f"cpython-{self.version.replace('.', '')}"


def python_version(debs: DebLock) -> str:
    """The Python of a base, e.g. `3.13`; LockError unless there is exactly one."""
    versions = [match[1] for deb in debs.debs if (match := _MINIMAL.fullmatch(deb.name))]
    if len(versions) != 1:
        raise LockError(
            f"base {debs.base} for {debs.arch} has {len(versions)} Pythons, and bytecode needs one",
            hint="name one `python3.x` in matrix.yaml, then run `invoke lock`",
        )
    return versions[0]


def python_key(debs: DebLock) -> str:
    """sha256 hex over the packages that decide bytecode: the interpreter and the standard library."""
    return _key(_compiler(debs))


def python_debs(debs: DebLock) -> tuple[LockedDeb, ...]:
    """The packages that `image_python` unpacks: the interpreter, the standard library, and what they link to."""
    version = python_version(debs)
    return tuple(deb for deb in debs.debs if _is_needed(deb.name, version))


def check_same_python(target: DebLock, host: DebLock) -> None:
    """Raise LockError unless the host's base brings the very Python that the target's base does."""
    wanted = [f"{deb.name}={deb.version}" for deb in _compiler(target)]
    found = [f"{deb.name}={deb.version}" for deb in _compiler(host)]
    if wanted != found:
        raise LockError(
            f"bytecode of {target.base} for {target.arch} is compiled by {', '.join(wanted)}, "
            f"and for {host.arch}, this host, {host.base} has {', '.join(found)}",
            hint="lock both architectures together: invoke lock --upgrade",
        )


def image_python(store: Store, debs: DebLock, platform: Platform) -> ImagePython:
    """The Python of a base, unpacked into the store if it is not there yet, for this host's `platform`.

    The debs must be in the store. Errors: LockError when the lock is not for this host, InputError naming a
    deb that holds what it must not.
    """
    if (platform.os, platform.arch) != ("linux", debs.arch):
        raise LockError(
            f"the Python of base {debs.base} for linux/{debs.arch} does not run on {platform}",
            hint="build on Linux, amd64 or arm64, after `invoke lock`",
        )
    version = python_version(debs)
    needed = python_debs(debs)
    root = store.tree(_key(needed))
    if not root.exists():
        _unpack(store, needed, root)
    libraries = root / "usr/lib" / platform.multiarch
    loader = (str(libraries / _LOADERS[platform.arch]), "--inhibit-cache", "--library-path", str(libraries))
    return ImagePython(
        root=root,
        version=version,
        argv=(*loader, str(root / f"usr/bin/python{version}")),
        # Nothing is ever written into the tree: bytecode there would be state that compiling might show.
        env={"PYTHONHOME": str(root / "usr"), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
    )


def stdlib_sources(archives: Iterable[DebArchive]) -> Iterator[tuple[str, bytes]]:
    """Image path and content of the standard library's .py files in these debs, sorted by path.

    A link is not a source: sitecustomize.py leads to a file in /etc that users edit.
    """
    sources = {}
    for archive in archives:
        for entry in archive.entries():
            if entry.kind is Kind.FILE and _is_stdlib_source(entry.path):
                if entry.size > _MAX_SOURCE:
                    raise InputError(
                        f"{entry.origin}: {entry.path} is {entry.size} bytes long, too many for a source",
                        hint="`invoke clean --inputs` and build again",
                    )
                sources[entry.path] = b"".join(entry.content)
    yield from sorted(sources.items())


def _compiler(debs: DebLock) -> tuple[LockedDeb, ...]:
    """The packages that decide bytecode."""
    version = python_version(debs)
    names = (f"python{version}-minimal", f"libpython{version}-minimal", f"libpython{version}-stdlib")
    found = tuple(deb for name in names if (deb := debs.deb(name)))
    if len(found) != len(names):
        missing = sorted(set(names) - {deb.name for deb in found})
        raise LockError(
            f"base {debs.base} for {debs.arch} lacks {', '.join(missing)}", hint="run `invoke lock` again"
        )
    return found


def _key(debs: Iterable[LockedDeb]) -> str:
    return sha256_hex("\n".join(deb.sha256 for deb in debs).encode())


def _is_needed(name: str, version: str) -> bool:
    if name.endswith(f"python{version}-minimal") or name == f"libpython{version}-stdlib":
        return True
    return name.startswith(_LIBRARIES) and not name.endswith(("-dev", "-bin"))


def _is_stdlib_source(path: str) -> bool:
    return re.fullmatch(r"usr/lib/python3\.\d+/.+\.py", path) is not None


def _unpack(store: Store, debs: Iterable[LockedDeb], root: Path) -> None:
    """Make `root` appear whole, or not at all; two threads may both try."""
    archives = [DebArchive(store.input(deb.sha256), name=deb.name, version=deb.version) for deb in debs]
    with store.scratch() as folder:
        unpack((entry for archive in archives for entry in archive.entries()), folder / "tree")
        root.parent.mkdir(parents=True, exist_ok=True)
        try:
            (folder / "tree").rename(root)
        except OSError:
            if not root.exists():  # else another thread was first, with the same tree
                raise
