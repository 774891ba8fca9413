"""podman's own command line: what it is, or why there is none; images into it. No daemon, as root or not.

Its configuration is podman's (containers.conf(5)), found through the environment that we are handed.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from trainyard.errors import RunnerError
from trainyard.platforms import Platform
from trainyard.runner.archive import Loadable, check_blobs, stream
from trainyard.runner.refusals import not_ours, not_taken

_OLDEST = (4, 3)  # Debian 12's; nothing older was tried
# Logins, for a pull that never happens; podman 4.3 starts nothing where such a file is named and is not there.
_LOGINS = ("DOCKER_CONFIG", "REGISTRY_AUTH_FILE")
_PATIENCE = 120.0  # seconds for anything but loading and running


@dataclass(frozen=True, slots=True, kw_only=True)
class Podman:
    """The podman CLI of this host, in the environment that it is run in.

    A container has the users below `uids`: without root those that /etc/subuid gives.
    """

    program: str
    environ: Mapping[str, str]
    version: str
    platform: Platform | None
    cpus: int
    rootless: bool
    controllers: frozenset[str]
    uids: int

    @classmethod
    def find(cls, environ: Mapping[str, str]) -> Podman:
        """The CLI on PATH; RunnerError if there is none, it is too old, or it does not work here."""
        program = shutil.which("podman", path=environ.get("PATH"))
        if program is None:
            raise RunnerError("there is no `podman` on PATH", hint="install podman, or use another --runner")
        environ = {name: value for name, value in environ.items() if name not in _LOGINS}
        asked = _run(program, environ, "info", "--format", "json")
        if asked.returncode != 0:
            raise RunnerError(f"podman does not work here: {_said(asked)}", hint="podman info")
        try:
            return cls._of(program, environ, json.loads(asked.stdout))
        except (ValueError, KeyError, TypeError) as error:
            raise RunnerError(
                f"{program} is no podman that we know: its `info` lacks {error}",
                hint="podman info --format json",
            ) from None

    @classmethod
    def _of(cls, program: str, environ: Mapping[str, str], info: dict[str, Any]) -> Podman:
        host, version = info["host"], str(info["version"]["Version"])
        mapped = (host.get("idMappings") or {}).get("uidmap") or ()
        if _numbers(version) < _OLDEST:
            raise RunnerError(
                f"podman {version} is older than 4.3, the oldest that is tested",
                hint="install a later one, or use another --runner",
            )
        return cls(
            program=program,
            environ=environ,
            version=version,
            platform=Platform.of_machine(str(host["os"]).capitalize(), str(host["arch"])),
            cpus=int(host["cpus"]),
            rootless=bool(host["security"]["rootless"]),
            controllers=frozenset(host.get("cgroupControllers") or ()),
            uids=max((one["container_id"] + one["size"] for one in mapped), default=1 << 32),
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
        # Without a host podman reads docker.io/library into a name.
        loadable = replace(loadable, name=f"localhost/{loadable.name}")
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
        return subprocess.Popen(
            command,
            env=dict(self.environ),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            # Ctrl-C on a terminal is for us, who end the container; podman would pass it on.
            start_new_session=True,
        )

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
            start_new_session=True,
        )
    except OSError as error:
        raise RunnerError(
            f"{program} does not start: {error.strerror}", hint="install podman again"
        ) from None
    except subprocess.TimeoutExpired:
        raise RunnerError(
            f"`podman {words[0]}` gave no answer in {_PATIENCE:.0f} s", hint="podman info"
        ) from None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.partition("-")[0].split(".")[:2] if part.isdecimal())


def _said(asked: subprocess.CompletedProcess[str]) -> str:
    lines = asked.stderr.strip().splitlines()
    return lines[-1] if lines else f"exit status {asked.returncode}"
