"""The runners that this machine has: for the same small image, and for the real one where it is built."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.engines import SETTINGS
from tests.support.project import ROOT
from trainyard.errors import RunnerError
from trainyard.oci.runnable import read_runnable
from trainyard.paths import Project
from trainyard.platforms import Platform
from trainyard.runner.choose import Candidate
from trainyard.runner.engine import Engine, connect
from trainyard.runner.native import NativeRunner, open_native
from trainyard.runner.podman_cli import Podman
from trainyard.store import Store

HOST = Platform.of_machine(*(getattr(os.uname(), name) for name in ("sysname", "machine")))


def can_unshare(*, as_root: bool) -> bool:
    """Whether this host lets us make namespaces at all; a container without rights does not."""
    flags = (
        ["--mount", "--pid", "--fork"]
        if as_root
        else ["--user", "--map-root-user", "--mount", "--pid", "--fork"]
    )
    probe = ["unshare", *flags, "mount", "-t", "tmpfs", "none", "/tmp"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def built_cuda() -> NativeRunner:
    """The native runner of this project's own cuda13.2, where it is built."""
    if HOST is None or not can_unshare(as_root=os.geteuid() == 0):
        pytest.skip("this host lets us make no namespaces")
    layout = Project(ROOT).dist("cuda13.2", HOST)
    if not layout.is_dir():
        pytest.skip("cuda13.2 is not built: invoke build")
    return open_native(read_runnable(layout, HOST), Store(SETTINGS.cache), host=HOST)


def docker_engine(environ: Mapping[str, str] = SETTINGS.environ) -> Engine:
    """The engine of DOCKER_HOST."""
    try:
        return connect(environ)
    except RunnerError as error:
        pytest.skip(f'no engine: {error.message}; eval "$(.ci/engine start)"')


@contextlib.contextmanager
def podman_environ() -> Iterator[Mapping[str, str]]:
    """An environment in which podman has a store of its own, which is gone afterwards."""
    if shutil.which("podman") is None:
        pytest.skip("no podman: apt-get install podman runc")
    place = Path(tempfile.mkdtemp(prefix="trainyard-podman-"))
    settings = place / "containers.conf"
    # crun refuses the mixed cgroups that some machines have; runc does not.
    runtime = 'runtime = "runc"\n' if shutil.which("runc") else ""
    settings.write_text(f'[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\n{runtime}')
    storage = place / "storage.conf"
    storage.write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{place}/root"\nrunroot = "{place}/run"\n'
    )
    (place / "tmp").mkdir()
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(place),
        "TMPDIR": f"{place}/tmp",
        # As `.ci/engine` exports it: a folder that has no config.json.
        "DOCKER_CONFIG": f"{place}/docker",
        "CONTAINERS_CONF": str(settings),
        "CONTAINERS_STORAGE_CONF": str(storage),
    }
    try:
        yield environ
    finally:
        subprocess.run(["podman", "rm", "--all", "--force"], env=environ, capture_output=True, check=False)
        subprocess.run(["umount", f"{place}/root/overlay"], capture_output=True, check=False)
        shutil.rmtree(place, ignore_errors=True)


def podman(environ: Mapping[str, str]) -> Podman:
    """A podman that works here."""
    try:
        return Podman.find(environ)
    except RunnerError as error:
        pytest.skip(error.message)


def candidate(
    layout: Path, store: Store, environ: Mapping[str, str], platform: Platform | None = HOST
) -> Candidate:
    """An image in a layout, for `open_runner`."""
    assert HOST is not None
    return Candidate(
        layout=layout,
        platform=platform or HOST,
        repository="trainyard-test",
        store=store,
        host=HOST,
        environ=environ,
    )
