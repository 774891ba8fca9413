"""Launchers of entry points, and `#!python` first lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trainyard.wheels.launchers import EntryPoint, parse_entry_points, with_interpreter

PYTHON = "/opt/venv/bin/python"


def test_console_and_gui_scripts_are_commands_and_other_groups_are_not() -> None:
    text = (
        b"[console_scripts]\na = m.n:f\n[gui_scripts]\nb=m:C.run [extra]\n[my.plugins]\nc = not a command\n"
    )

    assert parse_entry_points(text) == (
        [
            EntryPoint(name="a", module="m.n", attribute="f"),
            EntryPoint(name="b", module="m", attribute="C.run"),
        ],
        [],
    )


def test_names_keep_their_case() -> None:
    commands, _ = parse_entry_points(b"[console_scripts]\nMyTool = m:f\n")

    assert [command.name for command in commands] == ["MyTool"]


@pytest.mark.parametrize(
    "text",
    [
        b"a = m:f\n",  # no section
        b"[console_scripts]\na = m\n",  # nothing to call
        b"[console_scripts]\na = m:f\na = m:g\n",  # twice
        b"[console_scripts]\na\n",
        b"[console_scripts]\na = %(x)s:f\n",
        b"\xff\xfe",
    ],
)
def test_an_unreadable_file_is_a_problem_and_never_a_crash(text: bytes) -> None:
    commands, problems = parse_entry_points(text)

    assert commands == []
    assert len(problems) == 1
    assert problems[0].startswith("entry_points.txt cannot be read")


@pytest.mark.parametrize(
    "line", ["../sh = m:f", "a/b = m:f", ".profile = m:f", "a b = m:f", "-x = m:f", "a = m..n:f", "a = 1m:f"]
)
def test_a_command_that_cannot_be_a_script_in_bin_is_named(line: str) -> None:
    _, problems = parse_entry_points(f"[console_scripts]\n{line}\n".encode())

    assert len(problems) == 1
    assert "cannot become a script" in problems[0]


def test_one_name_for_a_console_and_a_gui_script_is_a_problem() -> None:
    _, problems = parse_entry_points(b"[console_scripts]\na = m:f\n[gui_scripts]\na = m:g\n")

    assert problems == ["entry_points.txt: 'a' is both a console and a gui script"]


def test_no_entry_points_is_no_problem() -> None:
    assert parse_entry_points(b"") == ([], [])


def test_a_launcher_calls_the_attribute_and_exits_with_what_it_returns(tmp_path: Path) -> None:
    (tmp_path / "mod.py").write_text("class C:\n    @staticmethod\n    def run():\n        return 7\n")
    script = tmp_path / "tool"
    script.write_bytes(EntryPoint(name="tool", module="mod", attribute="C.run").launcher(sys.executable))

    done = subprocess.run([sys.executable, str(script)], env={"PYTHONPATH": str(tmp_path)}, check=False)

    assert done.returncode == 7


def test_importing_a_launcher_runs_nothing(tmp_path: Path) -> None:
    """multiprocessing's spawn imports the main script again in every worker."""
    (tmp_path / "mod.py").write_text("def run():\n    raise SystemExit(7)\n")
    (tmp_path / "tool.py").write_bytes(
        EntryPoint(name="tool", module="mod", attribute="run").launcher(PYTHON)
    )

    done = subprocess.run(
        [sys.executable, "-c", "import tool"], env={"PYTHONPATH": str(tmp_path)}, check=False
    )

    assert done.returncode == 0


def test_a_launcher_starts_with_the_image_s_interpreter() -> None:
    launcher = EntryPoint(name="a", module="m", attribute="f").launcher(PYTHON)

    assert launcher.startswith(b"#!/opt/venv/bin/python\n")


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (b"#!python\nx\n", b"#!/opt/venv/bin/python\nx\n"),
        (b"#!pythonw\nx\n", b"#!/opt/venv/bin/python\nx\n"),
        (b"#!python\r\nx\r\n", b"#!/opt/venv/bin/python\nx\r\n"),
        (b"#!python", b"#!/opt/venv/bin/python\n"),
        (b"#!/bin/sh\nx\n", b"#!/bin/sh\nx\n"),
        (b"#!/usr/bin/env python\n", b"#!/usr/bin/env python\n"),
        (b"\x7fELF", b"\x7fELF"),
        (b" #!python\n", b" #!python\n"),
        (b"", b""),
    ],
)
def test_only_the_placeholder_first_line_is_replaced(script: bytes, expected: bytes) -> None:
    assert with_interpreter(script, PYTHON) == expected
