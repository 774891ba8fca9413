"""`invoke inventory`: this host, and an image beside it, against what every target needs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter
from rich.table import Table

from trainyard.commands.images import built_image
from trainyard.errors import InputError
from trainyard.inventory.facts import Host, ImageFacts, Inventory, PythonEnvironment, Verdict
from trainyard.inventory.host import look_at
from trainyard.inventory.image import Described, engine_image, layout_image
from trainyard.inventory.judge import judge, needs_of
from trainyard.inventory.machine import this_machine
from trainyard.matrix.model import Target
from trainyard.matrix.schema import DIALECT
from trainyard.oci.layout import read_layout
from trainyard.platforms import Platform
from trainyard.workspace import Workspace

_DOCUMENT: TypeAdapter[Inventory] = TypeAdapter(Inventory)


def host_inventory(workspace: Workspace) -> Inventory:
    """The host, and a verdict for each target of matrix.yaml."""
    host = _host(workspace)
    matrix = workspace.matrix
    targets = [matrix.target(name) for name in sorted(matrix.targets)]
    return Inventory(host=host, verdicts=tuple(judge(needs_of(target), host) for target in targets))


def built_inventory(workspace: Workspace, cells: Sequence[tuple[Target, Platform]]) -> tuple[Inventory, ...]:
    """The images of dist/ that belong to today's plans, each with a verdict for this host."""
    host, found = _host(workspace), []
    for target, platform in cells:
        layout = workspace.project.dist(target.name, platform)
        how = f"invoke build --target {target.name} --platform {platform} --no-smoke"
        image = layout_image(built_image(layout, workspace.plan(target, platform).tag, how))
        found.append(_with(host, image, workspace))
    return tuple(found)


def named_inventory(workspace: Workspace, reference: str) -> tuple[Inventory, ...]:
    """The images of a layout folder, or what the Docker Engine knows by that name."""
    host = _host(workspace)
    if Path(reference, "oci-layout").is_file():
        try:
            images = [layout_image(image) for image in read_layout(Path(reference)).images]
        except OSError as error:
            raise InputError(f"{error.filename}: {error.strerror}", hint="invoke build") from None
        return tuple(_with(host, image, workspace) for image in images)
    # The SDK takes most of a second to import.
    from trainyard.runner.engine import connect

    engine = connect(workspace.settings.environ, otherwise="invoke inventory --image FOLDER")
    try:
        return (_with(host, engine_image(engine.client, reference), workspace),)
    finally:
        engine.client.close()


def _host(workspace: Workspace) -> Host:
    matrix = workspace.matrix
    versions = sorted({matrix.target(name).python for name in matrix.targets})
    return look_at(this_machine(workspace.settings.environ), versions)


def _with(host: Host, image: Described, workspace: Workspace) -> Inventory:
    """GPU families are matrix.yaml's to know; an image of another project's target has none that we know."""
    known = workspace.matrix.targets
    families = workspace.matrix.target(image.facts.target).families if image.facts.target in known else ()
    verdict = judge(replace(image.needs, families=families), host)
    return Inventory(host=host, verdicts=(verdict,), image=image.facts)


def document(inventory: Inventory) -> object:
    """As JSON values; docs/inventory.schema.json describes them."""
    return _DOCUMENT.dump_python(inventory, mode="json")


def schema_text() -> str:
    """The JSON Schema of `document`: docs/inventory.schema.json must hold exactly this."""
    schema = {
        "$schema": DIALECT,
        **_DOCUMENT.json_schema(mode="serialization"),
        "title": "invoke inventory --json",
    }
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


def host_lines(host: Host) -> list[str]:
    """The host for a person."""
    lines = [f"host       {host.platform}, {host.os}, kernel {host.kernel or 'unknown'}"]
    if host.glibc:
        lines[0] += f", glibc {host.glibc}"
    lines += [f"python     {_python(found)}" for found in host.pythons]
    for way in host.ways:
        gpus = ", NVIDIA's devices too" if way.gpus and way.name != "native" else ""
        state = way.problem or f"{way.version or 'works'}{gpus}"
        lines.append(f"runs with  {way.name}: {state}")
    for driver in host.drivers:
        state = (
            " ".join(filter(None, (driver.version, driver.problem and f"({driver.problem})")))
            or "in the kernel"
        )
        lines.append(f"driver     {driver.name} {state}")
    for device in host.accelerators:
        memory = f", {device.memory / (1 << 30):.0f} GiB" if device.memory else ""
        lines.append(
            f"device     {device.name}{f', {device.architecture}' if device.architecture else ''}{memory}"
        )
    if not host.accelerators:
        lines.append("device     no accelerator")
    if host.shm is not None:
        lines.append(f"shm        {host.shm / (1 << 20):,.0f} MiB")
    locked = "unlimited" if host.memlock_unlimited else f"{(host.memlock or 0) / 1024:,.0f} KiB"
    lines.append(f"memlock    {locked}")
    lines += [
        f"RDMA       {port.device}/{port.port} {port.layer}, {port.state}, {port.rate}" for port in host.rdma
    ]
    variables = f"; set: {', '.join(host.nccl.variables)}" if host.nccl.variables else ""
    lines.append(f"NCCL       the {host.nccl.backend} backend{variables}")
    return lines + [f"note       {note}" for note in host.notes]


def image_lines(image: ImageFacts) -> list[str]:
    """An image for a person."""
    glibc = f", glibc {image.glibc}" if image.glibc else ""
    return [
        f"image      {image.target} {image.platform}, {image.digest[:19]}",
        f"           {image.accelerator} {image.toolkit}, {image.os}{glibc}, the {image.nccl.backend} NCCL",
        f"python     {_python(image.python)}",
    ]


def _python(found: PythonEnvironment) -> str:
    wheels = ", ".join(f"{name} {version}" for name, version in found.wheels.items() if _is_shown(name))
    more = len(found.wheels) - sum(map(_is_shown, found.wheels))
    rest = f" and {more} libraries" if more else ""
    return f"{found.whose} {found.version}: {wheels or 'no torch'}{rest}"


def _is_shown(name: str) -> bool:
    return name in ("torch", "torchvision", "triton", "numpy") or "nccl" in name


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    """The verdicts for a person."""
    table = Table("target", "platforms", "runs here", "missing", box=None)
    for verdict in verdicts:
        table.add_row(
            verdict.target,
            ", ".join(verdict.platforms),
            {"yes": "yes", "cpu": "on the CPU", "no": "no"}[verdict.runs],
            "\n".join(map(str, verdict.missing)),
        )
    return table


if __name__ == "__main__":
    print(schema_text(), end="")  # noqa: T201
