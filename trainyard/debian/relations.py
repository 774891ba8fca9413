"""Depends, Provides and their kin as values (deb-control(5), Debian policy 7.1)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trainyard.debian.version import satisfies
from trainyard.errors import InputError

_RELATION = re.compile(
    r"([a-zA-Z0-9][a-zA-Z0-9+.-]*)(?::([a-z0-9-]+))?(?:\s*\(\s*(<<|<=|=|>=|>>)\s*([^\s()]+)\s*\))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """One package name with an optional `:arch` and an optional version; `operator` is "" without one."""

    name: str
    arch: str = ""
    operator: str = ""
    version: str = ""

    def accepts(self, version: str) -> bool:
        """Whether a package of this name with that version is meant."""
        return not self.operator or satisfies(version, self.operator, self.version)

    def __str__(self) -> str:
        arch = f":{self.arch}" if self.arch else ""
        return f"{self.name}{arch}" + (f" ({self.operator} {self.version})" if self.operator else "")


def parse_relations(text: str, *, owner: str) -> tuple[tuple[Relation, ...], ...]:
    """`a, b (>= 1) | c` -> groups of alternatives; InputError names `owner`, the package that says so."""
    return tuple(
        tuple(_parse(alternative.strip(), owner) for alternative in group.split("|"))
        for group in text.split(",")
        if group.strip()
    )


def _parse(text: str, owner: str) -> Relation:
    match = _RELATION.fullmatch(text)
    if match is None:
        raise InputError(f"package {owner}: cannot read the relation {text[:100]!r}")
    name, arch, operator, version = match.groups(default="")
    return Relation(name=name, arch=arch, operator=operator, version=version)
