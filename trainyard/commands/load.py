"""`invoke load`: the images of dist/ into the engine of this host, under the name of their plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainyard.commands.display import Display
from trainyard.errors import TrainyardError, UsageError, near
from trainyard.matrix.model import Target
from trainyard.platforms import Platform
from trainyard.runner.archive import ImageStore, find_loadable
from trainyard.workspace import Workspace

ENGINES = ("docker", "podman")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """An image that an engine has: `name` is what to run, `image_id` what the engine calls it.

    `streamed` is False when it was there already.
    """

    target: str
    platform: str
    engine: str
    name: str
    digest: str
    image_id: str
    streamed: bool
    seconds: float


def known_store(name: str) -> str:
    """One of ENGINES; UsageError otherwise."""
    if name not in ENGINES:
        raise UsageError(
            f"unknown engine {name!r}{near(name, ENGINES)}", hint=f"--into is {' or '.join(ENGINES)}"
        )
    return name


def load_all(
    workspace: Workspace, cells: Sequence[tuple[Target, Platform]], engine: str, display: Display
) -> tuple[Loaded, ...]:
    """Load each image into `docker` or `podman`; one that is there already is only named.

    Errors: UsageError for another engine, RunnerError when it does not answer, TrainyardError for an image that
    is not built.
    """
    found = _find(engine, workspace)
    return tuple(_load(workspace, target, platform, found, display) for target, platform in cells)


def _find(name: str, workspace: Workspace) -> ImageStore:
    environ = workspace.settings.environ
    # Each is imported only when asked for: the docker SDK takes most of a second.
    if known_store(name) == "docker":
        from trainyard.runner.engine import connect

        return connect(environ, otherwise="invoke load --into podman")
    from trainyard.runner.podman_cli import Podman

    return Podman.find(environ)


def _load(
    workspace: Workspace, target: Target, platform: Platform, engine: ImageStore, display: Display
) -> Loaded:
    layout = workspace.project.dist(target.name, platform)
    if not layout.is_dir():
        raise TrainyardError(
            f"{workspace.project.relative(layout)} is not there: {target.name} {platform} is not built",
            hint=f"invoke build --target {target.name} --platform {platform}",
        )
    loadable = find_loadable(layout, platform, repository=target.name, zstd=engine.reads_zstd)
    start = workspace.clock()
    with display.moving(f"load {loadable.name}", loadable.size) as on_bytes:
        streamed = engine.load(loadable, on_bytes=on_bytes)
    seconds = round(workspace.clock() - start, 1)
    how = f"loaded in {seconds} s" if streamed else "was there"
    display.say(f"{target.name} {platform}: {how}, {engine} has it as {loadable.name}")
    return Loaded(
        target=target.name,
        platform=str(platform),
        engine=str(engine),
        name=loadable.name,
        digest=loadable.digest,
        image_id=engine.image_id(loadable),
        streamed=streamed,
        seconds=seconds,
    )
