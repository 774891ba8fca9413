"""matrix.yaml to a Matrix, or every problem of it at once, each at its line and column."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from trainyard.errors import MatrixError, near
from trainyard.matrix.document import Document, Location, Problem, read_document
from trainyard.matrix.model import Matrix
from trainyard.matrix.references import reference_problems

LARGEST = 1_000_000
SCHEMA_HINT = "an editor shows these while you type: docs/matrix.schema.json"


def load_matrix(path: Path) -> Matrix:
    """The matrix; MatrixError with one `matrix.yaml:LINE:COL: path: what is wrong` a line."""
    document = read_document(_read(path))
    if document.value is None and not document.problems:
        raise MatrixError(f"{path.name} is empty", hint=f"git checkout -- {path.name}")
    problems = list(document.problems)
    matrix = None
    if document.value is not None:
        try:
            matrix = Matrix.model_validate(document.value)
        except ValidationError as error:
            problems += [_problem(document, one) for one in error.errors()]
        problems += _reference_problems(document)
    if problems or matrix is None:
        raise MatrixError("\n".join(_lines(path.name, problems)), hint=SCHEMA_HINT)
    return matrix


def _read(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(LARGEST + 1)
    except FileNotFoundError:
        raise MatrixError(
            f"{path.name} is missing in {path.parent}",
            hint=f"run in the project's folder, or restore it: git checkout -- {path.name}",
        ) from None
    except OSError as error:
        raise MatrixError(f"{path.name} cannot be read: {error.strerror}") from None
    if len(data) > LARGEST:
        raise MatrixError(f"{path.name} is larger than {LARGEST // 1_000_000} MB; that is no matrix")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise MatrixError(f"{path.name}:{line}: not UTF-8", hint="save the file as UTF-8") from None


def _lines(name: str, problems: Sequence[Problem]) -> Iterator[str]:
    """The problems in the order of the file, each once."""
    ordered = sorted(problems, key=lambda one: (one.position.line, one.position.column, one.message))
    for problem in dict.fromkeys(ordered):
        where = f"{name}:{problem.position.line}:{problem.position.column}: "
        yield f"{where}{_dotted(problem.path)}{problem.message}"


def _dotted(path: Location) -> str:
    """`targets.cuda13.2.platforms[0]: `, or nothing for the file itself."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return f"{text.removeprefix('.')}: " if text else ""


def _reference_problems(document: Document) -> Iterator[Problem]:
    for path, message in reference_problems(document.value):
        yield Problem(path, document.position(path), message)


def _problem(document: Document, error: ErrorDetails) -> Problem:
    """One of pydantic's errors in our words, at its place."""
    path = error["loc"]
    is_key = path[-1:] == ("[key]",)
    if is_key:
        path = path[:-1]
    of_key = is_key or error["type"] == "extra_forbidden"
    return Problem(path, document.position(path, of_key=of_key), _message(document, error, path))


def _message(document: Document, error: ErrorDetails, path: Location) -> str:
    written = document.written(path)
    context: Mapping[str, Any] = error.get("ctx") or {}
    match error["type"]:
        case "extra_forbidden":
            return f"there is no such key{near(str(path[-1]), _keys_at(path[:-1]))}"
        case "missing":
            return "is missing"
        case "string_type" if written is not None:
            return f'{written} is no string to YAML; write it in quotes: "{written}"'
        case "literal_error":
            known = re.findall(r"'([^']*)'", str(context.get("expected", "")))
            value = written or repr(error["input"])
            return f"{value} is none of {context.get('expected')}{near(str(error['input']), known)}"
        case "string_pattern_mismatch":
            return f"{error['input']!r} does not match {context.get('pattern')}"
        case "too_short":
            return "is empty"
        case "model_type" | "dict_type":
            return "must be a mapping (`key: value` lines)"
        case "list_type":
            return "must be a list"
    return error["msg"].removeprefix("Value error, ").splitlines()[0]


def _keys_at(path: Location) -> Sequence[str]:
    """The keys that the mapping at `path` may have."""
    annotation: Any = Matrix
    for part in path:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            annotation = annotation.model_fields[str(part)].annotation
        else:
            annotation = get_args(annotation)[-1]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return list(annotation.model_fields)
    return []
