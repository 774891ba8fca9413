"""Where a project keeps its files; tests pass another root."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trainyard.platforms import Platform


@dataclass(frozen=True, slots=True)
class Project:
    """The folder that holds matrix.yaml, and the places below it."""

    root: Path

    @property
    def matrix(self) -> Path:
        """The one file that users edit."""
        return self.root / "matrix.yaml"

    @property
    def templates(self) -> Path:
        """Jinja2 templates of locks and Dockerfiles."""
        return self.root / "templates"

    def wheel_lock(self, target: str, platform: Platform) -> Path:
        """`lockfiles/<target>/<os>-<arch>.txt`."""
        return self.root / "lockfiles" / target / f"{platform.slug}.txt"

    def deb_lock(self, base: str, arch: str) -> Path:
        """`lockfiles/base/<base>.<arch>.txt`."""
        return self.root / "lockfiles" / "base" / f"{base}.{arch}.txt"

    def golden(self, target: str, platform: Platform) -> Path:
        """`images/<target>/<os>-<arch>.json`, the digests that a build must produce."""
        return self.root / "images" / target / f"{platform.slug}.json"

    def docker_context(self, target: str, platform: Platform) -> Path:
        """`images/<target>/<os>-<arch>/`, the Dockerfile and what it copies."""
        return self.root / "images" / target / platform.slug

    def dist(
        self, target: str, platform: Platform, *, compression: str = "zstd", engine: str = "oci"
    ) -> Path:
        """The OCI layout that a build leaves: `dist/<target>/<os>-<arch>[.docker][.gzip]`."""
        suffixes = [f".{word}" for word in (engine, compression) if word not in ("oci", "zstd")]
        return self.root / "dist" / target / f"{platform.slug}{''.join(suffixes)}"

    def dist_index(self, target: str, *, compression: str = "zstd") -> Path:
        """The OCI layout with all platforms of a target: `dist/<target>/index[.gzip]`."""
        return self.root / "dist" / target / ("index" if compression == "zstd" else f"index.{compression}")

    def relative(self, path: Path) -> str:
        """`path` as messages show it: relative to the root where it can be."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)
