"""What is installed where this Python runs, and a sentence about what should not be so."""

from __future__ import annotations

import csv
import io
import re
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import Distribution, distributions
from pathlib import Path


@dataclass(frozen=True)
class Finding:
    """What is not the image's own: of which package, how, expected and found, and in which files."""

    name: str
    problem: str
    expected: str
    found: str
    files: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Row:
    """A line of RECORD: path below site-packages, `algorithm=hash`, size in bytes; the last two may be empty."""

    path: str
    hash: str
    size: str


class Installed:
    """Every distribution that this Python sees, by normalised name; `site` is the environment's own folder."""

    def __init__(self) -> None:
        self.site = Path(sysconfig.get_path("purelib")).resolve()
        self.found: dict[str, list[Distribution]] = {}
        # An entry of sys.path that is there twice is no second installation.
        for one in {place(one): one for one in distributions() if one.metadata["Name"]}.values():
            self.found.setdefault(canonical(one.metadata["Name"]), []).append(one)

    def requirers(self, name: str) -> list[str]:
        """Who asks for a certain version of that package: `vllm 0.9 (torch==2.14.1)`."""
        spelled = name.replace("-", "[-_.]+")
        asking = re.compile(rf"{spelled}\s*(\[.*\])?\s*\(?[^;]*(==|<|~=)", re.IGNORECASE)
        return [
            f"{other} {one.version} ({line.partition(';')[0].strip()})"
            for other, one in self._each()
            for line in one.requires or []
            if asking.match(line)
        ]

    def owners(self, path: str) -> list[str]:
        """The packages whose RECORD lists that file."""
        return [
            f"{name} {one.version}"
            for name, one in self._each()
            if any(row.path == path for row in record(one))
        ]

    def _each(self) -> Iterator[tuple[str, Distribution]]:
        return ((name, one) for name, ones in sorted(self.found.items()) for one in ones)


def record(distribution: Distribution) -> list[Row]:
    """RECORD's rows; `Distribution.files` leaves out the files that are missing."""
    text = distribution.read_text("RECORD") or ""
    return [Row(*row) for row in csv.reader(io.StringIO(text)) if len(row) == 3]


def folder_of(distribution: Distribution) -> Path:
    """The folder that a distribution is installed in."""
    return Path(str(distribution.locate_file(""))).resolve()


def place(distribution: Distribution) -> tuple[Path, str, str]:
    """What tells one installation from another."""
    return folder_of(distribution), distribution.metadata["Name"] or "", distribution.version


def canonical(name: str) -> str:
    """PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()
