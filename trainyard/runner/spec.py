"""What the sandbox is told, as JSON on its stdin."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What to run and how; `binds` are (host path, path inside) of device nodes and driver libraries.

    `mapped`: in a user namespace that knows one user, `uid`:`gid`, who is the caller outside.
    `groups` own the device nodes, and are joined where we may.
    """

    root: str
    stage: str
    argv: tuple[str, ...]
    env: dict[str, str]
    working_dir: str
    uid: int
    gid: int
    mapped: bool
    read_only: bool
    shm_size: int
    noexec_tmp: bool
    no_new_privileges: bool
    drop_capabilities: bool
    processes: int | None
    cpus: int | None
    hostname: str
    groups: tuple[int, ...]
    binds: tuple[tuple[str, str], ...]

    def to_json(self) -> bytes:
        """What `from_json` reads."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Spec:
        """The spec that our own parent process wrote."""
        raw = json.loads(data)
        for name in ("argv", "groups"):
            raw[name] = tuple(raw[name])
        raw["binds"] = tuple((source, inside) for source, inside in raw["binds"])
        return cls(**raw)
