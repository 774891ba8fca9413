"""JSON documents that somebody else wrote, read with a bounded size and typed getters that name the file."""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trainyard.digest import hex_of
from trainyard.errors import InputError

# The distribution spec lets registries refuse manifests over 4 MiB.
MAX_JSON = 4 << 20
HINT = "`invoke build` writes the layout again"


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON object and where it stands, for messages; every getter raises InputError for another type."""

    fields: Mapping[str, object]
    where: str

    def text(self, name: str) -> str:
        """A string that must be there."""
        value = self.fields.get(name)
        if not isinstance(value, str):
            raise self.wrong(name, "a string")
        return value

    def number(self, name: str) -> int:
        """An integer from 0 up that must be there."""
        value = self.fields.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.wrong(name, "a number")
        return value

    def child(self, name: str) -> Document:
        """An object that must be there."""
        return self._document(self.fields.get(name), name)

    def children(self, name: str) -> list[Document]:
        """A list of objects that must be there."""
        return [self._document(item, name) for item in self._list(name)]

    def texts(self, name: str) -> list[str]:
        """A list of strings that must be there."""
        texts = [item for item in self._list(name) if isinstance(item, str)]
        if len(texts) != len(self._list(name)):
            raise self.wrong(name, "a list of strings")
        return texts

    def digest(self, name: str = "digest") -> str:
        """A `sha256:<hex>` that must be there."""
        value = self.text(name)
        try:
            hex_of(value)
        except ValueError as error:
            raise InputError(f"{self.where}: {name}: {error}", hint=HINT) from None
        return value

    def wrong(self, name: str, expected: str) -> InputError:
        """The error for a field that is missing or of another type."""
        return InputError(f"{self.where}: {name!r} is not {expected}", hint=HINT)

    def _list(self, name: str) -> list[object]:
        value = self.fields.get(name)
        if not isinstance(value, list):
            raise self.wrong(name, "a list")
        return value

    def _document(self, value: object, name: str) -> Document:
        if not isinstance(value, dict):
            raise self.wrong(name, "an object")
        return Document(value, self.where)


def read_bounded(path: Path) -> bytes:
    """The bytes of a small regular file; InputError when it is another thing or too large, or OSError."""
    if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for ever
        raise InputError(f"{path} is not a regular file", hint=HINT)
    with path.open("rb") as stream:
        data = stream.read(MAX_JSON + 1)
    if len(data) > MAX_JSON:
        raise InputError(f"{path} is larger than any manifest or config ({MAX_JSON} bytes)", hint=HINT)
    return data


def parse(data: bytes, where: str) -> Document:
    """The JSON object in `data`; InputError for anything else."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is not JSON: {error}", hint=HINT) from None
    if not isinstance(value, dict):
        raise InputError(f"{where} is not a JSON object", hint=HINT)
    return Document(value, where)
