"""Which runner `auto` takes on a host that lacks some, and what is said where none is left."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support import engines, runners
from tests.support.layouts import write_layout
from tests.support.pythonimage import CONFIG, PYTHON, base_layer
from tests.support.runners import HOST, can_unshare
from tests.support.users import in_fork
from tests.test_runner_native import forbid_mounting
from trainyard.errors import RunnerError
from trainyard.platforms import Platform
from trainyard.runner.base import Command
from trainyard.runner.choose import Candidate, open_runner
from trainyard.runner.docker import DockerRunner
from trainyard.smoke.profiles import NORMAL
from trainyard.store import Store

NOWHERE: Mapping[str, str] = {"PATH": "/nowhere", "DOCKER_HOST": "unix:///nowhere/docker.sock"}
root = pytest.mark.skipif(
    os.geteuid() != 0, reason="this host's tests do not run as root, who can give rights up"
)


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert HOST is not None
    where = tmp_path_factory.mktemp("image") / HOST.slug
    write_layout(where, [base_layer()], config=CONFIG, architecture=HOST.arch)
    return where


def chosen(name: str, candidate: Candidate) -> tuple[str, bytes]:
    """The runner's name, and what a command printed in it."""
    runner = open_runner(name, candidate).runner
    try:
        done = runner.run(Command(argv=(PYTHON, "-c", "print('ran')")), NORMAL)
    finally:
        if isinstance(runner, DockerRunner):
            runner.engine.client.images.remove(runner.image_id, force=True)
    return runner.name, done.stdout


def test_native_is_taken_where_it_works_and_no_engine_is_looked_for(layout: Path, store: Store) -> None:
    if not can_unshare(as_root=os.geteuid() == 0):
        pytest.skip("this host lets us make no namespaces")

    assert chosen("auto", runners.candidate(layout, store, NOWHERE)) == ("native", b"ran\n")


@root
def test_without_namespaces_docker_is_taken(layout: Path, store: Store) -> None:
    runners.docker_engine()
    candidate = runners.candidate(layout, store, engines.SETTINGS.environ)

    assert in_fork(lambda: chosen("auto", candidate), before=forbid_mounting) == ("docker", b"ran\n")


@root
def test_where_nothing_works_each_says_why(layout: Path, store: Store) -> None:
    candidate = runners.candidate(layout, store, NOWHERE)
    with pytest.raises(RunnerError) as caught:
        in_fork(lambda: open_runner("auto", candidate), before=forbid_mounting)

    first, *reasons = caught.value.message.splitlines()
    assert first == f"nothing here runs an image for {HOST}:"
    assert [reason.strip().partition(":")[0] for reason in reasons] == ["native", "docker", "podman"]
    assert "no namespaces on this host: unshare: Operation not permitted" in reasons[0]
    assert "/nowhere/docker.sock: No such file or directory" in reasons[1]
    assert "there is no `podman` on PATH" in reasons[2]
    anchor = caught.value.hint.partition("docs/troubleshooting.md#")[2].split()[0]
    assert anchor == "runners"
    assert "## Runners" in (Path(__file__).parents[1] / "docs/troubleshooting.md").read_text()


def test_an_image_for_another_architecture_is_not_emulated_unless_asked_for(
    tmp_path: Path, store: Store
) -> None:
    """Slow, and no proof of anything about the hardware; `auto` would hide that."""
    assert HOST is not None
    runners.docker_engine()
    other = Platform("linux", "amd64" if HOST.arch == "arm64" else "arm64")
    write_layout(tmp_path / other.slug, [base_layer()], config=CONFIG, architecture=other.arch)
    candidate = runners.candidate(tmp_path / other.slug, store, engines.SETTINGS.environ, platform=other)
    with pytest.raises(RunnerError, match=rf"docker: Docker Engine \S+ runs {HOST}"):
        open_runner("auto", candidate)


@pytest.mark.parametrize("name", ["docker", "podman"])
def test_a_runner_that_is_asked_for_by_name_is_not_replaced(layout: Path, store: Store, name: str) -> None:
    with pytest.raises(RunnerError) as caught:
        open_runner(name, runners.candidate(layout, store, NOWHERE))

    assert name in caught.value.message.lower()
    assert caught.value.hint
