"""Every native library of the wheels finds what it is linked against; only the driver's may be missing."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

from _lib import Skip, fail

# These come with the host's driver, at run time.
DRIVER = {"libcuda.so.1", "libnvidia-ml.so.1"}
# Plugins that are loaded where the thing they speak to is installed, and left alone elsewhere.
OPTIONAL = ("nvshmem_bootstrap_", "nvshmem_transport_")
ELF = b"\x7fELF"


def run(claims: dict) -> dict:
    if shutil.which("ldd") is None:
        raise Skip("needs ldd, of glibc")
    site = Path(sysconfig.get_path("purelib"))
    libraries = sorted(path for path in site.rglob("*.so*") if path.is_file() and is_elf(path))
    if not libraries:
        raise Skip("needs wheels with native libraries")
    # A package loads its neighbours' libraries before its own: torchvision imports torch first.
    provided = {path.name for path in libraries}
    missing = unresolved(libraries)
    wrong = {
        str(path.relative_to(site)): sorted(names - DRIVER - provided)
        for path, names in missing.items()
        if names - DRIVER - provided and not path.name.startswith(OPTIONAL)
    }
    if wrong:
        path, names = next(iter(wrong.items()))
        fail(f"{path} needs {', '.join(names)}, which nothing here provides", missing=wrong)
    return {
        "libraries": len(libraries),
        "left_to_the_driver": sorted(set().union(*missing.values()) & DRIVER),
    }


def is_elf(path: Path) -> bool:
    """Linker scripts and stubs are called .so too."""
    with path.open("rb") as stream:
        return stream.read(4) == ELF


def unresolved(libraries: list[Path]) -> dict[Path, set[str]]:
    """Sonames that the dynamic loader does not find, by the library that wants them."""
    done = subprocess.run(["ldd", *map(str, libraries)], capture_output=True, text=True)
    missing: dict[Path, set[str]] = {}
    current = libraries[0]
    for line in done.stdout.splitlines():
        if not line.startswith("\t"):
            current = Path(line.rstrip(":"))
        elif line.endswith("=> not found"):
            missing.setdefault(current, set()).add(line.split()[0])
    return missing
