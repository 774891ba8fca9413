"""The few system calls of a sandbox that Python 3.11 lacks, by ctypes; stdlib only.

Manual pages: unshare(2), mount(2), pivot_root(2), prctl(2), netdevice(7). Constants: linux/sched.h, mount.h,
prctl.h, sockios.h.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import struct
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MS_NOATIME, MS_NODIRATIME, MS_RELATIME = 1024, 2048, 1 << 21
# mount flags that a user namespace may not clear, by their statvfs bit (statvfs(3))
LOCKED = {
    1: MS_RDONLY,
    2: MS_NOSUID,
    4: MS_NODEV,
    8: MS_NOEXEC,
    1024: MS_NOATIME,
    2048: MS_NODIRATIME,
    4096: MS_RELATIME,
}
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, AMBIENT_CLEAR_ALL = 1, 24, 38, 47, 4
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


class StepError(Exception):
    """Setting up failed; the text names the step."""


libc = ctypes.CDLL(None, use_errno=True)


def call(step: str, name: str, *arguments: object) -> None:
    """One libc call that must give 0."""
    plain = [os.fsencode(item) if isinstance(item, str) else item for item in arguments]
    if getattr(libc, name)(*plain) != 0:
        raise StepError(f"{step}: {os.strerror(ctypes.get_errno())}")


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """A mount; None for `kind` and `options` where the flags say all."""
    data = ctypes.c_char_p(options.encode() if options else None)
    step = f"mount {kind or 'bind'} on {target}"
    call(
        step,
        "mount",
        source,
        target,
        ctypes.c_char_p(kind.encode() if kind else None),
        ctypes.c_ulong(flags),
        data,
    )


def bind(source: str, target: str) -> None:
    """Bind-mount a file over a file, a folder over a folder."""
    mount(source, target, None, MS_BIND | MS_REC)


def remount(target: str, flags: int) -> None:
    """Add flags to a bind mount; those that a user namespace inherited stay."""
    current = os.statvfs(target).f_flag
    kept = sum(flag for bit, flag in LOCKED.items() if current & bit)
    mount("none", target, None, MS_REMOUNT | MS_BIND | flags | kept)


def make_namespaces(*, user: tuple[int, int] | None) -> None:
    """New mount, UTS, IPC, PID and network namespaces; the PID namespace begins with the next fork.

    With `user` = (uid, gid) also a user namespace, in which the caller is that user and knows no other.
    """
    flags = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET
    uid, gid = os.geteuid(), os.getegid()
    call("unshare", "unshare", flags | (CLONE_NEWUSER if user else 0))
    if user is None:
        return
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user[0]} {uid} 1"),
        ("gid_map", f"{user[1]} {gid} 1"),
    ):
        try:
            Path("/proc/self", name).write_text(text, "ascii")
        except OSError as error:
            raise StepError(f"user namespace {name}: {error.strerror}") from None


def pivot(root: str) -> None:
    """`root`, a mount, becomes /, and the host's files go out of reach."""
    os.chdir(root)
    # Both paths may be the same (pivot_root(2), NOTES): the old root ends up on top of the new one.
    call("pivot_root", "pivot_root", ".", ".")
    call("umount of the host's root", "umount2", ".", MNT_DETACH)
    os.chdir("/")


def die_with_parent() -> None:
    """SIGKILL for us when the parent is gone; a fork or a change of user clears it."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def drop_capabilities(kept: frozenset[int]) -> None:
    """No program started from here can have a capability that is not in `kept`."""
    for number in range(64):
        if number not in kept:
            libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
    libc.prctl(PR_CAP_AMBIENT, AMBIENT_CLEAR_ALL, 0, 0, 0)


def no_new_privileges() -> None:
    """Setuid bits and file capabilities are without effect from here on."""
    call("no_new_privs", "prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def loopback_up() -> None:
    """A new network namespace has lo, down; gloo finds no interface then."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(probe, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(probe, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))
