"""The native runner: an image's own files, Linux namespaces, and no container engine.

As root it runs the image with its real owners. As an ordinary user it needs user namespaces, and the image's
one user is the caller: all files look like that user's own, which the notes say.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from trainyard.errors import RunnerError
from trainyard.oci.runnable import RunnableImage
from trainyard.oci.unpack import UnpackedImage, unpack_image
from trainyard.platforms import Platform
from trainyard.runner.base import HOSTNAME, Command, Completed, Confinement
from trainyard.runner.devices import DRIVER_FOLDER, HostDevices, find_devices, wants_nvidia
from trainyard.runner.process import drive
from trainyard.runner.spec import Spec
from trainyard.runner.users import resolve_user
from trainyard.store import Store

# An interpreter with no site-packages: the sandbox is stdlib only.
_SANDBOX = """\
import sys
sys.path.insert(0, sys.argv[1])
from trainyard.runner.sandbox import main
sys.exit(main(int(sys.argv[2])))
"""
# What a container begins with; a host that forbids any of it runs none.
_PROBE = """\
import os, sys
sys.path.insert(0, sys.argv[1])
from trainyard.runner.kernel import MS_PRIVATE, MS_REC, StepError, make_namespaces, mount
try:
    make_namespaces(user=None if os.geteuid() == 0 else (1000, 0))
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("tmpfs", "/tmp", "tmpfs", 0)
except StepError as error:
    sys.exit(str(error))
"""
_PACKAGE_PARENT = str(Path(__file__).parents[2])
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_FORBIDDEN = (
    "the native runner needs root or user namespaces (sysctl user.max_user_namespaces, "
    "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns); "
    "else use --runner docker or --runner podman"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeRunner:
    """Runs one unpacked image; `devices` of `host` are given to an image that asks for them.

    `python` is the interpreter of the sandbox, any from 3.11 on.
    """

    image: RunnableImage
    unpacked: UnpackedImage
    devices: HostDevices = field(default_factory=HostDevices)
    host: Path = Path("/")
    python: str = sys.executable

    @property
    def name(self) -> str:
        """As reports name it."""
        return "native"

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
        """How it runs, and what that cannot prove."""
        how = (
            "as root, with the owners and modes of the image"
            if self.unpacked.owners
            else "as an ordinary user: all files look like its own, so owners and permissions are not proven"
        )
        given = self._binds()
        return (how, f"{len(given)} device nodes and driver libraries of this host") if given else (how,)

    def run(
        self,
        command: Command,
        confinement: Confinement,
        *,
        on_line: Callable[[str], object] = lambda _line: None,
    ) -> Completed:
        """One command in fresh namespaces; see `Runner.run`."""
        spec = self._spec(command, confinement)
        read, write = os.pipe()
        try:
            process = subprocess.Popen(
                [self.python, "-I", "-S", "-B", "-c", _SANDBOX, _PACKAGE_PARENT, str(write)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(write,),
                env={},
                cwd="/",
            )
            os.close(write)
            write = -1
            completed = drive(process, stdin=spec.to_json(), timeout=command.timeout, on_line=on_line)
            _refuse(os.read(read, 4096).decode("utf-8", "replace"), command)
            return completed
        finally:
            os.close(read)
            if write >= 0:
                os.close(write)

    def _spec(self, command: Command, confinement: Confinement) -> Spec:
        user = resolve_user(
            self.image.user if confinement.user is None else confinement.user, self.unpacked.root
        )
        env: dict[str, str | None] = {"PATH": _DEFAULT_PATH, "HOME": user.home, "HOSTNAME": HOSTNAME}
        env |= dict(self.image.env) | dict(command.env)
        binds = self._binds()
        if any(inside.startswith(DRIVER_FOLDER) for _, inside in binds):
            env["LD_LIBRARY_PATH"] = ":".join(filter(None, (DRIVER_FOLDER, env.get("LD_LIBRARY_PATH"))))
        return Spec(
            root=str(self.unpacked.root),
            stage=str(self.unpacked.stage),
            argv=(*self.image.entrypoint, *(command.argv or self.image.cmd)),
            env={name: value for name, value in env.items() if value is not None},
            working_dir=self.image.working_dir,
            uid=user.uid,
            gid=user.gid,
            mapped=not self.unpacked.owners,
            read_only=confinement.read_only,
            shm_size=confinement.shm_size,
            noexec_tmp=confinement.noexec_tmp,
            no_new_privileges=confinement.no_new_privileges,
            drop_capabilities=confinement.drop_capabilities,
            processes=confinement.processes,
            cpus=confinement.cpus,
            hostname=HOSTNAME,
            groups=tuple(sorted({Path(source).stat().st_gid for source, _ in binds} - {0})),
            binds=binds,
        )

    def _binds(self) -> tuple[tuple[str, str], ...]:
        """NVIDIA's devices for an image that asks for them, as its toolkit does; others need no library."""
        if self.devices.nvidia and wants_nvidia(self.image.env):
            return self.devices.binds(host=self.host)
        return HostDevices(nodes=self.devices.others).binds(host=self.host)


def open_native(
    image: RunnableImage, store: Store, *, host: Platform | None, content_size: int | None = None
) -> NativeRunner:
    """The image unpacked and ready to run on this host.

    Errors: RunnerError when the host is no Linux of the image's architecture; SpaceError; InputError.
    """
    if host is None or host != image.platform or host.os != "linux":
        raise RunnerError(
            f"an image for {image.platform} does not run on this host ({host or 'of no platform of ours'})",
            hint="run `invoke smoke` on such a host, or with --runner docker where the engine emulates it",
        )
    unpacked = unpack_image(image, store, owners=os.geteuid() == 0, content_size=content_size)
    return NativeRunner(image=image, unpacked=unpacked, devices=find_devices(multiarch=host.multiarch))


def why_not_native(python: str = sys.executable) -> str:
    """What this host forbids that every container needs; empty where the native runner works."""
    if not sys.platform.startswith("linux"):
        return "only on Linux"
    probe = subprocess.run(
        [python, "-I", "-S", "-B", "-c", _PROBE, _PACKAGE_PARENT], capture_output=True, text=True, check=False
    )
    lines = probe.stderr.strip().splitlines()
    return "" if probe.returncode == 0 else f"no namespaces on this host: {lines[-1] if lines else 'killed'}"


def _refuse(error: str, command: Command) -> None:
    """Turn what the sandbox could not do into an error with a way out."""
    if not error:
        return
    step = error.partition(":")[0]
    if step.startswith(("start ", "working folder")):
        raise RunnerError(
            f"the image cannot run {' '.join(command.argv)}: {error}", hint="is it in the image?"
        )
    raise RunnerError(f"no container on this host: {error}", hint=_FORBIDDEN)
