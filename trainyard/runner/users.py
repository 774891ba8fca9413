"""An image's `User` as numbers, read from the image's own passwd and group files as engines do."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from trainyard.errors import RunnerError

_MAX_FILE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Who runs, and the home folder that passwd gives them."""

    uid: int
    gid: int
    home: str


def resolve_user(text: str, root: Path) -> User:
    """`uid`, `uid:gid`, `name`, `name:group` or empty (root); RunnerError for a name that the image lacks."""
    who, _, group = text.partition(":")
    rows = _rows(root, "passwd", 7)
    row = next((row for row in rows if who in (row[0], row[2])), None)
    if not who:
        row = next((row for row in rows if row[2] == "0"), None)
    if row is None and who and not who.isdecimal():
        raise RunnerError(f"the image has no user {who!r}", hint="give numbers, uid:gid")
    uid = int(row[2]) if row else int(who or 0)
    return User(
        uid=uid, gid=_gid(group, root) if group else int(row[3]) if row else 0, home=row[5] if row else "/"
    )


def _gid(group: str, root: Path) -> int:
    if group.isdecimal():
        return int(group)
    for row in _rows(root, "group", 4):
        if row[0] == group:
            return int(row[2])
    raise RunnerError(f"the image has no group {group!r}", hint="give numbers, uid:gid")


def _rows(root: Path, name: str, fields: int) -> list[list[str]]:
    """Well-formed rows of /etc/<name>; a symbolic link is not followed, it would lead out of the image."""
    try:
        if (root / "etc").is_symlink():
            return []
        handle = os.open(root / "etc" / name, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return []
    with open(handle, encoding="utf-8", errors="replace") as stream:  # noqa: PTH123
        rows = [line.split(":") for line in stream.read(_MAX_FILE).splitlines()]
    return [
        row
        for row in rows
        if len(row) == fields and row[2].isdecimal() and (fields < 7 or row[3].isdecimal())
    ]
