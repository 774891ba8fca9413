"""What every way of running an image offers, so that checks cannot tell which one ran them.

A runner is opened for one image. It moves no host folder into the container: what a command needs is in the
image, what it gives comes back on stdout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from trainyard.platforms import Platform

# More than any check prints; an image must not be able to fill our memory.
MAX_OUTPUT = 8 << 20
# .invalid never resolves (RFC 6761, section 6.4): a job must not depend on its own name.
HOSTNAME = "trainyard.invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to run: `argv` goes through the image's entrypoint, `env` is laid over the image's (None removes).

    `timeout` is seconds of wall time, after which every process of the container is killed.
    """

    argv: tuple[str, ...]
    env: tuple[tuple[str, str | None], ...] = ()
    timeout: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """How the container is locked up; there is never a network but loopback.

    `user` is `uid`, `uid:gid` or a name, None for the image's own. /tmp and /run are tmpfs, /dev/shm has
    `shm_size` bytes. `processes` and `cpus` are limits, None for none.
    """

    name: str = "normal"
    user: str | None = None
    read_only: bool = False
    shm_size: int = 64 << 20
    noexec_tmp: bool = False
    no_new_privileges: bool = False
    drop_capabilities: bool = False
    processes: int | None = None
    cpus: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """How a command ended: `rc` as a shell says it (128 + signal), the first MAX_OUTPUT bytes of output.

    `out_of_memory`: an engine saw the kernel kill one of its processes for want of memory.
    """

    rc: int
    stdout: bytes
    stderr: bytes
    seconds: float
    timed_out: bool = False
    out_of_memory: bool = False


class Runner(Protocol):
    """Runs commands in one image, each in a fresh container without a network."""

    @property
    def name(self) -> str:
        """`native`, `docker`, `podman`."""

    @property
    def digest(self) -> str:
        """The manifest digest of the image that it runs."""

    @property
    def platform(self) -> Platform:
        """The image's platform."""

    @property
    def notes(self) -> tuple[str, ...]:
        """How it runs, and what it therefore cannot prove; one sentence each."""

    def run(
        self,
        command: Command,
        confinement: Confinement,
        *,
        on_line: Callable[[str], object] = lambda _line: None,
    ) -> Completed:
        """Run one command to its end; `on_line` hears each line of stderr as it comes.

        Errors: RunnerError when the container could not be started. No process is left, however this ends.
        """
