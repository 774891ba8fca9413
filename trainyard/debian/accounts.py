"""The users and groups: base-passwd's lists with shadow passwords, and the image's own user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainyard.oci.entry import Entry, file_entry

_SHADOW_GID = 42
# Group 0, so that what group 0 may write is writable for this user and for any uid that a cluster picks.
_USER = "trainyard:x:1000:0:trainyard:/home/trainyard:/bin/bash"
# Last change left out: it would be a date, and says only that no password ever expires.
_SHADOW_TAIL = ":*::0:99999:7:::"


def account_entries(contents: Mapping[str, str], groups: Mapping[str, int]) -> Iterator[Entry]:
    """passwd, group, shadow and gshadow: base-passwd's masters and the added groups (name -> gid)."""
    users = [line.split(":") for line in contents["usr/share/base-passwd/passwd.master"].splitlines()]
    members = [line.split(":") for line in contents["usr/share/base-passwd/group.master"].splitlines()]
    added = sorted(groups.items(), key=lambda group: group[1])
    passwd = [":".join([name, "x", *rest]) for name, _, *rest in users] + [_USER]
    group = [":".join([name, "x", *rest]) for name, _, *rest in members] + [
        f"{name}:x:{gid}:" for name, gid in added
    ]
    gshadow = [f"{name}:*::" for name, *_ in members] + [f"{name}:!::" for name, _ in added]
    yield file_entry("etc/passwd", _lines(passwd))
    yield file_entry("etc/group", _lines(group))
    yield file_entry("etc/shadow", _lines(_shadow(passwd)), mode=0o640, gid=_SHADOW_GID)
    yield file_entry("etc/gshadow", _lines(gshadow), mode=0o640, gid=_SHADOW_GID)


def _shadow(passwd: list[str]) -> list[str]:
    return [line.partition(":")[0] + _SHADOW_TAIL for line in passwd]


def _lines(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
