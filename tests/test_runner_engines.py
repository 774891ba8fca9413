"""Which engine is meant, and what is said of one that is not there or is not what it should be."""

from __future__ import annotations

import ctypes
import json
import os
import socket
from pathlib import Path

import pytest

from tests.support import engines, runners
from tests.support.users import in_fork
from trainyard.errors import RunnerError
from trainyard.runner.base import Command
from trainyard.runner.engine import connect
from trainyard.runner.podman_cli import Podman
from trainyard.runner.refusals import cannot_start

INFO = {"host": {"os": "linux", "arch": "amd64", "cpus": 2, "security": {"rootless": False}}}


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"DOCKER_CONTEXT": "nope"}, "there is no Docker context 'nope'"),
        ({"DOCKER_HOST": "unix:///nowhere/it.sock"}, "/nowhere/it.sock: No such file or directory"),
        ({"DOCKER_HOST": "nothing"}, "no Docker daemon answers"),
        ({"DOCKER_HOST": "tcp://127.0.0.1:1"}, "Connection refused"),
        ({"DOCKER_HOST": "tcp://127.0.0.1:1", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/no"}, "TLS"),
    ],
    ids=str,
)
def test_an_engine_that_is_not_there_is_an_error_with_a_hint(environ: dict[str, str], message: str) -> None:
    with pytest.raises(RunnerError) as caught:
        connect(environ)

    assert message in caught.value.message
    assert caught.value.hint


def test_ssh_is_an_error_with_a_way_that_works() -> None:
    with pytest.raises(RunnerError, match="paramiko") as caught:
        connect({"DOCKER_HOST": "ssh://user@host.example.com"})

    assert "ssh -nNT -L" in caught.value.hint


def test_docker_host_wins_over_a_context_as_it_does_for_the_cli() -> None:
    engine = runners.docker_engine()

    assert connect({**engines.SETTINGS.environ, "DOCKER_CONTEXT": "nope"}).version == engine.version


def test_a_socket_that_is_a_folder_or_deaf_is_an_error(tmp_path: Path) -> None:
    deaf = tmp_path / "deaf.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(deaf))
    for path, why in ((tmp_path, "refused"), (deaf, "refused")):
        with pytest.raises(RunnerError, match=why):
            connect({"DOCKER_HOST": f"unix://{path}"})


def rename_host() -> None:
    """Another hostname, for this process alone: what a machine looks like to a socket from another one."""
    assert ctypes.CDLL(None).unshare(0x04000000) == 0
    socket.sethostname("elsewhere")


@pytest.mark.skipif(
    os.geteuid() != 0, reason="this host's tests do not run as root, who can have another hostname"
)
def test_devices_of_this_host_are_not_offered_to_an_engine_of_another() -> None:
    runners.docker_engine()
    environ = engines.SETTINGS.environ

    assert connect(environ).local
    assert not in_fork(lambda: connect(environ).local, before=rename_host)


def said(folder: Path, script: str) -> dict[str, str]:
    """An environment whose `podman` is that script."""
    program = folder / "podman"
    program.write_text(script)
    program.chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def told(info: object) -> str:
    return f"#!/bin/sh\ncat <<'EOF'\n{json.dumps(info)}\nEOF\n"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("#!/bin/sh\necho hello\n", "is no podman that we know"),
        (told({}), "its `info` lacks 'host'"),
        (told([]), "is no podman that we know"),
        (told({**INFO, "version": {"Version": "3.4.4"}}), "podman 3.4.4 is older than 4.3"),
        ("#!/bin/sh\necho Error: boom >&2; exit 125\n", "podman does not work here: Error: boom"),
        ("#!/nowhere/sh\n", "does not start: No such file or directory"),
    ],
)
def test_a_podman_that_is_none_is_an_error_with_a_hint(tmp_path: Path, script: str, message: str) -> None:
    with pytest.raises(RunnerError) as caught:
        Podman.find(said(tmp_path, script))

    assert message in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("version", ["4.3.1", "4.3.0-rhel", "5.4.2", "6.0.0-dev"])
def test_a_podman_from_4_3_on_is_taken_and_may_tell_no_mappings(tmp_path: Path, version: str) -> None:
    found = Podman.find(said(tmp_path, told({**INFO, "version": {"Version": version}})))

    assert str(found) == f"podman {version}"
    assert found.uids == 1 << 32
    assert found.controllers == frozenset()


# The first three texts were said here, the first of them by podman 5.4 with runc, which Docker uses too.
REFUSALS = [
    (
        "Docker Engine 26.1.5",
        "runc create failed: unable to start container process: unable to setup user: invalid argument",
        "runs in a user namespace",
        "/etc/subuid",
    ),
    (
        "Docker Engine 26.1.5",
        "failed to get reader from content store: content digest sha256:75: not found",
        "has lost the image, or a part of it",
        "docker image rm",
    ),
    (
        "podman 4.3.1",
        "processing tar file(write /opt/it: no space left on device): exit status 1",
        "has no room",
        "TMPDIR",
    ),
    ("Docker Engine 26.1.5", "write: no space left on device", "has no room", "docker system df"),
    ("podman 4.3.1", "something else", "could not run the container", "does `podman info` answer?"),
    ("Docker Engine 26.1.5", "something else", "could not run the container", "does `docker info` answer?"),
]


@pytest.mark.parametrize(("engine", "text", "message", "hint"), REFUSALS)
def test_what_an_engine_says_becomes_a_reason_and_its_own_way_out(
    engine: str, text: str, message: str, hint: str
) -> None:
    error = cannot_start(text, Command(argv=("it",)), engine=engine)

    assert message in error.message
    assert text in error.message
    assert hint in error.hint


@pytest.mark.parametrize(
    "text",
    [
        'could not select device driver "" with capabilities: [[gpu]]',
        "nvidia-container-cli: initialization error: nvml error: driver not loaded",
        "setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all",
    ],
)
def test_a_gpu_that_an_engine_cannot_give_names_the_toolkit_and_claims_no_gpu(text: str) -> None:
    """The engine may be elsewhere: nobody looked whether there is one. The texts are assumed: no GPU was at hand."""
    error = cannot_start(text, Command(argv=("it",)), engine="Docker Engine 26.1.5")

    assert error.message.startswith("Docker Engine 26.1.5 cannot give the image an NVIDIA GPU")
    assert "NVIDIA Container Toolkit" in error.hint
