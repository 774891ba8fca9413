"""Debian version numbers, compared as dpkg compares them (deb-version(7))."""

from __future__ import annotations

import re
from itertools import zip_longest

_PIECES = re.compile(r"(\D*)(\d*)")
_VALID = re.compile(r"(?:\d+:)?\d[0-9A-Za-z.+~:-]*|[0-9A-Za-z.+~-]+")


def is_version(text: str) -> bool:
    """Whether `text` could be a version; some in the wild do not start with a digit."""
    return _VALID.fullmatch(text) is not None


def compare(left: str, right: str) -> int:
    """Negative, zero or positive, as `left` is older than, equal to or newer than `right`."""
    for mine, other in zip(_split(left), _split(right), strict=True):
        if order := _compare_part(mine, other):
            return order
    return 0


def satisfies(version: str, operator: str, wanted: str) -> bool:
    """Whether `version` is `<<`, `<=`, `=`, `>=` or `>>` the wanted one."""
    order = compare(version, wanted)
    return {
        "<<": order < 0,
        "<=": order <= 0,
        "=": order == 0,
        ">=": order >= 0,
        ">>": order > 0,
    }[operator]


def _split(version: str) -> tuple[str, str, str]:
    """Epoch, upstream version, revision; an absent epoch or revision counts as 0."""
    epoch, colon, rest = version.partition(":")
    if not colon:
        epoch, rest = "0", version
    upstream, dash, revision = rest.rpartition("-")
    return (epoch, upstream, revision) if dash else (epoch, rest, "0")


def _compare_part(left: str, right: str) -> int:
    """Text and numbers by turns: `~` before the end, the end before letters, letters before the rest."""
    pairs = zip_longest(_PIECES.findall(left), _PIECES.findall(right), fillvalue=("", ""))
    for (text, digits), (other_text, other_digits) in pairs:
        mine = (_text_key(text), _number_key(digits))
        other = (_text_key(other_text), _number_key(other_digits))
        if mine != other:
            return -1 if mine < other else 1
    return 0


def _text_key(text: str) -> list[int]:
    return [-1 if char == "~" else ord(char) + (0 if char.isalpha() else 256) for char in text] + [0]


def _number_key(digits: str) -> tuple[int, str]:
    """Orders digit strings as numbers of any length."""
    significant = digits.lstrip("0")
    return len(significant), significant
