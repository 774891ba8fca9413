"""The files of ours that every image carries, read from the package: entrypoint, doctor, checks, guard."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def load_payload(package: Path = _PACKAGE) -> dict[str, bytes]:
    """Image path (no leading slash) -> bytes, of what is under rootfs/, the smoke checks and the guard."""
    rootfs = package / "rootfs"
    files = {str(path.relative_to(rootfs)): path for path in rootfs.rglob("*") if path.is_file()}
    smoke = package / "smoke"
    files["opt/trainyard/doctor.py"] = smoke / "doctor.py"
    files |= {f"opt/trainyard/checks/{path.name}": path for path in (smoke / "checks").glob("*.py")}
    files |= {f"opt/trainyard/guard/{path.name}": path for path in (package / "guard").glob("*.py")}
    return {path: files[path].read_bytes() for path in sorted(files)}


def load_compiler(package: Path = _PACKAGE) -> dict[str, bytes]:
    """File name -> bytes, of the scripts that make bytecode inside a Dockerfile's stage."""
    return {name: (package / "bytecode" / name).read_bytes() for name in ("server.py", "tree.py")}
