"""An image of ours into a Docker Engine, once: it is found again by its digest, and its name is set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import requests
from docker.errors import APIError, ImageNotFound

from trainyard.errors import InputError, RunnerError, SpaceError
from trainyard.runner.archive import Loadable, stream
from trainyard.runner.engine import Engine

# Seconds without a word while the engine unpacks what it was given.
_PATIENCE = 1800


def load(
    engine: Engine, loadable: Loadable, *, on_bytes: Callable[[int], object] = lambda _count: None
) -> bool:
    """See to it that the engine has the image under its name; whether anything had to be streamed.

    Errors: RunnerError when the engine takes it badly, SpaceError when its disk is full, InputError when it
    holds an image that is not ours afterwards.
    """
    wanted = image_id(engine, loadable)
    missing = not _has(engine, wanted)
    if missing:
        _send(engine, loadable, on_bytes)
        if not _has(engine, wanted):
            raise InputError(
                f"{engine} took {loadable.name} and has no image {wanted}: it made another one of it",
                hint="invoke build writes the layout again",
            )
    repository, _, tag = loadable.name.rpartition(":")
    engine.client.api.tag(wanted, repository, tag)
    return missing


def image_id(engine: Engine, loadable: Loadable) -> str:
    """What the engine calls this image: the manifest's digest, or the config's in the old store."""
    return loadable.image.digest if engine.containerd else loadable.image.config_digest


def _has(engine: Engine, image: str) -> bool:
    try:
        return bool(engine.client.api.inspect_image(image)["Id"] == image)
    except ImageNotFound:
        return False


def _send(engine: Engine, loadable: Loadable, on_bytes: Callable[[int], object]) -> None:
    api: Any = engine.client.api
    before, api.timeout = api.timeout, _PATIENCE
    try:
        for message in api.load_image(_counted(stream(loadable), on_bytes)):
            if "error" in message:
                raise _failure(engine, str(message["error"]))
    except (APIError, requests.RequestException, OSError) as error:
        raise _failure(engine, str(error)) from None
    finally:
        api.timeout = before


def _counted(chunks: Iterator[bytes], on_bytes: Callable[[int], object]) -> Iterator[bytes]:
    for chunk in chunks:
        yield chunk
        on_bytes(len(chunk))


def _failure(engine: Engine, text: str) -> RunnerError | SpaceError:
    if "no space left on device" in text.lower():
        return SpaceError(
            f"{engine} has no room for the image: {text}", hint="docker system df; docker image prune"
        )
    return RunnerError(f"{engine} did not take the image: {text}", hint="docker info; docker system df")
