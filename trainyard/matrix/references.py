"""What one part of matrix.yaml says about another: names that must exist, choices that exclude each other.

Works on plain values, so that these problems are told together with the ones of types and keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from trainyard.errors import near
from trainyard.matrix.document import Location

Found = Iterator[tuple[Location, str]]


def reference_problems(document: object) -> Found:
    """Location and message of everything that contradicts another part of the file."""
    targets = _mapping(document, "targets")
    default = _mapping(document, "defaults").get("target")
    if isinstance(default, str) and default not in targets:
        yield ("defaults", "target"), f"there is no target {default!r}{near(default, targets)}"
    for name in targets:
        yield from _target_problems(("targets", name), _mapping(targets, name), document)


def _target_problems(path: Location, target: Mapping[str, object], document: object) -> Found:
    for key, known in (("base", _mapping(document, "bases")), ("index", _mapping(document, "indexes"))):
        name = target.get(key)
        if isinstance(name, str) and name not in known:
            yield (*path, key), f"there is no {key} {name!r}{near(name, known)}"
    sets = _mapping(document, "sets")
    yield from _platform_problems(path, target)
    yield from _base_problems(path, target)
    yield from _index_problems(path, target)
    chosen = list(_strings(target, "sets"))
    for index, name in chosen:
        if name not in sets:
            yield (*path, "sets", index), f"there is no set {name!r}{near(name, sets)}"
    yield from _repeated((*path, "sets"), chosen)
    yield from _pin_problems(path, dict.fromkeys(name for _, name in chosen), sets)
    for key, text in _mapping(target, "requires").items():
        if isinstance(text, str) and not _is_specifier(text):
            yield (*path, "requires", key), f'{text!r} is no version specifier; write e.g. ">=580"'


def _platform_problems(path: Location, target: Mapping[str, object]) -> Found:
    platforms = list(_strings(target, "platforms"))
    yield from _repeated((*path, "platforms"), platforms)
    accelerator = target.get("accelerator")
    for index, platform in platforms:
        where = (*path, "platforms", index)
        if accelerator == "mps" and platform.startswith("linux/"):
            yield where, "Metal does not exist on Linux: an mps target has darwin/arm64 only"
        if accelerator not in ("mps", None) and platform.startswith("darwin/"):
            yield where, f"darwin is for mps targets only, and this one is for {accelerator}"


def _base_problems(path: Location, target: Mapping[str, object]) -> Found:
    """Linux stands on Debian, which brings its Python; macOS brings itself."""
    platforms = [text for _, text in _strings(target, "platforms")]
    linux = [text for text in platforms if text.startswith("linux/")]
    if linux and "base" not in target:
        yield path, f"{linux[0]} needs a base: name one of `bases`"
    if "base" in target and "python" in target:
        yield (*path, "python"), "the base says which Python; remove this"
    if platforms and not linux:
        if "base" in target:
            yield (*path, "base"), "macOS has no Debian underneath; remove this"
        if "python" not in target:
            yield path, 'without a base nothing says which Python; write e.g. python: "3.13"'


def _index_problems(path: Location, target: Mapping[str, object]) -> Found:
    companions = list(_strings(target, "companions"))
    yield from _repeated((*path, "companions"), companions)
    if "index" in target and not companions:
        yield (*path, "index"), "nothing comes from it: list `companions`, torch first"
    if companions and "index" not in target:
        yield (*path, "companions"), "from which index? name one of `indexes`"
    families = list(_strings(target, "families"))
    yield from _repeated((*path, "families"), families)
    if target.get("accelerator") == "rocm" and not families:
        yield path, "ROCm's libraries come by GPU family; write e.g. families: [gfx942]"
    if families and target.get("accelerator") not in ("rocm", None):
        yield (*path, "families"), "only ROCm has GPU families"


def _repeated(path: Location, items: Sequence[tuple[int, str]]) -> Found:
    seen: set[str] = set()
    for index, text in items:
        if text in seen:
            yield (*path, index), f"{text!r} is here twice"
        seen.add(text)


def _pin_problems(path: Location, chosen: Iterable[str], sets: Mapping[str, object]) -> Found:
    """Requirements of one target that no version can satisfy together: the later one is told."""
    before: dict[tuple[str, str], list[tuple[str, Requirement]]] = {}
    for name in chosen:
        for index, text in _strings(sets, name):
            requirement = _requirement(text)
            if requirement is None:
                continue
            key = (canonicalize_name(requirement.name), str(requirement.marker or ""))
            for other_set, other in before.get(key, []):
                if _excludes(requirement, other) or _excludes(other, requirement):
                    yield (
                        ("sets", name, index),
                        f"{text!r} contradicts {str(other)!r} of set {other_set!r}; {path[-1]} wants both",
                    )
            before.setdefault(key, []).append((name, requirement))


def _excludes(one: Requirement, other: Requirement) -> bool:
    """Whether `other` forbids the exact version that `one` pins."""
    pins = [
        spec.version for spec in one.specifier if spec.operator == "==" and not spec.version.endswith(".*")
    ]
    return any(not other.specifier.contains(Version(pin), prereleases=True) for pin in pins)


def _requirement(text: str) -> Requirement | None:
    try:
        return Requirement(text)
    except InvalidRequirement:
        return None


def _is_specifier(text: str) -> bool:
    try:
        return bool(str(SpecifierSet(text)))
    except InvalidSpecifier:
        return False


def _mapping(value: object, key: str) -> Mapping[str, object]:
    """The mapping at `key`, or an empty one when something else is there."""
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _strings(value: Mapping[str, object], key: str) -> Iterator[tuple[int, str]]:
    """The strings of the list at `key`, with their index."""
    found = value.get(key)
    if isinstance(found, list):
        yield from ((index, item) for index, item in enumerate(found) if isinstance(item, str))
