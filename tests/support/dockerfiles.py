"""The command in the header of a rendered Dockerfile, as a person would type it."""

from __future__ import annotations

import shlex
from pathlib import Path


def header_command(dockerfile: Path, *, contexts: str, layout: str, extra: tuple[str, ...] = ()) -> list[str]:
    """The words of the command, with `contexts` for DIR and `layout` for `image`; `extra` comes after `build`."""
    lines = [line.removeprefix("#").strip() for line in dockerfile.read_text("utf-8").splitlines()]
    start = next(number for number, line in enumerate(lines) if line.startswith("docker buildx build"))
    text = "\n".join(lines[start : lines.index("", start)])
    words = shlex.split(text.replace("DIR/", f"{contexts}/").replace("dest=image,", f"dest={layout},"))
    return [*words[:3], *extra, *words[3:]]
