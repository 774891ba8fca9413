"""The docker runner: each command in a container of its own, made, watched and removed through the Engine's API."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import requests
from docker.errors import APIError, DockerException, NotFound
from docker.types import CancellableStream

from trainyard.oci.runnable import RunnableImage
from trainyard.platforms import Platform
from trainyard.runner.base import Command, Completed, Confinement
from trainyard.runner.container import KILLED, Container, unlimited
from trainyard.runner.devices import EngineDevices
from trainyard.runner.engine import Engine
from trainyard.runner.process import GRACE, Capture, uninterrupted
from trainyard.runner.refusals import cannot_start, check_emulation, still_there


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerRunner:
    """Runs one image that the engine has as `image_id`."""

    engine: Engine
    image: RunnableImage
    image_id: str
    devices: EngineDevices = field(default_factory=EngineDevices)

    @property
    def name(self) -> str:
        """As reports name it."""
        return "docker"

    @property
    def digest(self) -> str:
        """The manifest digest of the image."""
        return self.image.digest

    @property
    def platform(self) -> Platform:
        """The image's platform."""
        return self.image.platform

    @property
    def notes(self) -> tuple[str, ...]:
        """How it runs."""
        store = "containerd's" if self.engine.containerd else "the old"
        return (
            f"{self.engine}, {store} image store, Docker's seccomp filter",
            *unlimited(self.engine.controllers),
            *self.devices.notes,
        )

    def run(
        self,
        command: Command,
        confinement: Confinement,
        *,
        on_line: Callable[[str], object] = lambda _line: None,
    ) -> Completed:
        """One command in a fresh container; see `Runner.run`."""
        container = Container(
            # Ours from the start, so that it can be removed even if we never hear that it was made.
            name=f"trainyard-{uuid.uuid4().hex}",
            image=self.image_id,
            runnable=self.image,
            command=command,
            confinement=confinement,
            devices=self.devices,
            cpus=self.engine.cpus,
        )
        try:
            completed = self._run(container, on_line)
        except (DockerException, requests.RequestException, OSError) as error:
            raise cannot_start(_explanation(error), command, engine=str(self.engine)) from None
        finally:
            self._remove(container.name)
        check_emulation(completed, self.platform, self.engine.platform, engine=str(self.engine))
        return completed

    def _run(self, container: Container, on_line: Callable[[str], object]) -> Completed:
        api: Any = self.engine.client.api
        api.create_container_from_config(container.docker(), container.name, platform=str(self.platform))
        # Before it starts, so that nothing it says is missed.
        attached = _Output(api.attach(container.name, stream=True, demux=True), on_line)
        with contextlib.closing(attached) as output:
            api.start(container.name)
            start = time.monotonic()
            rc = self._wait(container.name, container.command.timeout)
            if rc is None:
                self._remove(container.name)
            seconds = time.monotonic() - start
            output.join()
        return Completed(
            rc=KILLED if rc is None else rc,
            stdout=bytes(output.out.kept),
            stderr=bytes(output.err.kept),
            seconds=seconds,
            timed_out=rc is None,
            out_of_memory=rc is not None
            and bool(api.inspect_container(container.name)["State"]["OOMKilled"]),
        )

    def _wait(self, name: str, timeout: float) -> int | None:
        """The exit code, None when the time is up."""
        end = time.monotonic() + timeout
        try:
            return int(self.engine.client.api.wait(name, timeout=timeout)["StatusCode"])
        except requests.RequestException:
            # The SDK has no error of its own for this one; a connection that broke early is another matter.
            if time.monotonic() < end:
                raise
            return None

    def _remove(self, name: str) -> None:
        """Kill and remove; what is gone, or an engine that went away, has nothing left to remove."""
        with uninterrupted(), contextlib.suppress(NotFound, requests.RequestException):
            try:
                self.engine.client.api.remove_container(name, force=True, v=True)
            except NotFound:
                raise
            except APIError as error:
                # Somebody else is removing it already.
                if error.status_code != requests.codes.conflict:
                    raise still_there(_explanation(error), name, program="docker") from None


class _Output:
    """Both streams of a container, drained on a thread of its own."""

    def __init__(self, frames: CancellableStream, on_line: Callable[[str], object]) -> None:
        self.out = Capture()
        self.err = Capture(on_line=on_line)
        self._frames = frames
        self._thread = threading.Thread(target=self._read, args=(iter(frames),), daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait for the end of both."""
        self._thread.join(GRACE)

    def close(self) -> None:
        """Give the connection up, which the SDK leaves to its caller; a thread that still reads is woken."""
        # The other end may be gone already, and over ssh a stream cannot be cancelled.
        with contextlib.suppress(OSError, DockerException):
            self._frames.close()
        self.join()
        self._frames._response.close()

    def _read(self, frames: Iterator[tuple[bytes | None, bytes | None]]) -> None:
        # The engine cuts the connection of a container that was killed.
        with contextlib.suppress(OSError, requests.RequestException):
            for out, err in frames:
                self.out.feed(out or b"")
                self.err.feed(err or b"")
        self.err.close()


def _explanation(error: Exception) -> str:
    return str(error.explanation) if isinstance(error, APIError) and error.explanation else str(error)
