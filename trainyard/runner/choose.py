"""Which runner runs an image here: the one that was asked for, or the first that can."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainyard.errors import RunnerError, UsageError, near
from trainyard.oci.runnable import RunnableImage, read_runnable
from trainyard.platforms import Platform
from trainyard.runner.archive import ImageStore, Loadable, find_loadable
from trainyard.runner.base import Runner
from trainyard.runner.devices import HostDevices, engine_devices, find_devices
from trainyard.runner.native import open_native, why_not_native
from trainyard.runner.podman import PodmanRunner
from trainyard.runner.podman_cli import Podman
from trainyard.store import Store

RUNNERS = ("native", "docker", "podman")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An image in a layout that shall run, and what its runners need.

    `repository` is what engines know it by, before the tag; `content_size` is for the check of free disk
    (`unpack_image`); `say` hears what takes long.
    """

    layout: Path
    platform: Platform
    repository: str
    store: Store
    host: Platform | None
    environ: Mapping[str, str]
    content_size: int | None = None
    say: Callable[[str], object] = lambda _line: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A runner, its image, and the layout that this is read from: an old engine takes the gzip one."""

    runner: Runner
    image: RunnableImage
    layout: Path


def known_runner(name: str) -> str:
    """`auto` or one of RUNNERS; UsageError otherwise."""
    if name not in ("auto", *RUNNERS):
        raise UsageError(
            f"unknown runner {name!r}{near(name, RUNNERS)}", hint=f"--runner is auto, {', '.join(RUNNERS)}"
        )
    return name


def open_runner(name: str, candidate: Candidate) -> Opened:
    """The runner of that name; with `auto` native where it works, else docker, else podman.

    Errors: RunnerError with the reason, or with `auto` each one's. By name, an engine may emulate a foreign
    platform; `auto` takes none that would have to.
    """
    if name != "auto":
        return _OPEN[name](candidate, True)
    reasons = []
    for each, opened in _OPEN.items():
        try:
            return opened(candidate, False)
        except RunnerError as error:
            reasons.append(f"{each}: {error.message}")
    raise RunnerError(
        "\n  ".join([f"nothing here runs an image for {candidate.platform}:", *reasons]),
        hint="one of them is enough; --runner NAME says more about it, docs/troubleshooting.md#runners too",
    )


def _native(candidate: Candidate, emulate: bool) -> Opened:
    image = read_runnable(candidate.layout, candidate.platform)
    if not emulate and (problem := why_not_native()):
        raise RunnerError(problem)
    runner = open_native(image, candidate.store, host=candidate.host, content_size=candidate.content_size)
    return Opened(runner=runner, image=image, layout=candidate.layout)


def _docker(candidate: Candidate, emulate: bool) -> Opened:
    # The SDK takes most of a second to import, and most runs do not need it.
    from trainyard.runner.docker import DockerRunner
    from trainyard.runner.engine import connect

    engine = connect(candidate.environ)
    loadable = _load(engine, candidate, emulate)
    image = read_runnable(loadable.layout, candidate.platform)
    local = _devices(candidate) if engine.local else None
    runner = DockerRunner(
        engine=engine,
        image=image,
        image_id=engine.image_id(loadable),
        devices=engine_devices(image.env, local, toolkit=engine.nvidia),
    )
    return Opened(runner=runner, image=image, layout=loadable.layout)


def _podman(candidate: Candidate, emulate: bool) -> Opened:
    podman = Podman.find(candidate.environ)
    loadable = _load(podman, candidate, emulate)
    image = read_runnable(loadable.layout, candidate.platform)
    runner = PodmanRunner(
        podman=podman,
        image=image,
        image_id=podman.image_id(loadable),
        devices=engine_devices(image.env, _devices(candidate), toolkit=False),
    )
    return Opened(runner=runner, image=image, layout=loadable.layout)


_OPEN = {"native": _native, "docker": _docker, "podman": _podman}


def _load(engine: ImageStore, candidate: Candidate, emulate: bool) -> Loadable:
    if engine.platform != candidate.platform and not emulate:
        raise RunnerError(f"{engine} runs {engine.platform or 'no platform of ours'}")
    loadable = find_loadable(
        candidate.layout,
        candidate.platform,
        repository=candidate.repository,
        zstd=engine.reads_zstd,
    )
    candidate.say(f"{loadable.name} of {loadable.size / 1e6:.0f} MB into {engine}, unless it is there")
    engine.load(loadable)
    return loadable


def _devices(candidate: Candidate) -> HostDevices:
    host = candidate.host
    return find_devices(multiarch=host.multiarch) if host and host.os == "linux" else HostDevices()
