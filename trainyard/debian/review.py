"""The reviewed tables: what each maintainer script would have done, and how we make it so.

reviewed.toml has, per package and script, the sha256 of the scripts that somebody read, and their effects as
data. A script with another hash stops `invoke lock`, by name, until somebody has read it. Where a suite has a table
of its own (reviewed-forky.toml), its rows stand in front of those: what is read for one suite moves no image of
another.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from trainyard.debian.control import INSTALL_SCRIPTS, Control
from trainyard.digest import sha256_hex
from trainyard.errors import InputError, LockError

if TYPE_CHECKING:
    from trainyard.debian.archive import DebArchive

_FOLDER = Path(__file__).parent
_COMMON = _FOLDER / "reviewed.toml"
_OWN = "reviewed-{}.toml"
_SECTIONS = ("scripts", "triggers", "privileged")


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
    """A table: scripts by (package, script name), triggers that may be activated, privileged files."""

    scripts: Mapping[tuple[str, str], Script]
    triggers: Mapping[str, str]
    privileged: Mapping[str, Privilege]


@functools.cache
def reviewed(suite: str) -> Reviewed:
    """The table of a suite (`trixie`): the common one, behind the suite's own rows if it has any."""
    tables = [parse_reviewed(path.read_text("utf-8")) for path in _files(suite)]
    return Reviewed(
        scripts={key: row for table in tables for key, row in table.scripts.items()},
        triggers={name: why for table in tables for name, why in table.triggers.items()},
        privileged={path: privilege for table in tables for path, privilege in table.privileged.items()},
    )


@functools.cache
def reviewed_sha256(suite: str) -> str:
    """Hex sha256 of what is reviewed for a suite, for keys of what is made from it."""
    return sha256_hex(b"".join(path.read_bytes() for path in _files(suite)))


def reviewed_as(sha256: str) -> Reviewed:
    """The table with that hash; LockError if it has changed since the plan was made."""
    for suite in suites():
        if reviewed_sha256(suite) == sha256:
            return reviewed(suite)
    raise LockError(
        f"no table of reviewed scripts has sha256 {sha256} any more", hint="run the command again"
    )


def suites() -> tuple[str, ...]:
    """The suites with a table of their own, and "" for all others."""
    names = (path.stem.partition("-")[2] for path in _FOLDER.glob(_OWN.format("*")))
    return ("", *sorted(names))


@functools.cache
def privileged() -> Mapping[str, Privilege]:
    """What becomes of each setuid and setgid file, whatever the suite: one path, one answer."""
    return {path: one for suite in suites() for path, one in reviewed(suite).privileged.items()}


def _files(suite: str) -> tuple[Path, ...]:
    own = _FOLDER / _OWN.format(suite)
    return (_COMMON, own) if suite and own.is_file() else (_COMMON,)


def parse_reviewed(text: str) -> Reviewed:
    """One table from its TOML; TypeError or KeyError for keys that it cannot have."""
    table = tomllib.loads(text)
    if unknown := sorted(set(table) - set(_SECTIONS)):
        raise KeyError(unknown[0])
    scripts = {
        (package, name): _script(row)
        for package, rows in table.get("scripts", {}).items()
        for name, row in rows.items()
    }
    privileged = {path: Privilege(**row) for path, row in table.get("privileged", {}).items()}
    return Reviewed(scripts=scripts, triggers=table.get("triggers", {}), privileged=privileged)


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


def problems(deb: DebArchive, *, table: Reviewed) -> list[str]:
    """What of a package nobody has reviewed yet, each by package, script and hash; empty is good."""
    return control_problems(deb.control, table=table)


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


def scripts_of(controls: Sequence[Control], *, table: Reviewed) -> list[Script]:
    """The reviewed scripts that those packages have, by package, in the order in which dpkg runs them."""
    named = sorted(((one.fields.get("Package", "?"), one) for one in controls), key=lambda pair: pair[0])
    return [
        table.scripts[package, name]
        for package, control in named
        for name in INSTALL_SCRIPTS
        if name in control.files and (package, name) in table.scripts
    ]
