"""The images in dist/, for commands that look at what was built."""

from __future__ import annotations

from pathlib import Path

from trainyard.errors import InputError, TrainyardError
from trainyard.oci.document import parse
from trainyard.oci.layout import LayoutImage, read_layout

_VERSION = "org.opencontainers.image.version"


def built_image(folder: Path, tag: str, command: str) -> LayoutImage:
    """The image in a layout folder, which must be of this very plan; else an error whose hint is `command`."""
    try:
        image = read_layout(folder).images[0]
    except (OSError, IndexError):
        raise TrainyardError(f"there is no image in {folder}", hint=command) from None
    labels = parse(image.config, f"{folder}, config").child("config").child("Labels")
    if labels.text(_VERSION) != tag:
        raise InputError(f"{folder} holds {labels.text(_VERSION)}, and the plan is {tag}", hint=command)
    return image
