"""Which packages an image needs: the closure over Depends, and whether they can live together. Pure.

No backtracking: within one release the newest version of each package, the first alternative and the
first provider fit together, and where they do not, the answer is an error that says who wants what.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from trainyard.debian.index import Package
from trainyard.debian.relations import Relation, parse_relations
from trainyard.debian.version import compare
from trainyard.errors import LockError

_PRIORITIES = ("required", "important", "standard", "optional", "extra")
_ESSENTIAL, _ASKED = "(essential)", "(asked for)"  # reasons that are no package names
_Group = tuple[Relation, ...]  # alternatives, any of which will do


@dataclass(frozen=True, slots=True, kw_only=True)
class Closure:
    """Everything that is needed, sorted by name; `reasons` says which package brought each in."""

    packages: tuple[Package, ...]
    reasons: Mapping[str, str]

    def chain(self, name: str) -> str:
        """`git -> perl -> libperl5.40`: how `name` came in, from what was asked for."""
        return _chain(name, self.reasons)


def solve(packages: Iterable[Package], wanted: Sequence[str], *, arch: str) -> Closure:
    """The closure of every essential package and of `wanted` over Pre-Depends and Depends.

    `packages` may hold several suites in any order: the newest version of a name counts. LockError lists
    every name that cannot be satisfied, or every pair that conflicts, with the chains that lead there.
    """
    search = _Search(_Universe(packages, arch=arch))
    search.run(wanted)
    closure = Closure(
        packages=tuple(package for _, package in sorted(search.chosen.items())), reasons=search.reasons
    )
    if conflicts := list(_conflicts(closure, arch)):
        raise LockError("packages cannot be installed together:\n  " + "\n  ".join(conflicts))
    return closure


class _Universe:
    """The newest version of every package, and who provides which name."""

    def __init__(self, packages: Iterable[Package], *, arch: str) -> None:
        self.arch = arch
        self.packages: dict[str, Package] = {}
        for package in packages:
            other = self.packages.get(package.name)
            if package.arch in (arch, "all") and (other is None or _is_newer(package, other)):
                self.packages[package.name] = package
        self._providers: dict[str, list[tuple[Package, Relation]]] = {}
        for package in self.packages.values():
            for provided in _provided(package):
                self._providers.setdefault(provided.name, []).append((package, provided))

    def candidates(self, relation: Relation) -> list[Package]:
        """Who satisfies a relation: the package of that name, then providers by priority and name."""
        if relation.arch not in ("", "any", self.arch):
            return []
        real = self.packages.get(relation.name)
        found = [real] if real is not None and relation.accepts(real.version) else []
        providers = {
            package.name: package
            for package, provided in self._providers.get(relation.name, ())
            if package is not real and _provides(provided, relation)
        }
        return found + sorted(providers.values(), key=lambda package: (_rank(package), package.name))

    def explain(self, relation: Relation) -> str:
        """Why nobody satisfies `relation`."""
        real = self.packages.get(relation.name)
        if real is not None:
            return f"{relation}, and the release has {real.name} {real.version}"
        close = get_close_matches(relation.name, self.packages, n=1)
        return f"{relation}, which the release does not have" + (
            f" (did you mean {close[0]}?)" if close else ""
        )


@dataclass(slots=True)
class _Search:
    """The packages chosen so far, and who brought each in."""

    universe: _Universe
    chosen: dict[str, Package] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def run(self, wanted: Sequence[str]) -> None:
        """Take what has no choice first, then the open choices one by one, so that fewer have to be made."""
        todo = deque(self._roots(wanted))
        choices: deque[tuple[Package, _Group]] = deque()
        while todo or choices:
            if not todo:
                todo.extend(self._take(*choices.popleft()))
                continue
            package = todo.popleft()
            for group in _dependencies(package):
                if len(self._candidates(group)) > 1:
                    choices.append((package, group))
                else:
                    todo.extend(self._take(package, group))
        if self.problems:
            raise LockError(
                "the packages of a base cannot be resolved:\n  " + "\n  ".join(self.problems),
                hint="correct `packages` of that base in matrix.yaml",
            )

    def _roots(self, wanted: Sequence[str]) -> Iterator[Package]:
        essential = {name for name, package in self.universe.packages.items() if package.is_essential}
        for name in sorted(essential | set(wanted)):
            package = self.universe.packages.get(name)
            if package is None:
                self.problems.append(f"matrix.yaml asks for {self.universe.explain(Relation(name=name))}")
                continue
            self.chosen[name] = package
            self.reasons[name] = _ASKED if name in set(wanted) else _ESSENTIAL
            yield package

    def _take(self, package: Package, group: _Group) -> list[Package]:
        """The package that satisfies `group` if it is a new one: one already chosen wins, else the first."""
        candidates = self._candidates(group)
        if not candidates:
            wants = " | ".join(self.universe.explain(relation) for relation in group)
            self.problems.append(f"{_chain(package.name, self.reasons)} needs {wants}")
            return []
        if any(candidate.name in self.chosen for candidate in candidates):
            return []
        first = candidates[0]
        self.chosen[first.name] = first
        self.reasons[first.name] = package.name
        return [first]

    def _candidates(self, group: _Group) -> list[Package]:
        return [package for relation in group for package in self.universe.candidates(relation)]


def _is_newer(package: Package, other: Package) -> bool:
    """Whether `package` replaces `other` of the same name; suites that hold the same version tie by path."""
    order = compare(package.version, other.version)
    return order > 0 or (order == 0 and package.path.split("/") < other.path.split("/"))


def _rank(package: Package) -> int:
    return _PRIORITIES.index(package.priority) if package.priority in _PRIORITIES else len(_PRIORITIES)


def _dependencies(package: Package) -> tuple[_Group, ...]:
    texts = (package.pre_depends, package.depends)
    return tuple(group for text in texts for group in parse_relations(text, owner=package.name))


def _provided(package: Package) -> Iterator[Relation]:
    for group in parse_relations(package.provides, owner=package.name):
        yield from group


def _provides(provided: Relation, relation: Relation) -> bool:
    """Whether a Provides entry satisfies a relation to its name: a versioned one needs a versioned entry."""
    return not relation.operator or (provided.operator == "=" and relation.accepts(provided.version))


def _chain(name: str, reasons: Mapping[str, str]) -> str:
    """From what was asked for down to `name`; a package's reason was chosen before it, so this ends."""
    names = [name]
    while (reason := reasons[names[-1]]) not in (_ASKED, _ESSENTIAL):
        names.append(reason)
    return " -> ".join([*reversed(names)]) + ("" if reason == _ASKED else " (essential)")


def _conflicts(closure: Closure, arch: str) -> Iterator[str]:
    """One line for every chosen package that another chosen one does not bear."""
    providers: dict[str, list[tuple[Package, Relation]]] = {}
    for package in closure.packages:
        itself = Relation(name=package.name, operator="=", version=package.version)
        for provided in (itself, *_provided(package)):
            providers.setdefault(provided.name, []).append((package, provided))
    for package in closure.packages:
        for relation in _refused(package):
            if relation.arch not in ("", "any", arch):
                continue
            for other, provided in providers.get(relation.name, ()):
                if other is not package and _provides(provided, relation):
                    chains = f"{closure.chain(package.name)}; {closure.chain(other.name)}"
                    rival = f"{other.name} {other.version}"
                    yield f"{package.name} {package.version} refuses {relation}: {rival} ({chains})"


def _refused(package: Package) -> Iterator[Relation]:
    """Conflicts and Breaks."""
    for text in (package.conflicts, package.breaks):
        for group in parse_relations(text, owner=package.name):
            yield from group
