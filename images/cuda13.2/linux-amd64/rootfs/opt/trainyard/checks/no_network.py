"""A container that was started without a network has loopback, up, and nothing else."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

from _lib import Skip, fail, same

UP = 0x1
# Addresses for documentation (RFC 5737): nobody is there, so an answer other than "no route" means a way out.
NOWHERE = ("192.0.2.1", 9)


def run(claims: dict) -> dict:
    if not claims.get("sealed"):
        raise Skip("needs a container without a network, and --sealed to say that it is one")
    names = [name for _, name in socket.if_nameindex()]
    flags = {name: int(Path("/sys/class/net", name, "flags").read_text(), 16) for name in names}
    up = sorted(name for name in names if flags[name] & UP)
    same("the interfaces that are up", up, ["lo"])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(NOWHERE)
            fail("there is a route out of the container")
        except OSError as error:
            if error.errno != errno.ENETUNREACH:
                raise
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        accepted, _ = server.accept()
        with accepted:
            client.sendall(b"x")
            same("what came over loopback", accepted.recv(1), b"x")
    return {"interfaces": names}
