"""Why an engine did not take an image or start a container, from what it says: an error with a way out."""

from __future__ import annotations

import re

from trainyard.errors import InputError, RunnerError, SpaceError, TrainyardError
from trainyard.platforms import Platform
from trainyard.runner.base import Command, Completed

_TOOLKIT = (
    "install the NVIDIA Container Toolkit for this engine (nvidia-ctk runtime configure; for podman "
    "nvidia-ctk cdi generate), or use --runner native"
)
_NO_SPACE = "no space left on device"
_FORMAT = "exec format error"
_NO_UID = "unable to setup user: invalid argument"  # runc, for an id that the namespace does not map
# docker, containerd, podman
_GONE = re.compile(r"no such image|content digest sha256:\w+: not found|image not known", re.IGNORECASE)


def not_taken(engine: str, text: str) -> TrainyardError:
    """The error for an engine's refusal to load an image."""
    if _NO_SPACE in text.lower():
        return SpaceError(f"{engine} has no room for the image: {text.strip()}", hint=_room(engine))
    return RunnerError(f"{engine} did not take the image: {text.strip()}", hint=_info(engine))


def not_ours(engine: str, name: str, wanted: str) -> InputError:
    """The error for an engine that made another image of what it was given."""
    return InputError(
        f"{engine} took {name} and has no image {wanted}", hint="`invoke build` writes it again"
    )


def cannot_start(text: str, command: Command, *, engine: str) -> TrainyardError:
    """The error for an engine's refusal to make or to start a container."""
    text = text.strip()
    lowered = text.lower()
    if _NO_SPACE in lowered:
        return SpaceError(f"{engine} has no room for a container: {text}", hint=_room(engine))
    if "nvidia" in lowered or "select device driver" in lowered or "unresolvable cdi" in lowered:
        return RunnerError(f"{engine} cannot give the image an NVIDIA GPU: {text}", hint=_TOOLKIT)
    if _GONE.search(text):
        return InputError(
            f"{engine} has lost the image, or a part of it: {text}",
            hint="remove what it has of it (docker image rm, or podman's), then the same command again",
        )
    if _NO_UID in lowered:
        return RunnerError(
            f"{engine} has no such user, since it runs in a user namespace (without root, or userns-remap): {text}",
            hint="give it more in /etc/subuid and /etc/subgid, or use another --runner",
        )
    if user := re.search(r"unable to find (user|group) ([^:\s]+)", text):
        return RunnerError(f"the image has no {user[1]} {user[2]!r}", hint="give numbers, uid:gid")
    if re.search(r"exec: \"|executable file|executable path", text):
        return RunnerError(
            f"the image cannot run {' '.join(command.argv)}: {text}", hint="is it in the image?"
        )
    return RunnerError(f"{engine} could not run the container: {text}", hint=_info(engine))


def _room(engine: str) -> str:
    if engine.startswith("podman"):
        return (
            "podman system df; podman image prune; it copies an image to TMPDIR (/var/tmp) before it takes it"
        )
    return "docker system df; docker image prune"


def _info(engine: str) -> str:
    return f"does `{engine.partition(' ')[0].lower()} info` answer?"


def still_there(text: str, name: str, *, program: str) -> RunnerError:
    """The error for a container that an engine did not remove."""
    return RunnerError(
        f"the container {name} is still there: {text.strip()}", hint=f"{program} rm --force {name}"
    )


def check_emulation(completed: Completed, image: Platform, host: Platform | None, *, engine: str) -> None:
    """RunnerError when the engine's kernel does not know the image's programs; they never began."""
    if completed.rc != 0 and image != host and _FORMAT.encode() in completed.stderr[-1000:].lower():
        raise RunnerError(
            f"{engine} is on {host or 'another system'} and cannot run {image} programs",
            hint="run it on such a host, or give this one an emulator (Debian: qemu-user-static binfmt-support)",
        )
