"""The command in the header of a rendered Dockerfile, as a person would type it."""

from __future__ import annotations

from pathlib import Path


def header_command(dockerfile: Path, *, contexts: str, layout: str, extra: str = "") -> str:
    """The command as a shell takes it, with `contexts` for DIR and `layout` for `image`; `extra` are more options."""
    lines = [line.removeprefix("#").strip() for line in dockerfile.read_text("utf-8").splitlines()]
    start = next(number for number, line in enumerate(lines) if line.startswith("docker buildx build"))
    text = "\n".join(lines[start : lines.index("", start)])
    text = text.replace("DIR/", f"{contexts}/").replace("dest=image,", f"dest={layout},")
    return text.replace("docker buildx build", f"docker buildx build {extra}".strip(), 1)
