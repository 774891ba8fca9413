"""docs/matrix.schema.json is the model's, and says the same as the loader about this project's matrix.yaml."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from trainyard.matrix.schema import DIALECT, schema_text

ROOT = Path(__file__).parents[1]
SCHEMA: dict[str, Any] = json.loads(schema_text())
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "null": type(None)}
KNOWN = {
    "$defs", "$ref", "$schema", "additionalProperties", "anyOf", "const", "default", "description", "enum",
    "items", "minItems", "minProperties", "pattern", "properties", "propertyNames", "patternProperties",
    "required", "title", "type",
}  # fmt: skip


def violations(value: object, schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """The part of JSON Schema that our schema uses; a keyword that is not known here fails the test."""
    assert set(schema) <= KNOWN, set(schema) - KNOWN
    if "$ref" in schema:
        yield from violations(value, SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]], path)
    if "anyOf" in schema and all(list(violations(value, one, path)) for one in schema["anyOf"]):
        yield f"{path}: none of anyOf"
    if "type" in schema and not isinstance(value, TYPES[schema["type"]]):
        yield f"{path}: not of type {schema['type']}"
        return
    if value not in schema.get("enum", [value]) or schema.get("const", value) != value:
        yield f"{path}: not among the values"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{path}: pattern"
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"{path}: too short"
        for index, item in enumerate(value):
            yield from violations(item, schema.get("items", {}), f"{path}[{index}]")
    if isinstance(value, dict):
        yield from _of_mapping(value, schema, path)


def _of_mapping(value: dict[str, object], schema: dict[str, Any], path: str) -> Iterator[str]:
    yield from (f"{path}.{key}: missing" for key in schema.get("required", []) if key not in value)
    if len(value) < schema.get("minProperties", 0):
        yield f"{path}: too few"
    patterns: dict[str, Any] = schema.get("patternProperties", {})
    for key, item in value.items():
        below = f"{path}.{key}"
        fitting = [one for pattern, one in patterns.items() if re.search(pattern, key)]
        if key in schema.get("properties", {}):
            fitting.append(schema["properties"][key])
        yield from violations(key, schema.get("propertyNames", {}), below)
        other = schema.get("additionalProperties", {})
        if not fitting and other is False:
            yield f"{below}: no such key"
        for one in fitting or ([other] if isinstance(other, dict) else []):
            yield from violations(item, one, below)


def matrix() -> dict[str, Any]:
    loaded: dict[str, Any] = YAML(typ="safe", pure=True).load(ROOT / "matrix.yaml")
    return loaded


def test_the_file_in_docs_is_the_models() -> None:
    """To write it again: the text is trainyard.matrix.schema.schema_text()."""
    assert (ROOT / "docs/matrix.schema.json").read_text("utf-8") == schema_text()


def test_matrix_yaml_leads_editors_to_it() -> None:
    first = (ROOT / "matrix.yaml").read_text("utf-8").splitlines()[0]

    assert first == "# yaml-language-server: $schema=docs/matrix.schema.json"
    assert SCHEMA["$schema"] == DIALECT


def test_matrix_yaml_validates() -> None:
    assert list(violations(matrix(), SCHEMA)) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("targets", "cuda13.2", "pyhton"), "3.13"),
        (("targets", "cuda13.2", "accelerator"), "cudaa"),
        (("bases", "trixie", "python"), 3.1),
        (("bases", "trixie", "python"), "3.9"),
        (("bases", "trixie", "packages"), []),
        (("format",), 2),
    ],
)
def test_an_editor_marks_what_the_loader_refuses(path: tuple[str, ...], value: object) -> None:
    broken = matrix()
    inner = broken
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value

    assert list(violations(broken, SCHEMA))
