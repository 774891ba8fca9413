"""Become a container and run a command in it; the spec comes as JSON on stdin.

Runs in an interpreter of its own, with nothing but the stdlib and two modules beside it: a process with
threads cannot unshare. There are two processes: the supervisor waits outside, the other is process 1 of a new
PID namespace and becomes the command. Whoever dies takes the ones below along: SIGTERM to the supervisor ends
the namespace, and a supervisor that is killed takes process 1 along by PR_SET_PDEATHSIG.

Manual pages: namespaces(7), user_namespaces(7), mount_namespaces(7), capabilities(7).
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import stat
import sys
from pathlib import Path

from trainyard.runner.kernel import (
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    StepError,
    die_with_parent,
    drop_capabilities,
    loopback_up,
    make_namespaces,
    mount,
    no_new_privileges,
    pivot,
    remount,
)
from trainyard.runner.spec import Spec

# What all engines leave to a container's root: CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP
# NET_BIND_SERVICE SYS_CHROOT SETFCAP. The three more that Docker leaves, our own containers there drop.
KEPT_CAPABILITIES = frozenset({0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 31})
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
HOSTS = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"


def main(status: int) -> int:
    """The supervisor: make the namespaces, start process 1, wait for it, say how it ended."""
    spec = Spec.from_json(sys.stdin.buffer.read())
    die_with_parent()
    os.set_inheritable(status, False)
    try:
        make_namespaces(user=(spec.uid, spec.gid) if spec.mapped else None)
        child = os.fork()
        if child == 0:
            become(spec, status)
    except (StepError, OSError) as error:
        os.write(status, str(error).encode())
        return 125
    os.close(status)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: os.kill(child, signal.SIGKILL))
    _, ended = os.waitpid(child, 0)
    # The kernel lets go of process 1 only after every other process of its namespace.
    return os.WEXITSTATUS(ended) if os.WIFEXITED(ended) else 128 + os.WTERMSIG(ended)


def become(spec: Spec, status: int) -> None:
    """Process 1: set the container up and exec; never returns."""
    try:
        die_with_parent()
        os.setsid()
        os.umask(0)
        root = make_root(spec)
        fill_root(spec, root)
        if spec.read_only:
            remount(root, MS_RDONLY | MS_NODEV)
        pivot(root)
        socket.sethostname(spec.hostname)
        loopback_up()
        confine(spec, status)
        os.execvpe(spec.argv[0], spec.argv, spec.env)  # noqa: S606
    except StepError as error:
        os.write(status, str(error).encode())
    except OSError as error:
        os.write(status, f"start {spec.argv[0]}: {error.strerror}".encode())
    except Exception as error:  # a fork must not run on into its parent's code
        os.write(status, f"start {spec.argv}: {error!r}".encode())
    os._exit(125)


def make_root(spec: Spec) -> str:
    """A mount of the image's files: read-only later, or under a layer of memory that takes the writes."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("tmpfs", spec.stage, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755")
    os.chdir(spec.stage)
    for name in ("lower", "upper", "work", "merged"):
        Path(name).mkdir(mode=0o755)
    Path("hosts").write_text(HOSTS, "ascii")
    Path("hosts").chmod(0o644)
    mount(spec.root, "lower", None, MS_BIND)
    if spec.read_only:
        return str(Path("lower").absolute())
    # The overlay's root has the attributes of the upper folder.
    wanted = Path("lower").stat()
    os.chown("upper", wanted.st_uid, wanted.st_gid)
    Path("upper").chmod(stat.S_IMODE(wanted.st_mode))
    extra = ",userxattr" if spec.mapped else ""
    mount("overlay", "merged", "overlay", MS_NODEV, f"lowerdir=lower,upperdir=upper,workdir=work{extra}")
    return str(Path("merged").absolute())


def fill_root(spec: Spec, root: str) -> None:
    """/proc, /sys, /dev, /tmp, /run and the host's devices, as an engine makes them."""
    mount("proc", f"{root}/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    # Only NCCL's topology search reads it, and a host may forbid it.
    with contextlib.suppress(StepError):
        mount("sysfs", f"{root}/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY)
    tmp = MS_NOSUID | MS_NODEV | (MS_NOEXEC if spec.noexec_tmp else 0)
    mount("tmpfs", f"{root}/tmp", "tmpfs", tmp, "mode=1777")  # noqa: S108
    mount("tmpfs", f"{root}/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755")
    dev = f"{root}/dev"
    mount("tmpfs", dev, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=0755")
    for name in DEVICES:
        place(f"/dev/{name}", f"{dev}/{name}")
    for name, target in LINKS.items():
        Path(dev, name).symlink_to(target)
    for name in ("shm", "pts"):
        Path(dev, name).mkdir(mode=0o755)
    shm = MS_NOSUID | MS_NODEV | MS_NOEXEC
    mount("tmpfs", f"{dev}/shm", "tmpfs", shm, f"mode=1777,size={spec.shm_size}")
    mount("devpts", f"{dev}/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
    for source, inside in spec.binds:
        place(source, f"{root}{inside}")
    hosts = Path(root, "etc/hosts")
    if not hosts.is_symlink() and hosts.is_file():
        mount(f"{spec.stage}/hosts", str(hosts), None, MS_BIND)


def place(source: str, target: str) -> None:
    """A file of the host at `target`, which is in one of our own tmpfs."""
    Path(target).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    Path(target).touch()
    mount(source, target, None, MS_BIND)


def confine(spec: Spec, status: int) -> None:
    """Limits, capabilities, user, signals and descriptors, in the order in which each is still allowed."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if spec.processes is not None:
        resource.setrlimit(resource.RLIMIT_NPROC, (spec.processes, spec.processes))
    if spec.cpus is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: spec.cpus])
    drop_capabilities(frozenset() if spec.drop_capabilities else KEPT_CAPABILITIES)
    if not spec.mapped:
        # As engines do, so that /dev/stdout can be opened.
        for descriptor in (1, 2):
            os.fchown(descriptor, spec.uid, spec.gid)
        os.setgroups(spec.groups)
        os.setresgid(spec.gid, spec.gid, spec.gid)
        os.setresuid(spec.uid, spec.uid, spec.uid)
    if spec.no_new_privileges:
        no_new_privileges()
    die_with_parent()
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    os.umask(0o022)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.closerange(3, status)
    os.closerange(status + 1, 65536)
    try:
        os.chdir(spec.working_dir)
    except OSError as error:
        raise StepError(f"working folder {spec.working_dir}: {error.strerror}") from None
