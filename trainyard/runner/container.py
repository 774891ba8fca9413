"""A command and its confinement in the words of an engine: Docker's API, podman's flags. Pure.

Docker: Engine API 1.41, ContainerCreate. podman: podman-run(1).
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trainyard.oci.runnable import RunnableImage
from trainyard.runner.base import HOSTNAME, Command, Confinement
from trainyard.runner.devices import EngineDevices

# On every container of ours: `docker ps -a --filter label=dev.trainyard.run`, should one ever be left.
LABEL = "dev.trainyard.run"
KILLED = 128 + signal.SIGKILL
# What our confinements limit by: processes, and CPUs.
CONTROLLERS = frozenset({"pids", "cpuset"})
# What Docker leaves to a container's root and podman does not; the native runner drops them too.
_DROPPED = ("AUDIT_WRITE", "MKNOD", "NET_RAW")
_SHM = "rw,noexec,nosuid,nodev,mode=1777"
_RUN = "rw,exec,nosuid,nodev,mode=755"
# podman sets them by itself; Docker and the native runner do not.
_PODMAN_ENV = ("container", "TERM")


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container that is to be made: `image` is what the engine calls the image, `cpus` how many it has."""

    name: str
    image: str
    runnable: RunnableImage
    command: Command
    confinement: Confinement
    devices: EngineDevices
    cpus: int

    @property
    def cpuset(self) -> str:
        """The first CPUs, as many as allowed: a program asks how many it may run on, not how much of them."""
        return f"0-{min(self.confinement.cpus or self.cpus, self.cpus) - 1}"

    @property
    def tmp(self) -> str:
        """Mount options of /tmp; engines say noexec where they are told nothing."""
        return f"rw,{'noexec' if self.confinement.noexec_tmp else 'exec'},nosuid,nodev,mode=1777"

    @property
    def dropped(self) -> tuple[str, ...]:
        """Capabilities that the container is made without."""
        return ("ALL",) if self.confinement.drop_capabilities else _DROPPED

    def docker(self) -> dict[str, object]:
        """The body of ContainerCreate; a variable without `=` is taken out of the image's environment."""
        how = self.confinement
        return {
            "Image": self.image,
            **({"Cmd": list(self.command.argv)} if self.command.argv else {}),
            **({} if how.user is None else {"User": how.user}),
            "Env": [name if value is None else f"{name}={value}" for name, value in self.command.env],
            "Hostname": HOSTNAME,
            "Labels": {LABEL: self.name},
            "AttachStdout": True,
            "AttachStderr": True,
            "HostConfig": {
                "NetworkMode": "none",
                # What it says is read as it comes; a copy on the engine's disk could fill that.
                "LogConfig": {"Type": "none", "Config": {}},
                "ReadonlyRootfs": how.read_only,
                "Tmpfs": {"/tmp": self.tmp, "/run": _RUN},  # noqa: S108
                "ShmSize": how.shm_size,
                "CapDrop": list(self.dropped),
                "SecurityOpt": ["no-new-privileges"] * how.no_new_privileges,
                "PidsLimit": how.processes or 0,
                "CpusetCpus": self.cpuset if how.cpus else "",
                "Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}],
                "Devices": [_device(node) for node in self.devices.nodes],
                "GroupAdd": [str(group) for group in self.devices.groups],
                "DeviceRequests": [{"Count": -1, "Capabilities": [["gpu"]]}] * self.devices.nvidia,
            },
        }

    def podman(
        self,
        limits: Mapping[str, int],
        *,
        rootless: bool = False,
        controllers: frozenset[str] = CONTROLLERS,
    ) -> Iterator[str]:
        """The arguments of `podman run`; `limits` are this process's own, no container can have more.

        A `rootless` podman cannot join a group of the host by number, but keep those of its user; it has only
        the cgroup `controllers` that were delegated to it, and refuses what it cannot limit.
        The entries that podman would write into hosts and passwd stay out: other runners have the image's.
        `podman create` cannot be told the latter.
        """
        how = self.confinement
        yield from ("--name", self.name, "--label", f"{LABEL}={self.name}", "--pull", "never")
        yield from ("--network", "none", "--no-hosts", "--hostname", HOSTNAME, "--passwd=false")
        yield from ("--log-driver", "none", "--ulimit", "core=0:0")
        for name, most in limits.items():
            yield from ("--ulimit", f"{name}={most}:{most}")
        yield from ("--tmpfs", f"/tmp:{self.tmp},notmpcopyup")  # noqa: S108
        yield from ("--tmpfs", f"/run:{_RUN},notmpcopyup")
        yield from (f"--read-only={_word(how.read_only)}", "--read-only-tmpfs=false")
        # Its own /dev/shm is read-only where the root is (podman 5 without --read-only-tmpfs).
        yield from ("--tmpfs", f"/dev/shm:{_SHM},size={how.shm_size},notmpcopyup")  # noqa: S108
        yield from ("--cap-drop", ",".join(self.dropped))
        yield from () if how.user is None else ("--user", how.user)
        yield from ("--security-opt", "no-new-privileges") * how.no_new_privileges
        if how.processes is not None and "pids" in controllers:
            yield from ("--pids-limit", str(how.processes))
        if how.cpus and "cpuset" in controllers:
            yield from ("--cpuset-cpus", self.cpuset)
        yield from self._podman_env()
        for node in self.devices.nodes:
            yield from ("--device", node)
        groups = ("keep-groups",) if rootless and self.devices.groups else self.devices.groups
        for group in groups:
            yield from ("--group-add", str(group))
        yield from ("--device", "nvidia.com/gpu=all") * self.devices.nvidia
        yield self.image
        yield from self.command.argv

    def _podman_env(self) -> Iterator[str]:
        env = dict(self.command.env)
        known = {name for name, _ in self.runnable.env} | set(env)
        removed = [name for name, value in env.items() if value is None]
        for name in (*removed, *(name for name in _PODMAN_ENV if name not in known)):
            yield from ("--unsetenv", name)
        for name, value in env.items():
            if value is not None:
                yield from ("--env", f"{name}={value}")


def unlimited(controllers: frozenset[str]) -> tuple[str, ...]:
    """What an engine with these cgroup controllers cannot limit, for a report."""
    missing = sorted(CONTROLLERS - controllers)
    return (
        (f"without limits for {', '.join(missing)}: this engine has no such controller",) if missing else ()
    )


def _device(node: str) -> dict[str, str]:
    return {"PathOnHost": node, "PathInContainer": node, "CgroupPermissions": "rwm"}


def _word(value: bool) -> str:
    return "true" if value else "false"
