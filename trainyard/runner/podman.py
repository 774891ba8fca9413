"""The podman runner: each command in a container of its own, made, watched and removed through podman's CLI."""

from __future__ import annotations

import json
import resource
import sys
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from trainyard.errors import RunnerError
from trainyard.oci.runnable import RunnableImage
from trainyard.platforms import Platform
from trainyard.runner.base import Command, Completed, Confinement
from trainyard.runner.container import KILLED, Container, unlimited
from trainyard.runner.devices import EngineDevices
from trainyard.runner.podman_cli import Podman
from trainyard.runner.process import drive, uninterrupted
from trainyard.runner.refusals import cannot_start, check_emulation, still_there

# podman asks for more than a process without CAP_SYS_RESOURCE can give, and limits itself to this many processes.
_MOST_PROCESSES = 32768


@dataclass(frozen=True, slots=True, kw_only=True)
class PodmanRunner:
    """Runs one image that podman has."""

    podman: Podman
    image: RunnableImage
    image_id: str
    devices: EngineDevices = field(default_factory=EngineDevices)

    @property
    def name(self) -> str:
        """As reports name it."""
        return "podman"

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
        how = "as an ordinary user" if self.podman.rootless else "as root"
        return (
            f"{self.podman} {how}, its seccomp filter",
            *unlimited(self.podman.controllers),
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
        uid = (confinement.user or "").partition(":")[0]
        if uid.isdecimal() and int(uid) >= self.podman.uids:
            raise RunnerError(
                f"{self.podman} without root has no uid {uid}, only those below {self.podman.uids}",
                hint="give its user more in /etc/subuid (then `podman system migrate`), or use another --runner",
            )
        container = Container(
            name=f"trainyard-{uuid.uuid4().hex}",
            image=self.image_id,
            runnable=self.image,
            command=command,
            confinement=confinement,
            devices=self.devices,
            cpus=self.podman.cpus,
        )
        try:
            return self._run(container, on_line)
        finally:
            self._remove(container.name)

    def _run(self, container: Container, on_line: Callable[[str], object]) -> Completed:
        podman = self.podman
        words = container.podman(_limits(), rootless=podman.rootless, controllers=podman.controllers)
        completed = drive(
            podman.start("run", *words),
            stdin=b"",
            timeout=container.command.timeout,
            on_line=on_line,
            end=lambda: self._remove(container.name),
        )
        if completed.timed_out:
            return replace(completed, rc=KILLED)
        asked = self.podman.ask("container", "inspect", container.name)
        state = json.loads(asked.stdout)[0]["State"] if asked.returncode == 0 else {"Status": "created"}
        if state["Status"] in ("created", "configured"):
            said = completed.stderr.decode("utf-8", "replace")
            raise cannot_start(said, container.command, engine=str(self.podman))
        check_emulation(completed, self.platform, self.podman.platform, engine=str(self.podman))
        return replace(completed, out_of_memory=bool(state["OOMKilled"]))

    def _remove(self, name: str) -> None:
        """Kill and remove; what is gone has nothing left to remove."""
        with uninterrupted():
            asked = self.podman.ask("rm", "--force", "--time", "0", "--volumes", name)
            if asked.returncode != 0 and self.podman.ask("container", "exists", name).returncode == 0:
                raise still_there(asked.stderr, name, program="podman")


def _limits() -> Mapping[str, int]:
    """What this process may hand on; podman on another system runs in a machine with limits of its own."""
    if sys.platform != "linux":
        return {}
    most = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
    hard = {name: resource.getrlimit(number)[1] for name, number in most.items()}
    finite = {name: value for name, value in hard.items() if value != resource.RLIM_INFINITY}
    return {name: min(value, _MOST_PROCESSES) if name == "nproc" else value for name, value in finite.items()}
