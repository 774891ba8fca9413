"""One contract, three runners: the checks of an image cannot tell which one runs them.

docker needs an engine (`eval "$(.ci/engine start)"`), the old one `.ci/engine --old`; podman Debian's podman and runc.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import zstandard

from tests.support import engines, runners
from tests.support.layouts import Layer, write_layout
from tests.support.layouts import layer as make_layer
from tests.support.pythonimage import CONFIG, PYTHON, base_layer, files_layer
from tests.support.runners import HOST, can_unshare
from trainyard.errors import RunnerError
from trainyard.runner.base import HOSTNAME, MAX_OUTPUT, Command, Completed, Confinement, Runner
from trainyard.runner.choose import open_runner
from trainyard.runner.container import LABEL
from trainyard.runner.docker import DockerRunner
from trainyard.runner.podman import PodmanRunner
from trainyard.smoke.profiles import HOSTILE, NORMAL
from trainyard.store import Store

HOSTS = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
ENTRY = "import os, sys; os.environ['VIA'] = 'entry'; os.execvp(sys.argv[1], sys.argv[1:])\n"


@dataclass(frozen=True, slots=True)
class Yard:
    """A runner over the Python image."""

    runner: Runner

    def run(self, argv: Sequence[str], how: Confinement = NORMAL, **options: object) -> Completed:
        command = replace(Command(argv=tuple(argv), timeout=60), **options)  # type: ignore[arg-type]
        return self.runner.run(command, how)

    def python(self, code: str, how: Confinement = NORMAL, **options: object) -> Completed:
        return self.run([PYTHON, "-c", textwrap.dedent(code)], how, **options)

    def ask(self, expression: str, how: Confinement = NORMAL, **options: object) -> object:
        """The value of a Python expression inside."""
        code = f"import json, os, socket, sys, pathlib\nprint(json.dumps({expression}))"
        done = self.python(code, how, **options)
        assert done.rc == 0, done.stderr.decode()
        return json.loads(done.stdout)

    def left(self) -> list[str]:
        """Containers of ours that the engine still has."""
        if isinstance(self.runner, DockerRunner):
            listed = self.runner.engine.client.api.containers(all=True, filters={"label": LABEL})
            return [container["Id"] for container in listed]
        if isinstance(self.runner, PodmanRunner):
            return self.runner.podman.must("ps", "--all", "--quiet", "--filter", f"label={LABEL}").split()
        return []


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image with an entrypoint, whose hosts file is like a real one's."""
    assert HOST is not None
    where = tmp_path_factory.mktemp("image") / HOST.slug
    config = {**CONFIG, "Entrypoint": [PYTHON, "/opt/entry.py"], "Cmd": [PYTHON, "-c", "print('default')"]}
    files = {"opt/entry.py": ENTRY, "etc/hosts": HOSTS}
    write_layout(where, [base_layer(), files_layer(files)], config=config, architecture=HOST.arch)
    gzipped = [repacked(one) for one in (base_layer(), files_layer(files))]
    write_layout(where.with_name(f"{where.name}.gzip"), gzipped, config=config, architecture=HOST.arch)
    return where


def repacked(one: Layer) -> Layer:
    """The same tar for an engine from before zstd layers."""
    with zstandard.ZstdDecompressor().stream_reader(one.blob) as reader:
        return make_layer(reader.read(), compression="gzip")


@pytest.fixture(scope="module")
def bare_layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image without an entrypoint, so that the command itself is what a runner starts."""
    assert HOST is not None
    where = tmp_path_factory.mktemp("bare") / HOST.slug
    write_layout(where, [base_layer()], config=CONFIG, architecture=HOST.arch)
    write_layout(
        where.with_name(f"{where.name}.gzip"), [repacked(base_layer())], config=CONFIG, architecture=HOST.arch
    )
    return where


@pytest.fixture(scope="module", params=["native", "docker", "old docker", "podman"])
def opener(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Path], Yard]]:
    """What opens a layout on one runner."""
    store = Store(tmp_path_factory.mktemp("store"))
    environ = engines.SETTINGS.environ
    with contextlib.ExitStack() as stack:
        if request.param == "native" and not can_unshare(as_root=os.geteuid() == 0):
            pytest.skip("this host lets us make no namespaces")
        if request.param == "old docker":
            environ = {**environ, "DOCKER_HOST": engines.old_host()}
        if request.param.endswith("docker"):
            runners.docker_engine(environ)
        if request.param == "podman":
            environ = stack.enter_context(runners.podman_environ())
            runners.podman(environ)

        def open_one(layout: Path) -> Yard:
            name = request.param.removeprefix("old ")
            runner = open_runner(name, runners.candidate(layout, store, environ)).runner
            if isinstance(runner, DockerRunner):
                stack.callback(runner.engine.client.images.remove, runner.image_id, force=True)
            return Yard(runner)

        yield open_one


@pytest.fixture(scope="module")
def yard(opener: Callable[[Path], Yard], layout: Path) -> Yard:
    """The image with an entrypoint."""
    return opener(layout)


def test_exit_code_and_both_streams_come_back(yard: Yard) -> None:
    done = yard.python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)")

    assert (done.rc, done.stdout, done.stderr) == (7, b"out\n", b"err\n")
    assert not done.timed_out
    assert not done.out_of_memory


def test_the_entrypoint_comes_before_the_command_and_before_the_default_one(yard: Yard) -> None:
    assert yard.ask("[os.environ['VIA'], os.getpid()]") == ["entry", 1]
    assert yard.run([]).stdout == b"default\n"


def test_the_environment_is_the_image_s_with_what_is_added_and_without_what_is_removed(yard: Yard) -> None:
    env = yard.ask("dict(os.environ)", env=(("ADDED", "a b=c\n"), ("LANG", None), ("HOME", "/tmp")))

    assert isinstance(env, dict)
    env.pop("LC_CTYPE", None)  # Python's own
    assert env == {
        "PATH": "/opt/venv/bin:/usr/bin:/bin",
        "HOME": "/tmp",
        "LD_LIBRARY_PATH": "/usr/lib/host",
        "HOSTNAME": HOSTNAME,
        "ADDED": "a b=c\n",
        "VIA": "entry",
    }


def test_the_user_and_the_working_folder_are_the_image_s(yard: Yard) -> None:
    assert yard.ask("[os.getuid(), os.getgid(), os.getcwd()]") == [1000, 0, "/home/user"]


@pytest.mark.parametrize(("user", "ids"), [("user:staff", [1000, 50]), ("root", [0, 0]), ("7:8", [7, 8])])
def test_another_user_can_be_asked_for_by_name_or_number(yard: Yard, user: str, ids: list[int]) -> None:
    assert yard.ask("[os.getuid(), os.getgid()]", Confinement(user=user)) == ids


def test_a_user_that_the_image_lacks_is_an_error_with_its_name(yard: Yard) -> None:
    with pytest.raises(RunnerError, match="the image has no user 'nobody'"):
        yard.ask("1", Confinement(user="nobody"))
    assert yard.left() == []


def test_capabilities_are_the_same_few_for_root_and_none_in_force_for_others(yard: Yard) -> None:
    status = "[l for l in open('/proc/self/status') if l.startswith(('CapEff', 'CapBnd'))]"

    assert yard.ask(status) == ["CapEff:\t0000000000000000\n", "CapBnd:\t00000000800405fb\n"]
    assert yard.ask(status, Confinement(user="0")) == [
        "CapEff:\t00000000800405fb\n",
        "CapBnd:\t00000000800405fb\n",
    ]


def test_there_is_no_network_but_loopback(yard: Yard) -> None:
    done = yard.python(
        """
        import socket
        print([name for _, name in socket.if_nameindex()])
        inside = socket.create_server(("127.0.0.1", 0))
        socket.create_connection(inside.getsockname()).close()
        try:
            socket.create_connection(("192.0.2.1", 80), 2)
        except OSError as error:
            print(type(error).__name__)
        """
    )

    assert done.stdout.decode().splitlines() == ["['lo']", "OSError"], done.stderr


def test_localhost_resolves_and_the_hostname_does_not(yard: Yard) -> None:
    done = yard.python(
        """
        import socket
        print(socket.gethostbyname("localhost"))
        try:
            print(socket.gethostbyname(socket.gethostname()))
        except socket.gaierror:
            print("no address for", socket.gethostname())
        """
    )

    assert done.stdout == b"127.0.0.1\nno address for trainyard.invalid\n", done.stderr


WRITES = """
import pathlib
for folder in ("/", "/etc", "/home/user", "/opt/venv", "/sys", "/tmp", "/run", "/dev/shm"):
    try:
        pathlib.Path(folder, "x").write_text("x")
        print(folder, "written")
    except OSError as error:
        print(folder, error.errno in (13, 30))
"""


def test_a_read_only_root_takes_writes_only_in_tmp_and_shm(yard: Yard) -> None:
    done = yard.python(WRITES, Confinement(read_only=True))

    assert [line.split()[0] for line in done.stdout.decode().splitlines() if "written" in line] == [
        "/tmp",
        "/dev/shm",
    ], done.stderr


def test_a_writable_root_takes_what_permissions_allow_and_forgets_it(yard: Yard) -> None:
    done = yard.python(WRITES)

    assert [line.split()[0] for line in done.stdout.decode().splitlines() if "written" in line] == [
        "/home/user",
        "/opt/venv",
        "/tmp",
        "/dev/shm",
    ], done.stderr
    assert yard.ask("[os.listdir(p) for p in ('/home/user', '/tmp', '/dev/shm')]") == [[], [], []]


def test_shm_has_the_size_that_was_asked_for(yard: Yard) -> None:
    size = "(lambda s: s.f_blocks * s.f_frsize)(os.statvfs('/dev/shm'))"

    assert yard.ask(size) == 64 << 20
    assert yard.ask(size, Confinement(shm_size=1 << 20)) == 1 << 20


def test_tmp_can_be_mounted_without_execution(yard: Yard) -> None:
    code = """
    import os, pathlib
    path = pathlib.Path("/tmp/script")
    path.write_text("#!/bin/sh\\nexit 3\\n")
    path.chmod(0o755)
    print(os.waitstatus_to_exitcode(os.system("/tmp/script 2>/dev/null")), oct(os.stat("/tmp").st_mode))
    """

    assert yard.python(code).stdout == b"3 0o41777\n"
    assert yard.python(code, Confinement(noexec_tmp=True)).stdout == b"126 0o41777\n"


def test_the_hostile_profile_leaves_a_process_nothing_to_lean_on(yard: Yard) -> None:
    wanted = ("Uid", "Gid", "NoNewPrivs", "CapBnd", "CapEff")
    status = f"dict(l.split(':', 1) for l in open('/proc/self/status') if l.startswith({wanted!r}))"
    known = "'987654' in pathlib.Path('/etc/passwd').read_text()"

    found = yard.ask(f"[{status}, {known}, len(os.sched_getaffinity(0))]", HOSTILE)
    assert found == [
        {
            "Uid": "\t987654\t987654\t987654\t987654\n",
            "Gid": "\t0\t0\t0\t0\n",
            "NoNewPrivs": "\t1\n",
            "CapBnd": "\t0000000000000000\n",
            "CapEff": "\t0000000000000000\n",
        },
        False,
        min(2, len(os.sched_getaffinity(0))),
    ]


def test_processes_can_be_limited(yard: Yard) -> None:
    done = yard.python(
        """
        import os, time
        count = 0
        try:
            while count < 100:
                if os.fork() == 0:
                    time.sleep(30)
                    os._exit(0)
                count += 1
        except BlockingIOError:
            print(count)
        """,
        replace(HOSTILE, processes=20),
    )

    assert 0 < int(done.stdout) < 20, done.stderr


def test_cpus_can_be_limited(yard: Yard) -> None:
    assert yard.ask("len(os.sched_getaffinity(0))", Confinement(cpus=1)) == 1


def test_no_core_is_dumped(yard: Yard) -> None:
    assert yard.ask("__import__('resource').getrlimit(4)") == [0, 0]


def test_standard_input_is_empty(yard: Yard) -> None:
    assert yard.ask("sys.stdin.read()") == ""


def test_a_signal_is_told_as_a_shell_tells_it(yard: Yard) -> None:
    # Process 1 has no default action for a signal of its own; a fault is the kernel's.
    done = yard.python("import ctypes; ctypes.string_at(0)")

    assert done.rc == 128 + signal.SIGSEGV


def test_each_line_of_stderr_is_heard_before_the_command_ends(yard: Yard) -> None:
    heard: list[str] = []
    code = "import sys, time; print('one\\ntwo', file=sys.stderr, flush=True); time.sleep(300)"
    up = threading.Event()

    def hear(line: str) -> None:
        heard.append(line)
        if line == "two":
            up.set()

    command = Command(argv=(PYTHON, "-c", code), timeout=10)
    worker = threading.Thread(target=lambda: yard.runner.run(command, NORMAL, on_line=hear))
    worker.start()
    in_time = up.wait(10)
    alive = worker.is_alive()
    worker.join()

    assert in_time
    assert alive
    assert heard == ["one", "two"]


def test_a_flood_of_output_is_cut_and_does_not_block(yard: Yard) -> None:
    done = yard.python("import sys; sys.stdout.write('x' * (20 << 20)); print('end', file=sys.stderr)")

    assert (done.rc, len(done.stdout), done.stderr) == (0, MAX_OUTPUT, b"end\n")


def test_when_the_time_is_up_all_processes_end(yard: Yard) -> None:
    child = "import signal, time; signal.signal(15, 1); time.sleep(300)"
    code = f"""
    import signal, subprocess, sys, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen([sys.executable, "-c", {child!r}], start_new_session=True)
    print("up", file=sys.stderr, flush=True)
    time.sleep(300)
    """
    start = time.monotonic()
    done = yard.python(code, timeout=4.0)

    assert (done.rc, done.timed_out) == (137, True)
    assert time.monotonic() - start < 120
    assert yard.left() == []


def test_an_interrupt_leaves_no_container(yard: Yard) -> None:
    def interrupt(line: str) -> None:
        if line == "up":
            os.kill(os.getpid(), signal.SIGINT)

    command = Command(
        argv=(PYTHON, "-c", "import sys, time; print('up', file=sys.stderr, flush=True); time.sleep(300)"),
        timeout=60,
    )
    with pytest.raises(KeyboardInterrupt):
        yard.runner.run(command, NORMAL, on_line=interrupt)

    assert yard.left() == []


def test_a_program_that_is_not_there_is_an_error_with_its_name(
    opener: Callable[[Path], Yard], bare_layout: Path
) -> None:
    bare = opener(bare_layout)
    with pytest.raises(RunnerError, match="the image cannot run /nope -x") as caught:
        bare.run(["/nope", "-x"])

    assert caught.value.hint == "is it in the image?"
    assert bare.left() == []


def test_a_container_that_somebody_else_removes_is_an_end_and_no_traceback(yard: Yard) -> None:
    if not isinstance(yard.runner, DockerRunner | PodmanRunner):
        pytest.skip("this host's native runner has nothing that another could remove")

    def remove(line: str) -> None:
        if line == "up" and isinstance(yard.runner, DockerRunner):
            for one in yard.left():
                yard.runner.engine.client.api.remove_container(one, force=True)
        elif line == "up" and isinstance(yard.runner, PodmanRunner):
            yard.runner.podman.must("rm", "--force", "--time", "0", *yard.left())

    code = "import sys, time; print('up', file=sys.stderr, flush=True); time.sleep(300)"
    command = Command(argv=(PYTHON, "-c", code), timeout=60)
    with pytest.raises(RunnerError, match="could not run the container"):
        yard.runner.run(command, NORMAL, on_line=remove)
    assert yard.left() == []


def test_the_report_s_facts_are_the_image_s(yard: Yard, layout: Path) -> None:
    old = isinstance(yard.runner, DockerRunner) and not yard.runner.engine.reads_zstd
    index = json.loads(
        (layout.with_name(f"{layout.name}.gzip") if old else layout).joinpath("index.json").read_text()
    )

    assert yard.runner.digest == index["manifests"][0]["digest"]
    assert yard.runner.platform == HOST
    assert yard.runner.notes
