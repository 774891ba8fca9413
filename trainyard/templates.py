"""Jinja2 for everything that is written from a template: locks and Dockerfiles."""

from __future__ import annotations

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateNotFound

from trainyard.errors import TrainyardError
from trainyard.paths import Project


def render(project: Project, name: str, **values: object) -> str:
    """The text of `templates/<name>` with those values; a value that the template misses is an error."""
    environment = Environment(
        loader=FileSystemLoader(project.templates),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - no HTML is written here
    )
    try:
        template = environment.get_template(name)
    except TemplateNotFound:
        raise TrainyardError(
            f"{project.relative(project.templates / name)} is missing",
            hint=f"git checkout -- templates/{name}",
        ) from None
    return template.render(values)
