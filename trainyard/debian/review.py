"""The reviewed table: what each maintainer script would have done, and how we make it so.

reviewed.toml has, per package and script, the sha256 of the scripts that somebody read, and their effects as
data. A script with another hash stops `invoke lock`, by name, until somebody has read it.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from trainyard.debian.control import Control
from trainyard.digest import sha256_hex
from trainyard.errors import InputError

if TYPE_CHECKING:
    from trainyard.debian.archive import DebArchive

_TABLE = Path(__file__).parent / "reviewed.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """One `update-alternatives --install`; `slaves` are (link, name, path)."""

    link: str
    name: str
    path: str
    priority: int
    slaves: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One reviewed script: the hashes that count as it, and what it does on a first installation.

    `touch` are empty files (path -> `MODE UID:GID`), `copies` target <- packaged file, `groups` name -> gid,
    `effects` functions in state.py. `why` says what was read where nothing (more) is done.
    """

    sha256: tuple[str, ...]
    why: str = ""
    directories: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    copies: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    touch: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, int] = field(default_factory=dict)
    alternatives: tuple[Alternative, ...] = ()
    effects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Privilege:
    """What becomes of a setuid or setgid file, and why."""

    keep: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """The table: scripts by (package, script name), triggers that may be activated, privileged files."""

    scripts: Mapping[tuple[str, str], Script]
    triggers: Mapping[str, str]
    privileged: Mapping[str, Privilege]


@functools.cache
def reviewed() -> Reviewed:
    """The table in reviewed.toml."""
    return parse_reviewed(_TABLE.read_text(encoding="utf-8"))


@functools.cache
def reviewed_sha256() -> str:
    """Hex sha256 of the table, for keys of what is made from it."""
    return sha256_hex(_TABLE.read_bytes())


def parse_reviewed(text: str) -> Reviewed:
    """The table from its TOML; TypeError or KeyError for keys that it cannot have."""
    table = tomllib.loads(text)
    scripts = {
        (package, name): _script(row)
        for package, rows in table["scripts"].items()
        for name, row in rows.items()
    }
    privileged = {path: Privilege(**row) for path, row in table["privileged"].items()}
    return Reviewed(scripts=scripts, triggers=table["triggers"], privileged=privileged)


def _script(row: Mapping[str, object]) -> Script:
    fields: dict[str, object] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in row.items()
        if name != "alternatives"
    }
    rows = row.get("alternatives", [])
    assert isinstance(rows, list)
    alternatives = tuple(
        Alternative(**{**each, "slaves": tuple(tuple(slave) for slave in each.get("slaves", ()))})
        for each in rows
    )
    return Script(**fields, alternatives=alternatives)  # type: ignore[arg-type]


def problems(deb: DebArchive, *, table: Reviewed | None = None) -> list[str]:
    """What of a package nobody has reviewed yet, each by package, script and hash; empty is good."""
    return control_problems(deb.control, table=table or reviewed())


def refusals(deb: DebArchive) -> list[str]:
    """Why the image would not take a package's files (an unknown setuid file, an odd directory, ...).

    Reads the whole package, so that `invoke lock` can say what a build would.
    """
    try:
        for _ in deb.entries():
            pass
    except InputError as error:
        return [error.message]
    return []


def control_problems(control: Control, *, table: Reviewed) -> list[str]:
    """The same, of its control files alone."""
    package = control.fields.get("Package", "?")
    found = []
    for name, text in sorted(control.install_scripts.items()):
        digest = sha256_hex(text.encode("utf-8", "surrogateescape"))
        script = table.scripts.get((package, name))
        if script is None or digest not in script.sha256:
            was = "is new" if script is None else "has changed"
            found.append(f"{package}: its {name} script {was}, and nobody has reviewed it: sha256 {digest}")
    for directive, trigger in control.triggers:
        if directive.startswith("activate") and trigger not in table.triggers:
            found.append(f"{package}: activates the trigger {trigger}, which nobody has reviewed")
    return found


def scripts_of(packages: Sequence[str], *, table: Reviewed) -> list[Script]:
    """The reviewed scripts of those packages, by package, in the order in which dpkg runs them."""
    order = {"config": 0, "preinst": 1, "postinst": 2}
    keys = [key for key in table.scripts if key[0] in set(packages)]
    return [table.scripts[key] for key in sorted(keys, key=lambda key: (key[0], order[key[1]]))]
