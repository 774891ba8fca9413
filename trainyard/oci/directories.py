"""The one table of directory attributes, used by every layer.

A later layer's directory entry replaces an earlier one's attributes (OCI image-spec, layer.md), so two layers
must never disagree; they ask here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attributes:
    """Permission bits and numeric owner of a directory."""

    mode: int
    uid: int = 0
    gid: int = 0


DEFAULT = Attributes(0o755)
# Group 0 may write here, so that any uid in group 0 can (the image's user, OpenShift's random ones).
GROUP_WRITABLE = Attributes(0o775)
HOME = Attributes(0o775, 1000, 0)

_EXACT = {
    "home/trainyard": HOME,
    "root": Attributes(0o700),
    "tmp": Attributes(0o1777),
    "var/tmp": Attributes(0o1777),
    "run/lock": Attributes(0o1777),
    "etc/ssl/private": Attributes(0o700),
    "var/cache/ldconfig": Attributes(0o700),
    "var/mail": Attributes(0o2775, 0, 8),
    # 42 is _apt: apt downloads as that user.
    "var/cache/apt/archives/partial": Attributes(0o700, 42, 0),
    "var/lib/apt/lists/partial": Attributes(0o700, 42, 0),
    "var/log/apt": DEFAULT,
}
_TREES = {"opt/venv": GROUP_WRITABLE}


def attributes_of(path: str) -> Attributes:
    """The attributes that the directory `path` (no leading slash) has in every layer."""
    if path in _EXACT:
        return _EXACT[path]
    for tree, attributes in _TREES.items():
        if path == tree or path.startswith(f"{tree}/"):
            return attributes
    return DEFAULT
