"""YAML text to plain values, each with the line and column it was written at.

ruamel's node tree instead of its loaded values: a node keeps the text as written (`3.10`, not 3.1), and no
value is constructed from a tag.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

# Far above any matrix.yaml, far below what aliases of aliases can blow up to.
NODES = 20_000
_TAG = "tag:yaml.org,2002:"
_COLLECTIONS: dict[type[Node], str] = {MappingNode: f"{_TAG}map", SequenceNode: f"{_TAG}seq"}
_PLAIN = frozenset(f"{_TAG}{name}" for name in ("str", "int", "float", "bool", "null", "timestamp"))

Location = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the text; both count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Unquoted:
    """A scalar that YAML reads as a number or a date, as it was written."""

    text: str


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, and where: the path in the document and the position in its text."""

    path: Location
    position: Position
    message: str


@dataclass(slots=True)
class Document:
    """Plain values and positions; `problems` is what YAML allows and this project does not."""

    value: object = None
    problems: list[Problem] = field(default_factory=list)
    keys: dict[Location, Position] = field(default_factory=dict)
    values: dict[Location, Position] = field(default_factory=dict)
    nodes: int = 0

    def position(self, path: Location, *, of_key: bool = False) -> Position:
        """Where the value (or the key) of `path` is, or the nearest place above it that exists."""
        for length in range(len(path), -1, -1):
            known = self.keys if of_key or length < len(path) else self.values
            if found := known.get(path[:length]) or self.values.get(path[:length]):
                return found
        return Position(1, 1)

    def written(self, path: Location) -> str | None:
        """The text of a scalar that YAML does not read as a string."""
        found = self.value
        for part in path:
            try:
                found = found[part]  # type: ignore[index]
            except (KeyError, IndexError, TypeError):
                return None
        match found:
            case Unquoted(text=text):
                return text
            case bool():
                return str(found).lower()
            case int():
                return str(found)
        return None


def read_document(text: str) -> Document:
    """The one document of a YAML 1.2 text; a text that is no YAML gives a single problem and no value."""
    document = Document()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a reused anchor is legal YAML
            node = YAML(typ="rt", pure=True).compose(text)
        if node is not None:
            document.value = _plain(document, node, ())
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = Position(mark.line + 1, mark.column + 1) if mark else Position(1, 1)
        _fail(document, position, _explained(error))
    except YAMLError as error:
        _fail(document, Position(1, 1), str(error).splitlines()[0])
    except RecursionError:
        _fail(document, Position(1, 1), "nested too deeply")
    return document


def _fail(document: Document, position: Position, message: str) -> None:
    document.value = None
    document.problems = [Problem((), position, message)]


def _explained(error: MarkedYAMLError) -> str:
    problem = str(error.problem or "this is not YAML")
    if "\\t" in problem or "\t" in problem:
        return "a tab; YAML is indented with spaces"
    return problem


def _plain(document: Document, node: Node, path: Location) -> object:
    """The value of a node; its position and problems are noted in `document`."""
    position = _position(node)
    document.values[path] = position
    document.nodes += 1
    if document.nodes > NODES:
        raise MarkedYAMLError(problem="too many values (aliases of aliases?)", problem_mark=node.start_mark)
    if str(node.tag) not in (_COLLECTIONS.get(type(node)), *_PLAIN):
        document.problems.append(Problem(path, position, f"the tag {node.tag} means nothing here"))
    if isinstance(node, ScalarNode):
        return _scalar(node)
    if isinstance(node, SequenceNode):
        return [_plain(document, item, (*path, index)) for index, item in enumerate(node.value)]
    return {key: _plain(document, value, (*path, key)) for key, value in _items(document, node, path)}


def _items(document: Document, node: Node, path: Location) -> Iterator[tuple[str, Node]]:
    """The pairs of a mapping whose keys are strings and new; the others become problems."""
    seen: dict[str, Position] = {}
    for key, value in node.value:
        position = _position(key)
        if str(key.tag) == f"{_TAG}merge":
            message = "merge keys (<<) hide where a value comes from; write the keys out"
        elif str(key.tag) != f"{_TAG}str":
            text = f"{key.value}" if isinstance(key, ScalarNode) else "a list or mapping"
            message = f'{text} is no string; write the key in quotes: "{text}"'
        elif key.value in seen:
            message = f"the key is here twice; first in line {seen[key.value].line}"
        else:
            seen[key.value] = position
            document.keys[*path, key.value] = position
            yield key.value, value
            continue
        shown = str(key.value) if isinstance(key, ScalarNode) else "?"
        document.problems.append(Problem((*path, shown), position, message))


def _scalar(node: ScalarNode) -> object:
    text = str(node.value)
    match str(node.tag).removeprefix(_TAG):
        case "null":
            return None
        case "bool":
            return text.lower() in ("true", "yes", "on")
        case "int" if re.fullmatch(r"\d{1,9}", text):
            return int(text)
        case "int" | "float" | "timestamp":
            return Unquoted(text)
    return text


def _position(node: Node) -> Position:
    return Position(node.start_mark.line + 1, node.start_mark.column + 1)
