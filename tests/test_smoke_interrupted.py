"""However `invoke smoke` is ended while the checks run, no container and no process is left.

docker needs an engine (`eval "$(.ci/engine start)"`), podman Debian's podman and runc.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import engines, runners
from tests.support.layouts import write_layout
from tests.support.project import copy_project
from tests.support.pythonimage import CONFIG, PYTHON, base_layer, files_layer
from tests.support.runners import HOST, can_unshare
from tests.test_commands_load import DOCKER
from trainyard.runner.container import LABEL
from trainyard.smoke.run import DOCTOR

MARK = "trainyard-test-sleeper"
# Deaf to all that can be refused; the kernel's SIGKILL is what must end it.
SLEEPER = f"""#!{PYTHON}
import signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
sys.argv.append("{MARK}")
time.sleep(600)
"""


@dataclass(frozen=True, slots=True)
class Here:
    """A project whose built image sleeps when it is tested, and a runner: what it runs, and what it has left."""

    project: Path
    runner: str
    environ: Mapping[str, str]
    containers: Callable[[bool], list[str]]

    @contextlib.contextmanager
    def smoking(self) -> Iterator[subprocess.Popen[str]]:
        """`invoke smoke`, once the image's command runs."""
        environ = {**os.environ, "TRAINYARD_CACHE": str(self.project / "cache"), **self.environ}
        with subprocess.Popen(
            [sys.executable, "-m", "invoke", "smoke", "--runner", self.runner],
            cwd=self.project,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            wait_for(lambda: process.poll() is not None or sleepers(), "the command does not run")
            assert process.poll() is None, process.communicate()
            yield process
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def wait_for(condition: Callable[[], object], complaint: str) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError(complaint)


def sleepers() -> list[int]:
    """Processes of this host that are the image's doctor, and have begun to sleep."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            status = (path / "status").read_text()
            ignored = int(status.partition("SigIgn:\t")[2][:16], 16)
            if (
                DOCTOR.encode() in (path / "cmdline").read_bytes().split(b"\0")[:3]
                and ignored & 0x4003 == 0x4003
            ):
                found.append(int(path.name))
    return found


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert HOST is not None
    root = copy_project(tmp_path_factory.mktemp("interrupted") / "project")
    doctor = files_layer({DOCTOR.lstrip("/"): SLEEPER}, executable=[DOCTOR.lstrip("/")])
    where = root / "dist" / "cuda13.2" / HOST.slug
    write_layout(where, [base_layer(), doctor], config=CONFIG, architecture=HOST.arch)
    return root


@pytest.fixture(scope="module", params=["native", "docker", "podman"])
def here(request: pytest.FixtureRequest, project: Path) -> Iterator[Here]:
    with contextlib.ExitStack() as stack:
        if request.param == "native":
            if not can_unshare(as_root=os.geteuid() == 0):
                pytest.skip("this host lets us make no namespaces")
            yield Here(project, "native", {}, lambda _all: [])
        elif request.param == "docker":
            api = runners.docker_engine().client.api
            environ = {name: value for name, value in engines.SETTINGS.environ.items() if name in DOCKER}
            seen = {"label": LABEL}
            yield Here(
                project,
                "docker",
                environ,
                lambda every: [one["Id"] for one in api.containers(all=every, filters=seen)],
            )
            for tag in {tag for image in api.images("cuda13.2") for tag in image["RepoTags"]}:
                api.remove_image(tag, force=True)
        else:
            environ = dict(stack.enter_context(runners.podman_environ()))
            podman = runners.podman(environ)
            words = ("ps", "--quiet", "--filter", f"label={LABEL}")
            yield Here(
                project,
                "podman",
                environ,
                lambda every: podman.must(*words, *["--all"] * every).split(),
            )


ENDS = {
    "SIGINT to the group, as a terminal's Ctrl-C": (os.killpg, signal.SIGINT),
    "SIGTERM to it alone, as a CI that cancels": (os.kill, signal.SIGTERM),
    "SIGHUP to the group, as a terminal that closes": (os.killpg, signal.SIGHUP),
}


@pytest.mark.parametrize("how", ENDS)
def test_nothing_is_left_and_the_exit_code_says_which_signal(here: Here, how: str) -> None:
    send, number = ENDS[how]
    with here.smoking() as process:
        send(process.pid, number)
        _, said = process.communicate(timeout=60)

        assert process.returncode == 128 + number, said
        assert "Traceback" not in said
        wait_for(lambda: not sleepers(), "a process is left")
        assert here.containers(True) == []


def test_an_impatient_second_ctrl_c_leaves_nothing_either(here: Here) -> None:
    with here.smoking() as process:
        # So dense that one falls into the removal, however long that takes here.
        for _ in range(100):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.02)
        process.communicate(timeout=60)

        wait_for(lambda: not sleepers(), "a process is left")
        assert here.containers(True) == []
