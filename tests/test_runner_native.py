"""The native runner: what a command sees inside, and that nothing is left outside."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import textwrap
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.support.layouts import write_layout
from tests.support.pythonimage import CONFIG, PYTHON, base_layer, files_layer
from tests.support.runners import HOST, can_unshare
from tests.support.users import ORDINARY, SYSTEM_PYTHON, as_ordinary_user, become_ordinary, in_fork
from trainyard.errors import RunnerError
from trainyard.oci.runnable import RunnableImage, read_runnable
from trainyard.oci.unpack import unpack_image
from trainyard.platforms import Platform
from trainyard.runner.base import MAX_OUTPUT, Command, Completed, Confinement
from trainyard.runner.devices import DRIVER_FOLDER, find_devices
from trainyard.runner.native import NativeRunner, open_native
from trainyard.smoke.profiles import HOSTILE
from trainyard.store import Store

REPOSITORY = Path(__file__).parents[1]
READ_ONLY = Confinement(read_only=True)
ENTRY = "import os, sys; os.environ['VIA'] = 'entry'; os.execvp(sys.argv[1], sys.argv[1:])\n"


@dataclass(frozen=True, slots=True)
class Yard:
    """A runner over the Python image, as root or as an ordinary user."""

    runner: NativeRunner
    ordinary_in_fork: bool

    def run(self, argv: Sequence[str], how: Confinement = READ_ONLY, **options: object) -> Completed:
        command = Command(argv=tuple(argv), timeout=60)
        command = replace(command, **options)  # type: ignore[arg-type]
        if self.ordinary_in_fork:
            return as_ordinary_user(lambda: self.runner.run(command, how))
        return self.runner.run(command, how)

    def python(self, code: str, how: Confinement = READ_ONLY, **options: object) -> Completed:
        return self.run([PYTHON, "-c", textwrap.dedent(code)], how, **options)

    def ask(self, expression: str, how: Confinement = READ_ONLY, **options: object) -> object:
        """The value of a Python expression inside."""
        done = self.python(
            f"import json, os, socket, sys, pathlib\nprint(json.dumps({expression}))", how, **options
        )
        assert done.rc == 0, done.stderr.decode()
        return json.loads(done.stdout)


@pytest.fixture(scope="module", params=["root", "ordinary user"])
def yard(request: pytest.FixtureRequest) -> Iterator[Yard]:
    as_root = request.param == "root"
    if HOST is None or HOST.os != "linux":
        pytest.skip("needs Linux")
    if as_root and os.geteuid() != 0:
        pytest.skip("needs root")
    if not can_unshare(as_root=as_root):
        pytest.skip(f"this host lets {request.param} make no namespaces")
    fork = not as_root and os.geteuid() == 0
    place = Path(tempfile.mkdtemp(prefix="trainyard-yard-"))
    try:
        write_layout(
            place / "layout",
            [base_layer(), files_layer({"opt/entry.py": ENTRY})],
            config=CONFIG,
            architecture=HOST.arch,
        )
        image = read_runnable(place / "layout", HOST)
        if fork:
            if SYSTEM_PYTHON is None or not as_ordinary_user(
                lambda: os.access(REPOSITORY / "trainyard", os.R_OK)
            ):
                pytest.skip("an ordinary user cannot read the repository or has no Python")
            os.chown(place, ORDINARY, ORDINARY)
            unpacked = as_ordinary_user(lambda: unpack_image(image, Store(place / "store"), owners=False))
        else:
            unpacked = unpack_image(image, Store(place / "store"), owners=as_root)
        python = SYSTEM_PYTHON if fork else sys.executable
        assert python is not None
        yield Yard(NativeRunner(image=image, unpacked=unpacked, python=python), fork)
    finally:
        shutil.rmtree(place)


def with_image(yard: Yard, **changes: object) -> Yard:
    image = replace(yard.runner.image, **changes)  # type: ignore[arg-type]
    return replace(yard, runner=replace(yard.runner, image=image))


def test_exit_code_and_both_streams_come_back(yard: Yard) -> None:
    done = yard.python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)")

    assert (done.rc, done.stdout, done.stderr) == (7, b"out\n", b"err\n")
    assert not done.timed_out


def test_the_environment_is_the_images_and_nothing_of_the_host(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOST_SECRET", "x")

    env = yard.ask("dict(os.environ)", env=(("ADDED", "1"), ("LANG", None)))

    assert isinstance(env, dict)
    assert set(env) - {"LC_CTYPE"} == {"PATH", "HOME", "LD_LIBRARY_PATH", "HOSTNAME", "ADDED"}
    assert env["HOME"] == "/home/user"


def test_the_user_is_the_images_in_group_0_without_capabilities(yard: Yard) -> None:
    ids = yard.ask("[os.getuid(), os.geteuid(), os.getgid(), os.getegid()]")
    status = str(yard.ask("pathlib.Path('/proc/self/status').read_text()"))

    assert ids == [1000, 1000, 0, 0]
    assert "CapEff:\t0000000000000000" in status
    assert "CapPrm:\t0000000000000000" in status


def test_another_user_can_be_asked_for_by_name_or_number(yard: Yard) -> None:
    assert yard.ask("[os.getuid(), os.getgid()]", Confinement(user="987654:0", read_only=True)) == [987654, 0]
    assert yard.ask("[os.getuid(), os.getgid()]", Confinement(user="user:staff", read_only=True)) == [
        1000,
        50,
    ]
    assert yard.ask("[os.getuid(), os.getgid()]", Confinement(user="root", read_only=True)) == [0, 0]
    with pytest.raises(RunnerError, match="no user 'nobody'"):
        yard.ask("1", Confinement(user="nobody", read_only=True))


def test_the_working_folder_is_the_images(yard: Yard) -> None:
    assert yard.ask("os.getcwd()") == "/home/user"


def test_the_entrypoint_comes_before_the_command(yard: Yard) -> None:
    wrapped = with_image(yard, entrypoint=(PYTHON, "/opt/entry.py"))

    assert wrapped.ask("[os.environ['VIA'], os.getpid()]") == ["entry", 1]


def test_there_is_no_network_but_loopback(yard: Yard) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = yard.python(
            f"""
            import socket
            print([name for _, name in socket.if_nameindex()])
            inside = socket.create_server(("127.0.0.1", 0))
            socket.create_connection(inside.getsockname()).close()
            for address in (("127.0.0.1", {port}), ("192.0.2.1", 80)):
                try:
                    socket.create_connection(address, 2)
                    print("reached", address)
                except OSError as error:
                    print(type(error).__name__)
            """
        )

    assert done.stdout.decode().splitlines() == ["['lo']", "ConnectionRefusedError", "OSError"], done.stderr


def test_the_hostname_does_not_resolve_and_localhost_does(yard: Yard) -> None:
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


def test_a_read_only_root_takes_writes_only_in_tmp_and_shm(yard: Yard) -> None:
    done = yard.python(
        """
        import pathlib
        for folder in ("/", "/home/user", "/opt/venv", "/sys", "/tmp", "/dev/shm"):
            try:
                pathlib.Path(folder, "x").write_text("x")
                print("wrote", folder)
            except OSError as error:
                print(error.errno in (13, 30), folder)
        """
    )

    assert done.stdout.decode().split("\n")[:-1] == [
        "True /",
        "True /home/user",
        "True /opt/venv",
        "True /sys",
        "wrote /tmp",
        "wrote /dev/shm",
    ], done.stderr


def test_what_is_written_into_a_writable_root_is_gone_afterwards(yard: Yard) -> None:
    how = Confinement()
    write = "[pathlib.Path(folder, 'x').write_text('x') for folder in ('/home/user', '/opt/venv/bin')]"

    assert yard.ask(write, how) == [1, 1]

    assert yard.ask("os.listdir('/home/user')", how) == []
    assert list((yard.runner.unpacked.root / "home/user").iterdir()) == []


def test_shm_has_the_size_that_was_asked_for(yard: Yard) -> None:
    size = "(lambda s: s.f_blocks * s.f_frsize)(os.statvfs('/dev/shm'))"

    assert yard.ask(size) == 64 << 20
    assert yard.ask(size, Confinement(read_only=True, shm_size=1 << 20)) == 1 << 20


def test_the_hosts_files_are_out_of_sight(yard: Yard) -> None:
    names = yard.ask("[sorted(os.listdir('/')), os.path.exists('/proc/1/root/etc/shadow')]")

    assert names == [["bin", "dev", "etc", "home", "lib64", "opt", "proc", "run", "sys", "tmp", "usr"], False]


def test_devices_are_the_usual_few(yard: Yard) -> None:
    names = yard.ask("sorted(os.listdir('/dev'))")
    usable = yard.ask("[len(open('/dev/urandom', 'rb').read(4)), open('/dev/null', 'w').write('x')]")

    assert names == (
        [
            "fd",
            "full",
            "null",
            "ptmx",
            "pts",
            "random",
            "shm",
            "stderr",
            "stdin",
            "stdout",
            "tty",
            "urandom",
            "zero",
        ]
    )
    assert usable == [4, 1]


def test_stdout_can_be_opened_by_its_name(yard: Yard) -> None:
    assert yard.python("open('/dev/stdout', 'w').write('x')").stdout == b"x"


def test_standard_input_is_empty(yard: Yard) -> None:
    assert yard.ask("sys.stdin.read()") == ""


def test_a_signal_is_told_as_a_shell_tells_it(yard: Yard) -> None:
    done = yard.run(["/bin/sh", "-c", f"{PYTHON} -c 'import os; os.kill(os.getpid(), 11)'; exit $?"])

    assert done.rc == 128 + signal.SIGSEGV


def test_each_line_of_stderr_is_heard_as_it_comes(yard: Yard) -> None:
    heard: list[str] = []
    command = Command(argv=(PYTHON, "-c", "import sys; print('one\\ntwo', file=sys.stderr)"))
    if yard.ordinary_in_fork:
        heard = as_ordinary_user(
            lambda: (yard.runner.run(command, READ_ONLY, on_line=heard.append), heard)[1]
        )
    else:
        yard.runner.run(command, READ_ONLY, on_line=heard.append)

    assert heard == ["one", "two"]


def test_a_flood_of_output_is_cut_and_does_not_block(yard: Yard) -> None:
    done = yard.python("import sys; sys.stdout.write('x' * (20 << 20)); print('end', file=sys.stderr)")

    assert (done.rc, len(done.stdout), done.stderr) == (0, MAX_OUTPUT, b"end\n")


def test_a_program_that_is_not_there_is_an_error_with_its_name(yard: Yard) -> None:
    with pytest.raises(RunnerError, match=r"cannot run /nope: start /nope: No such file"):
        yard.run(["/nope"])


def test_a_working_folder_that_is_not_there_is_an_error_with_its_name(yard: Yard) -> None:
    with pytest.raises(RunnerError, match="working folder /nowhere"):
        with_image(yard, working_dir="/nowhere").ask("1")


def test_the_notes_say_whether_permissions_are_proven(yard: Yard) -> None:
    note = yard.runner.notes[0]

    assert ("not proven" in note) == (not yard.runner.unpacked.owners)


def test_the_hostile_profile_leaves_a_process_nothing_to_lean_on(yard: Yard) -> None:
    status = str(yard.ask("pathlib.Path('/proc/self/status').read_text()", HOSTILE))

    assert "Uid:\t987654\t" in status
    assert "NoNewPrivs:\t1" in status
    assert "CapBnd:\t0000000000000000" in status
    assert yard.ask("len(os.sched_getaffinity(0))", HOSTILE) == min(2, len(os.sched_getaffinity(0)))


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


def test_tmp_can_be_mounted_without_execution(yard: Yard) -> None:
    code = """
    import os, pathlib
    path = pathlib.Path("/tmp/script")
    path.write_text("#!/bin/sh\\nexit 3\\n")
    path.chmod(0o755)
    print(os.waitstatus_to_exitcode(os.system("/tmp/script 2>/dev/null")))
    """

    assert yard.python(code).stdout == b"3\n"
    assert yard.python(code, Confinement(read_only=True, noexec_tmp=True)).stdout == b"126\n"


def processes_with(marker: str) -> list[int]:
    """Processes of this host, in any namespace, that have `marker` among their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker in path.read_text(errors="replace"):
                found.append(int(path.parts[2]))
        except OSError:
            continue
    return found


def gone(marker: str, *, within: float = 10) -> bool:
    end = time.monotonic() + within
    while time.monotonic() < end:
        if not processes_with(marker):
            return True
        time.sleep(0.02)
    return False


def stubborn(marker: str) -> list[str]:
    """A command with a child that leaves its session; neither minds a signal. Says `up` when both run."""
    child = "import signal, time; signal.signal(15, 1); time.sleep(300)"
    code = (
        "import signal, subprocess, sys, time; signal.signal(15, signal.SIG_IGN); "
        f"subprocess.Popen([sys.executable, '-c', {child!r}, sys.argv[1]], start_new_session=True); "
        "print('up', file=sys.stderr, flush=True); time.sleep(300)"
    )
    return [PYTHON, "-c", code, marker]


def test_a_timeout_leaves_no_process_of_the_container(yard: Yard) -> None:
    marker = uuid.uuid4().hex

    done = yard.run(stubborn(marker), timeout=2.0)

    assert done.timed_out
    assert done.rc == 128 + signal.SIGKILL
    assert done.stderr == b"up\n"
    assert done.seconds < 8
    assert processes_with(marker) == []


def test_a_command_that_ends_takes_its_children_along(yard: Yard) -> None:
    marker = uuid.uuid4().hex

    child = "import time; time.sleep(300)"
    code = (
        "import subprocess, sys; "
        f"subprocess.Popen([sys.executable, '-c', {child!r}, sys.argv[1]], start_new_session=True)"
    )
    done = yard.run([PYTHON, "-c", code, marker])

    assert (done.rc, done.timed_out) == (0, False), done.stderr
    assert processes_with(marker) == []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_when_trainyard_dies_the_container_dies_too(yard: Yard, how: signal.Signals) -> None:
    marker = uuid.uuid4().hex
    child = os.fork()
    if child == 0:
        try:
            os.setpgid(0, 0)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if yard.ordinary_in_fork:
                become_ordinary()
            yard.runner.run(Command(argv=tuple(stubborn(marker)), timeout=120), READ_ONLY)
        finally:
            os._exit(0)
    try:
        end = time.monotonic() + 20
        while len(processes_with(marker)) < 2:
            assert time.monotonic() < end, "the container did not come up"
            time.sleep(0.02)
        # Ctrl-C goes to all of the foreground, the others to one process.
        (os.killpg if how is signal.SIGINT else os.kill)(child, how)
        os.waitpid(child, 0)
        assert gone(marker)
    finally:
        for pid in processes_with(marker):
            os.kill(pid, signal.SIGKILL)


def forbid_mounting() -> None:
    """What a container without CAP_SYS_ADMIN is: root, and not allowed to."""
    assert ctypes.CDLL(None).prctl(24, 21, 0, 0, 0) == 0


def forbid_user_namespaces() -> None:
    """A user namespace in which the sysctl is 0; it holds for all below, and for nobody else."""
    become_ordinary()
    libc = ctypes.CDLL(None)
    assert libc.prctl(4, 1, 0, 0, 0) == 0  # a change of user takes /proc/self away
    assert libc.unshare(0x10000000) == 0
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/gid_map").write_text(f"0 {ORDINARY} 1")
    Path("/proc/self/uid_map").write_text(f"0 {ORDINARY} 1")
    Path("/proc/sys/user/max_user_namespaces").write_text("0")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to take rights away from itself")
def test_a_host_that_forbids_namespaces_is_an_error_with_a_choice(yard: Yard) -> None:
    before = forbid_mounting if yard.runner.unpacked.owners else forbid_user_namespaces
    command = Command(argv=(PYTHON,))

    with pytest.raises(RunnerError, match="no container on this host: unshare") as caught:
        in_fork(lambda: yard.runner.run(command, READ_ONLY), before=before)

    assert "--runner docker" in caught.value.hint
    assert "user.max_user_namespaces" in caught.value.hint


def fake_gpu(host: Path) -> None:
    """The files that an NVIDIA driver makes on a host."""
    for name in (
        "dev/nvidia0",
        "dev/nvidiactl",
        "dev/nvidia-caps/nvidia-cap1",
        "dev/dri/renderD128",
        "dev/sda",
    ):
        (host / name).parent.mkdir(parents=True, exist_ok=True)
        (host / name).write_text(name)
    folder = host / "usr/lib/x86_64-linux-gnu"
    folder.mkdir(parents=True)
    for name in ("libcuda.so.580.1", "libnvidia-ml.so.580.1", "libc.so.6"):
        (folder / name).write_text(name)
    (folder / "libcuda.so.1").symlink_to("libcuda.so.580.1")
    for path in (host, *host.rglob("*")):
        path.chmod(0o755)


@pytest.fixture
def host(yard: Yard) -> Iterator[Path]:
    """A host with a GPU, where an ordinary user can see it."""
    place = Path(tempfile.mkdtemp(prefix="trainyard-host-"))
    fake_gpu(place)
    yield place
    shutil.rmtree(place)


LOOK = "sorted(str(p) for p in pathlib.Path('/dev').rglob('*') if p.is_file() and not p.is_symlink())"


def test_an_image_that_asks_gets_the_gpu_and_its_drivers_libraries(yard: Yard, host: Path) -> None:
    devices = find_devices(multiarch="x86_64-linux-gnu", host=host)
    asking = with_image(yard, env=(*yard.runner.image.env, ("NVIDIA_VISIBLE_DEVICES", "all")))
    asking = replace(asking, runner=replace(asking.runner, devices=devices, host=host))

    found = asking.ask(f"[sorted(os.listdir('{DRIVER_FOLDER}')), {LOOK}, os.environ['LD_LIBRARY_PATH']]")
    text = asking.ask(f"pathlib.Path('{DRIVER_FOLDER}/libcuda.so.1').read_text()")

    assert found == [
        ["libcuda.so.1", "libcuda.so.580.1", "libnvidia-ml.so.580.1"],
        ["/dev/dri/renderD128", "/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia0", "/dev/nvidiactl"],
        f"{DRIVER_FOLDER}:/usr/lib/host",
    ]
    assert text == "libcuda.so.580.1"
    assert "device nodes" in asking.runner.notes[1]


def test_an_image_that_does_not_ask_for_nvidia_gets_the_other_devices_only(yard: Yard, host: Path) -> None:
    devices = find_devices(multiarch="x86_64-linux-gnu", host=host)
    plain = replace(yard, runner=replace(yard.runner, devices=devices, host=host))

    assert plain.ask(f"[os.path.exists('{DRIVER_FOLDER}'), {LOOK}]") == [False, ["/dev/dri/renderD128"]]


def test_a_host_without_an_accelerator_gives_nothing(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()

    assert find_devices(multiarch="x86_64-linux-gnu", host=tmp_path).binds(host=tmp_path) == ()


def test_an_image_for_another_platform_is_refused_before_it_is_unpacked(store: Store) -> None:
    other = Platform("linux", "arm64" if Platform("linux", "amd64") == HOST else "amd64")
    image = RunnableImage(
        digest="sha256:0", platform=other, layers=(), env=(), user="", working_dir="/", entrypoint=(), cmd=()
    )

    with pytest.raises(RunnerError, match=f"an image for {other} does not run on this host"):
        open_native(image, store, host=HOST)
    assert not store.root.exists()
