"""Which member names may become paths in an image."""

from __future__ import annotations

import re

_SUSPECT = re.compile(r"[\\\x00-\x1f\x7f]|(?:^|/)(?:/|$|\.\.?(?:/|$)|\.wh\.)")
_LONGEST_NAME = 255  # bytes, of one component: NAME_MAX
_LONGEST_PATH = 2048  # bytes; PATH_MAX is 4096, and a container's storage puts a prefix before it


def path_problem(path: str) -> str:
    """What is wrong with a relative path from a wheel; empty for a good one."""
    if len(path) <= _LONGEST_NAME and path.isascii() and not _SUSPECT.search(path):
        return ""  # every path of an ordinary wheel leaves here
    parts = path.split("/")
    if path.startswith("/"):
        return "is an absolute path"
    if ".." in parts:
        return "escapes the environment"
    if "\\" in path:
        return "has a backslash in its name"
    if re.search(r"[\x00-\x1f\x7f]", path):
        return "has a control character in its name"
    if "" in parts or "." in parts:
        return "has an empty component"
    if any(part.startswith(".wh.") for part in parts):
        return "would be a whiteout in an image"
    if max(len(part.encode()) for part in parts) > _LONGEST_NAME or len(path.encode()) > _LONGEST_PATH:
        return "is too long a name"
    return ""


def parents(path: str) -> list[str]:
    """Every folder above `path`, the nearest first."""
    found = []
    while path := path.rpartition("/")[0]:
        found.append(path)
    return found
