"""Flight-recorder dumps: read without trust, and who is late in them."""

from __future__ import annotations

import io
import pickle
from typing import NoReturn

from _lib import fail


class PlainUnpickler(pickle.Unpickler):
    """Builds dicts, lists, tuples, strings and numbers; anything with a name would run code."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"the dump wants to load {module}.{name}")

    def persistent_load(self, _: object) -> NoReturn:
        raise pickle.UnpicklingError("the dump refers to something outside of itself")


def read_dump(data: bytes) -> dict:
    """One rank's dump, with the entries that an analysis needs."""
    try:
        dump = PlainUnpickler(io.BytesIO(data)).load()
    except Exception as error:
        fail(f"a dump of {len(data)} bytes cannot be read: {error}")
    if not isinstance(dump, dict) or not {"version", "entries", "pg_config"} <= dump.keys():
        fail("a dump has no version, entries or pg_config", keys=sorted(map(str, dump)))
    return dump


def late_ranks(dumps: dict[int, dict]) -> dict:
    """The ranks that did not begin the collective which the others wait in; what it is, and where it was called.

    Holds for a group that all ranks are in. gloo marks no operation as completed, so what tells is the highest
    sequence number of each rank.
    """
    last = {
        rank: max((entry["collective_seq_id"] for entry in dump["entries"]), default=0)
        for rank, dump in dumps.items()
    }
    furthest = max(last.values())
    late = sorted(rank for rank, number in last.items() if number < furthest)
    waiting = next(rank for rank, number in last.items() if number == furthest)
    entry = next(entry for entry in dumps[waiting]["entries"] if entry["collective_seq_id"] == furthest)
    frame = next((frame for frame in entry["frames"] if "/torch/" not in frame["filename"]), {})
    return {
        "ranks": late,
        "last": last,
        "operation": entry["profiling_name"],
        "function": frame.get("name", ""),
        "line": f"{frame.get('filename', '')}:{frame.get('line', 0)}",
        "version": dumps[waiting]["version"],
    }
