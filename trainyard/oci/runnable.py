"""An image in an OCI layout as something to run: its layers, and how its config starts a process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trainyard.errors import InputError
from trainyard.oci.document import Document, parse
from trainyard.oci.layout import LayoutImage, LayoutLayer, read_layout
from trainyard.platforms import Platform


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnableImage:
    """An image in a layout: its manifest digest, its layers from the bottom up, its process, its labels."""

    digest: str
    platform: Platform
    layers: tuple[LayoutLayer, ...]
    env: tuple[tuple[str, str], ...]
    user: str
    working_dir: str
    entrypoint: tuple[str, ...]
    cmd: tuple[str, ...]
    labels: tuple[tuple[str, str], ...] = ()


def read_runnable(layout: Path, platform: Platform) -> RunnableImage:
    """The image whose config says `platform` in an OCI layout folder; its layers are not opened.

    Errors: InputError, naming the file, when the folder is no layout, has no such image, or a manifest or
    config is not what its digest says.
    """
    try:
        images = read_layout(layout).images
    except OSError as error:
        raise InputError(
            f"{error.filename}: {error.strerror}", hint="`invoke build` makes the layout"
        ) from None
    for image in images:
        config = parse(image.config, f"{layout}: config {image.config_digest}")
        if (config.text("os"), config.text("architecture")) == (platform.os, platform.arch):
            return _runnable(image, config, platform)
    raise InputError(f"{layout} holds no image for {platform}", hint="`invoke list` shows what is built")


def _runnable(image: LayoutImage, config: Document, platform: Platform) -> RunnableImage:
    # Docker writes null where there is nothing.
    given = config.child("config").fields if config.fields.get("config") else {}
    absent = {"Env": [], "Entrypoint": [], "Cmd": [], "User": "", "WorkingDir": "", "Labels": {}}
    said = {name: value for name, value in given.items() if value is not None}
    process = Document({**absent, **said}, config.where)
    pairs = (item.partition("=") for item in process.texts("Env"))
    labels = process.child("Labels")
    return RunnableImage(
        digest=image.digest,
        platform=platform,
        layers=image.layers,
        env=tuple((name, value) for name, _, value in pairs),
        user=process.text("User"),
        working_dir=process.text("WorkingDir") or "/",
        entrypoint=tuple(process.texts("Entrypoint")),
        cmd=tuple(process.texts("Cmd")),
        labels=tuple((name, labels.text(name)) for name in labels.fields),
    )
