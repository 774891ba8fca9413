"""Templates render exactly what they are given, or fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import UndefinedError

from trainyard.errors import TrainyardError
from trainyard.paths import Project
from trainyard.templates import render


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "templates").mkdir()
    return Project(tmp_path)


def test_the_last_newline_stays(project: Project) -> None:
    (project.templates / "t.j2").write_text("a {{ b }}\n")

    assert render(project, "t.j2", b=1) == "a 1\n"


def test_nothing_is_escaped_as_in_html(project: Project) -> None:
    (project.templates / "t.j2").write_text("{{ b }}")

    assert render(project, "t.j2", b='<&">') == '<&">'


def test_lines_with_only_a_statement_leave_no_trace(project: Project) -> None:
    (project.templates / "t.j2").write_text(
        "{% for x in b %}\n  {% if x %}\n{{ x }}\n  {% endif %}\n{% endfor %}\n"
    )

    assert render(project, "t.j2", b=[1, 0, 2]) == "1\n2\n"


def test_a_value_that_is_missing_is_an_error_and_not_an_empty_text(project: Project) -> None:
    (project.templates / "t.j2").write_text("{{ b }}")

    with pytest.raises(UndefinedError):
        render(project, "t.j2")


def test_a_missing_template_is_named(project: Project) -> None:
    with pytest.raises(TrainyardError, match=r"templates/gone.j2 is missing"):
        render(project, "gone.j2")
