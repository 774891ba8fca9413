"""Scripts in bin: launchers of entry points, and `#!python` first lines (PyPA: Entry points, Wheel)."""

from __future__ import annotations

import configparser
import re
from dataclasses import dataclass

from installer.utils import parse_entrypoints

PLACEHOLDER = b"#!python"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
# The guard matters: `multiprocessing` imports the main script again in every spawned worker.
_LAUNCHER = """\
#!{interpreter}
import sys

from {module} import {imported}

if __name__ == "__main__":
    sys.exit({attribute}())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPoint:
    """A command: the name in bin, the module to import and the attribute to call (dotted)."""

    name: str
    module: str
    attribute: str

    def launcher(self, interpreter: str) -> bytes:
        """The script that runs it under the Python at `interpreter`."""
        imported = self.attribute.split(".")[0]
        return _LAUNCHER.format(
            interpreter=interpreter, module=self.module, imported=imported, attribute=self.attribute
        ).encode()


def parse_entry_points(data: bytes) -> tuple[list[EntryPoint], list[str]]:
    """entry_points.txt -> the commands of [console_scripts] and [gui_scripts], and what is wrong with it."""
    try:
        found = list(parse_entrypoints(data.decode()))
    except (UnicodeDecodeError, configparser.Error, AssertionError, AttributeError) as error:
        # The parser asserts that a command is `module:attribute`.
        return [], [f"entry_points.txt cannot be read: {error or 'a command is not module:attribute'}"]
    commands = [
        EntryPoint(name=name, module=module, attribute=attribute) for name, module, attribute, _ in found
    ]
    problems = [
        f"entry_points.txt: {command.name!r} = {command.module}:{command.attribute} cannot become a script"
        for command in commands
        if not _NAME.fullmatch(command.name)
        or not all(part.isidentifier() for part in f"{command.module}.{command.attribute}".split("."))
    ]
    names = [command.name for command in commands]
    problems += [
        f"entry_points.txt: {name!r} is both a console and a gui script" for name in _repeated(names)
    ]
    return commands, problems


def with_interpreter(script: bytes, interpreter: str) -> bytes:
    """A script with its placeholder first line (`#!python`, `#!pythonw`) replaced; others stay."""
    if not script.startswith(PLACEHOLDER):
        return script
    _, newline, rest = script.partition(b"\n")
    return b"#!" + interpreter.encode() + (newline or b"\n") + rest


def _repeated(names: list[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})
