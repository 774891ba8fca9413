"""A Docker Engine, reached as the docker CLI would reach it: what it is, or why there is none; images into it."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import docker
import requests
from docker.constants import DEFAULT_UNIX_SOCKET
from docker.context import ContextAPI
from docker.context.config import get_current_context_name
from docker.errors import APIError, DockerException, ImageNotFound
from docker.utils import kwargs_from_env

from trainyard.buildx import unreachable
from trainyard.errors import RunnerError
from trainyard.platforms import Platform
from trainyard.runner.archive import Loadable, check_blobs, stream
from trainyard.runner.refusals import not_ours, not_taken

# Engine 23.0, the first that unpacks layers compressed with zstd.
ZSTD_API = (1, 42)
_CONTROLLERS = {"pids": "PidsLimit", "cpuset": "CPUSet"}
_PATIENCE = 60  # seconds for an answer
_UNPACKING = 1800  # seconds without a word while it unpacks what it was given


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine that answers. `client` is the SDK's, which has no types.

    `containerd`: it keeps images in containerd's store, where their id is the manifest's digest; in the old one
    it is the config's. `local`: the devices of this host are its own. `nvidia`: it has NVIDIA's runtime.
    `controllers` are the cgroup controllers that it can limit by; it ignores a limit that it cannot.
    """

    client: Any
    version: str
    api: tuple[int, int]
    platform: Platform | None
    containerd: bool
    cpus: int
    local: bool
    nvidia: bool
    controllers: frozenset[str]

    @property
    def reads_zstd(self) -> bool:
        """Whether it can load our default layers."""
        return self.api >= ZSTD_API

    def __str__(self) -> str:
        return f"Docker Engine {self.version}"

    def image_id(self, loadable: Loadable) -> str:
        """What it calls this image: the manifest's digest, or the config's in the old store."""
        return loadable.image.digest if self.containerd else loadable.image.config_digest

    def load(self, loadable: Loadable, *, on_bytes: Callable[[int], object] = lambda _count: None) -> bool:
        """See to it that the engine has the image under its name; whether anything had to be streamed.

        Errors: RunnerError when the engine does not take it, SpaceError when its disk is full, InputError when
        a layer is damaged, or it took the image and has none of that digest.
        """
        wanted = self.image_id(loadable)
        missing = not self._has(wanted)
        if missing:
            try:
                self._send(loadable, on_bytes)
            except BaseException:
                self._forget(wanted)
                raise
            if not self._has(wanted):
                raise not_ours(str(self), loadable.name, wanted)
        repository, _, tag = loadable.name.rpartition(":")
        self.client.api.tag(wanted, repository, tag)
        return missing

    def _has(self, image: str) -> bool:
        try:
            return bool(self.client.api.inspect_image(image)["Id"] == image)
        except ImageNotFound:
            return False

    def _forget(self, image: str) -> None:
        """Remove what is left of an image that was refused: containerd's store names it before it unpacks it."""
        with contextlib.suppress(DockerException, requests.RequestException):
            self.client.api.remove_image(image, force=True)

    def _send(self, loadable: Loadable, on_bytes: Callable[[int], object]) -> None:
        api = self.client.api
        before, api.timeout = api.timeout, _UNPACKING
        try:
            for message in api.load_image(stream(loadable, on_bytes)):
                if "error" in message:
                    check_blobs(loadable)
                    raise not_taken(str(self), str(message["error"]))
        except (APIError, requests.RequestException) as error:
            check_blobs(loadable)
            raise not_taken(str(self), str(error)) from None
        finally:
            api.timeout = before


def connect(environ: Mapping[str, str], *, otherwise: str = "invoke smoke --runner native") -> Engine:
    """The engine that DOCKER_HOST, DOCKER_CONTEXT or the CLI's current context name, else the local socket's.

    `otherwise` is the command that goes on without one.
    Errors: RunnerError when none answers, or it does not let us in.
    """
    # With an empty environment the SDK would look into this process's own.
    environ = {"PATH": "", **environ}
    try:
        where = _where(environ)
        _knock(str(where.get("base_url") or DEFAULT_UNIX_SOCKET))
        client = docker.DockerClient(version="auto", timeout=_PATIENCE, **where)
        version, info = client.version(), client.info()
    except (DockerException, requests.RequestException, OSError) as error:
        raise unreachable(str(error), otherwise=otherwise) from None
    return Engine(
        client=client,
        version=str(version["Version"]),
        api=_api(str(version["ApiVersion"])),
        platform=Platform.of_machine(str(version["Os"]).capitalize(), str(version["Arch"])),
        containerd=["driver-type", "io.containerd.snapshotter.v1"] in (info.get("DriverStatus") or []),
        cpus=int(info.get("NCPU") or 1),
        # Such a socket may also be one that ssh, or a container's mount, brought here from elsewhere.
        local=client.api.base_url == "http+docker://localhost" and info.get("Name") == os.uname().nodename,
        nvidia="nvidia" in (info.get("Runtimes") or {}),
        controllers=frozenset(name for name, key in _CONTROLLERS.items() if info.get(key)),
    )


def _where(environ: Mapping[str, str]) -> dict[str, object]:
    """What the SDK's client is made with; the CLI too lets DOCKER_HOST win, and takes no other context for one."""
    if environ.get("DOCKER_HOST"):
        where: dict[str, object] = kwargs_from_env(environment=environ)
        if str(where.get("base_url")).startswith("ssh://") and find_spec("paramiko") is None:
            raise RunnerError(
                "an engine at ssh:// needs Python's paramiko, which is not among our tools",
                hint="forward its socket: ssh -nNT -L /tmp/engine.sock:/var/run/docker.sock HOST, and then "
                "DOCKER_HOST=unix:///tmp/engine.sock",
            )
        return where
    name = environ.get("DOCKER_CONTEXT") or get_current_context_name()
    if ContextAPI.get_context(name) is None:
        raise RunnerError(f"there is no Docker context {name!r}", hint="`docker context ls` lists them")
    return {
        **kwargs_from_env(environment=environ),
        **ContextAPI.kwargs_from_context(name, environment=environ),
    }


def _knock(url: str) -> None:
    """OSError, in plain words, when nobody listens on a local socket."""
    _, local, path = url.partition("unix://")
    if local:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(path)
            except OSError as error:
                raise OSError(f"{path}: {error.strerror}") from None


def _api(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        raise RunnerError(f"the Docker daemon says that its API is {text!r}", hint="docker version")
    return int(major), int(minor)
