"""Which member of a wheel goes where in the image (PyPA, Binary distribution format, the .data directory)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trainyard.wheels.paths import parents
from trainyard.wheels.site import Site

_SUFFIX = ".data"
SIGNATURES = ("RECORD.jws", "RECORD.p7s")
# The installer's own notes: a wheel has no say in them.
_NOTES = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Rules for one distribution: `folder` is its .dist-info, `name` its normalised name."""

    site: Site
    folder: str
    name: str

    @property
    def dist_info(self) -> str:
        """Image path of the .dist-info folder."""
        return f"{self.site.site_packages}/{self.folder}"

    @property
    def record_exempt(self) -> frozenset[str]:
        """Members that RECORD need not list: itself and its signatures."""
        return frozenset(f"{self.folder}/{name}" for name in ("RECORD", *SIGNATURES))

    def targets(self, names: Iterable[str]) -> tuple[dict[str, str], list[str]]:
        """Member -> image path for what is installed, and what is wrong.

        Left out are the installer's notes and `__pycache__`: bytecode is compiled by the image's own Python.
        Root-Is-Purelib changes nothing, since a virtual environment has one site-packages.
        """
        notes = {f"{self.folder}/{name}" for name in _NOTES}
        roots = self._roots()
        data = self._data
        packages = self.site.site_packages
        targets, problems = {}, []
        for name in names:
            top, _, below = name.partition("/")
            if name in notes or (name.endswith(".pyc") and "__pycache__" in name.split("/")):
                continue
            if not (below and top.endswith(_SUFFIX)):
                targets[name] = f"{packages}/{name}"
            elif top != data:
                problems.append(f"{name!r} is in a data folder that is not {data!r}")
            else:
                scheme, _, rest = below.partition("/")
                if rest and scheme in roots:
                    targets[name] = f"{roots[scheme]}/{rest}"
                else:
                    problems.append(f"{name!r} has no known scheme; these are {', '.join(sorted(roots))}")
        return targets, problems

    def is_script(self, name: str) -> bool:
        """Whether a member is a script: executable, and its placeholder first line is replaced."""
        return name.startswith(f"{self._data}/scripts/")

    @property
    def _data(self) -> str:
        return self.folder.removesuffix(".dist-info") + _SUFFIX

    def _roots(self) -> dict[str, str]:
        site = self.site
        return {
            "purelib": site.site_packages,
            "platlib": site.site_packages,
            "scripts": site.scripts,
            "data": site.data,
            "headers": site.headers(self.name),
        }


def collisions(targets: Iterable[str]) -> list[str]:
    """Image paths that two files want, or that are a file to one and a folder to another."""
    seen: set[str] = set()
    twice: set[str] = set()
    for target in targets:
        (twice if target in seen else seen).add(target)
    above = {target.rpartition("/")[0] for target in seen}
    above |= {folder for nearest in tuple(above) for folder in parents(nearest)}
    problems = [f"two files would be installed as /{target}" for target in sorted(twice)]
    return problems + [f"/{target} would be both a file and a folder" for target in sorted(above & seen)]
