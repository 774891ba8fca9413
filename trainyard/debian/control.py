"""What a .deb says of itself: control.tar, read whole (deb-control(5), deb-triggers(5))."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from trainyard.errors import InputError

_FIELD = re.compile(r"^([!-9;-~]+):[ \t]*(.*(?:\n[ \t].*)*)", re.MULTILINE)
# Run when a package is first installed (`config` by debconf); the others run when it goes.
INSTALL_SCRIPTS = ("config", "preinst", "postinst")
SCRIPTS = (*INSTALL_SCRIPTS, "prerm", "postrm")


def fields_of(stanza: str) -> dict[str, str]:
    """The fields of one control stanza; continuation lines stay as they are, after a newline."""
    return {name: value.rstrip() for name, value in _FIELD.findall(stanza)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """The stanza as written, and the other members of control.tar by name (scripts, md5sums, conffiles, ...).

    Text that is not UTF-8 keeps its bytes as surrogate escapes.
    """

    stanza: str
    files: Mapping[str, str]

    @property
    def fields(self) -> dict[str, str]:
        """The stanza's fields by name."""
        return fields_of(self.stanza)

    @property
    def conffiles(self) -> tuple[str, ...]:
        """Absolute paths of the configuration files that it ships (not those it only removes on upgrades)."""
        lines = self.files.get("conffiles", "").splitlines()
        return tuple(line for line in lines if line.startswith("/"))

    @property
    def dropped_conffiles(self) -> tuple[str, ...]:
        """Absolute paths of configuration files that an upgrade takes away (`remove-on-upgrade`)."""
        lines = self.files.get("conffiles", "").splitlines()
        return tuple(line.split()[1] for line in lines if line.startswith("remove-on-upgrade "))

    @property
    def install_scripts(self) -> dict[str, str]:
        """The scripts that an installation would have run."""
        return {name: self.files[name] for name in INSTALL_SCRIPTS if name in self.files}

    @property
    def triggers(self) -> tuple[tuple[str, str], ...]:
        """(directive, trigger name) pairs, e.g. `("activate-noawait", "ldconfig")`."""
        lines = (line.partition("#")[0].split() for line in self.files.get("triggers", "").splitlines())
        pairs = [tuple(words) for words in lines if words]
        for words in pairs:
            if len(words) != 2:
                raise InputError(f"bad line in triggers: {' '.join(words)!r}")
        return tuple((words[0], words[1]) for words in pairs)
