"""The podman runner, through podman's own command line; no daemon, as root or not.

Its configuration is podman's (containers.conf(5)), found through the environment that we are handed.
"""

from __future__ import annotations

import contextlib
import json
import resource
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from trainyard.errors import RunnerError
from trainyard.oci.runnable import RunnableImage
from trainyard.platforms import Platform
from trainyard.runner.archive import Loadable, check_blobs, stream
from trainyard.runner.base import Command, Completed, Confinement
from trainyard.runner.container import KILLED, Container
from trainyard.runner.devices import EngineDevices
from trainyard.runner.process import drive
from trainyard.runner.refusals import cannot_start, check_emulation, not_ours, not_taken

_PATIENCE = 120.0  # seconds for anything but loading and running
# podman asks for more than a process without CAP_SYS_RESOURCE can give, and limits itself to this many processes.
_MOST_PROCESSES = 32768


@dataclass(frozen=True, slots=True, kw_only=True)
class Podman:
    """The podman CLI of this host, in the environment that it is run in."""

    program: str
    environ: Mapping[str, str]
    version: str
    platform: Platform | None
    cpus: int

    @classmethod
    def find(cls, environ: Mapping[str, str]) -> Podman:
        """The CLI on PATH; RunnerError if there is none, or it does not work here."""
        program = shutil.which("podman", path=environ.get("PATH"))
        if program is None:
            raise RunnerError("there is no `podman` on PATH", hint="install podman, or use another --runner")
        asked = _run(program, environ, "info", "--format", "json")
        if asked.returncode != 0:
            raise RunnerError(f"podman does not work here: {_said(asked)}", hint="podman info")
        info = json.loads(asked.stdout)
        host = info["host"]
        return cls(
            program=program,
            environ=environ,
            version=str(info["version"]["Version"]),
            platform=Platform.of_machine(str(host["os"]).capitalize(), str(host["arch"])),
            cpus=int(host["cpus"]),
        )

    def __str__(self) -> str:
        return f"podman {self.version}"

    @property
    def reads_zstd(self) -> bool:
        """Every podman that is still about does."""
        return True

    def image_id(self, loadable: Loadable) -> str:
        """What it calls this image: the config's digest."""
        return loadable.image.config_digest

    def load(self, loadable: Loadable, *, on_bytes: Callable[[int], object] = lambda _count: None) -> bool:
        """See to it that podman has the image under its name; whether anything had to be streamed.

        Errors: RunnerError when podman does not take it, SpaceError when its disk is full, InputError when a layer
        is damaged, or it took the image and has none of that digest.
        """
        image = self.image_id(loadable)
        missing = not self._has(image)
        if missing:
            self._feed(loadable, on_bytes)
            if not self._has(image):
                raise not_ours(str(self), loadable.name, image)
        self.must("tag", image, loadable.name)
        return missing

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        """What podman answers."""
        return _run(self.program, self.environ, *words)

    def must(self, *words: str) -> str:
        """What podman answers; RunnerError when it refuses."""
        asked = self.ask(*words)
        if asked.returncode != 0:
            raise RunnerError(f"podman {words[0]}: {_said(asked)}", hint="podman info")
        return asked.stdout

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """A podman command as a child with pipes."""
        pipe = subprocess.PIPE
        # What podman has to say of itself would stand among what the container says.
        command = [self.program, "--log-level=error", *words]
        return subprocess.Popen(command, env=dict(self.environ), stdin=pipe, stdout=pipe, stderr=pipe)

    def _has(self, image: str) -> bool:
        return self.ask("image", "exists", image).returncode == 0

    def _feed(self, loadable: Loadable, on_bytes: Callable[[int], object]) -> None:
        with self.start("load", "--quiet") as process:
            assert process.stdin is not None
            assert process.stderr is not None
            # podman that has had enough says why; closing writes what was held back, into the same broken pipe.
            with contextlib.suppress(BrokenPipeError):
                for chunk in stream(loadable, on_bytes):
                    process.stdin.write(chunk)
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            said = process.stderr.read().decode("utf-8", "replace")
        if process.returncode != 0:
            check_blobs(loadable)
            raise not_taken(str(self), said)


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
        return (f"{self.podman}, its seccomp filter", *self.devices.notes)

    def run(
        self,
        command: Command,
        confinement: Confinement,
        *,
        on_line: Callable[[str], object] = lambda _line: None,
    ) -> Completed:
        """One command in a fresh container; see `Runner.run`."""
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
        completed = drive(
            self.podman.start("run", *container.podman(_limits())),
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
        self.podman.ask("rm", "--force", "--time", "0", "--volumes", name)


def _limits() -> Mapping[str, int]:
    """What this process may hand on; podman on another system runs in a machine with limits of its own."""
    if sys.platform != "linux":
        return {}
    most = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
    hard = {name: resource.getrlimit(number)[1] for name, number in most.items()}
    finite = {name: value for name, value in hard.items() if value != resource.RLIM_INFINITY}
    return {name: min(value, _MOST_PROCESSES) if name == "nproc" else value for name, value in finite.items()}


def _run(program: str, environ: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [program, *words],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RunnerError(
            f"`podman {words[0]}` gave no answer in {_PATIENCE:.0f} s", hint="podman info"
        ) from None


def _said(asked: subprocess.CompletedProcess[str]) -> str:
    lines = asked.stderr.strip().splitlines()
    return lines[-1] if lines else f"exit status {asked.returncode}"
