"""What checks share, on its own: dumps read without trust, the late rank, where libraries are from, ranks."""

from __future__ import annotations

import collections
import importlib
import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.elf import shared_object
from tests.support.fakeworld import SMOKE, World


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> collections.abc.Callable[[str], ModuleType]:
    """A module that checks share, as a check imports it."""
    monkeypatch.syspath_prepend(str(SMOKE / "checks"))
    return importlib.import_module


Part = collections.abc.Callable[[str], ModuleType]


class Touch:
    """A pickle that makes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def dump(*operations: str, function: str = "train_step") -> dict[str, object]:
    """A rank's dump in the recorder's shape, with these collectives begun."""
    entries = [
        {
            "collective_seq_id": number,
            "profiling_name": name,
            "frames": [
                {"name": "broadcast", "filename": "/opt/venv/torch/distributed/c10d.py", "line": 1},
                {"name": function, "filename": "/job/train.py", "line": 10 + number},
            ],
        }
        for number, name in enumerate(operations, start=1)
    ]
    return {"version": "2.10", "pg_config": {}, "entries": entries}


def test_a_dump_that_would_run_code_is_refused_and_runs_none(part: Part, tmp_path: Path) -> None:
    read_dump = part("_dumps").read_dump
    evil = {**dump("gloo:all_reduce"), "pg_config": Touch(tmp_path / "ran")}

    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(AssertionError, match="the dump wants to load"):
            read_dump(pickle.dumps(evil, protocol))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("value", [collections.OrderedDict(), os.getpid, Path("/"), object])
def test_a_dump_with_anything_but_plain_data_is_refused(part: Part, value: object) -> None:
    with pytest.raises(AssertionError, match="cannot be read: the dump wants to load"):
        part("_dumps").read_dump(pickle.dumps({**dump(), "extra": value}))


@pytest.mark.parametrize("data", [b"", b"\x80", b"not a pickle", pickle.dumps(dump("gloo:barrier"))[:-20]])
def test_a_dump_that_was_cut_short_is_a_failure_with_its_size(part: Part, data: bytes) -> None:
    with pytest.raises(AssertionError, match=f"a dump of {len(data)} bytes cannot be read"):
        part("_dumps").read_dump(data)


def test_plain_data_without_entries_is_no_dump(part: Part) -> None:
    with pytest.raises(AssertionError, match="no version, entries or pg_config"):
        part("_dumps").read_dump(pickle.dumps({"version": "2.10"}))


def test_the_rank_that_stayed_away_is_late_and_the_line_of_those_who_wait_is_named(part: Part) -> None:
    three = ("gloo:all_reduce", "gloo:all_reduce", "gloo:broadcast")
    waiting = dump(*three, function="sync")

    late = part("_dumps").late_ranks({0: waiting, 1: dump(*three[:2]), 2: waiting})

    assert (late["ranks"], late["operation"]) == ([1], "gloo:broadcast")
    assert (late["function"], late["line"]) == ("sync", "/job/train.py:13")


def test_nobody_is_late_when_all_began_the_same(part: Part) -> None:
    same = dump("gloo:all_reduce")

    assert part("_dumps").late_ranks({0: same, 1: same})["ranks"] == []


def test_a_rank_that_began_nothing_is_late(part: Part) -> None:
    late = part("_dumps").late_ranks({0: dump("gloo:barrier"), 1: dump()})

    assert (late["ranks"], late["last"]) == ([1], {0: 1, 1: 0})


def test_a_soname_is_read_from_the_library_and_from_nothing_else(part: Part, tmp_path: Path) -> None:
    soname = part("_elf").soname
    files = {
        "named.so": (shared_object("libnccl.so.2"), "libnccl.so.2"),
        "arm.so": (shared_object("libnccl.so.2", arch="arm64"), "libnccl.so.2"),
        "plugin.so": (shared_object(None), ""),
        "script.so": (b"INPUT(libfoo.so)", None),
        "empty.so": (b"", None),
        "cut.so": (shared_object("libnccl.so.2")[:100], None),
    }
    for name, (data, wanted) in files.items():
        (tmp_path / name).write_bytes(data)
        assert soname(tmp_path / name) == wanted, name


@pytest.mark.parametrize(
    ("path", "private"),
    [
        ("/site/nvidia/cu13/lib/libcudart.so.13", False),
        ("/usr/lib/libcudart.so.13.2.86", False),
        ("/usr/lib/libcudart.so", False),
        ("/site/torchvision.libs/libcudart.3eda8113.so.13", True),
        ("/site/numpy.libs/libcudart-3eda8113.so.13", True),
    ],
)
def test_a_bundled_copy_is_known_by_the_hash_in_its_name(part: Part, path: str, private: bool) -> None:
    assert part("_maps").is_private("libcudart.so.13", path) is private


def test_two_files_of_one_soname_in_a_process_fail_and_are_both_named(part: Part) -> None:
    one_origin = part("_maps").one_origin
    theirs, ours = "/site/nvidia/nccl/lib/libnccl.so.2", "/usr/lib/libnccl.so.2"

    one_origin({"libnccl.so.2": [theirs], "libz.so.1": ["/site/x.libs/libz.1a2b.so.1", "/usr/lib/libz.so.1"]})
    with pytest.raises(AssertionError, match=f"libnccl.so.2 is loaded twice: {theirs} and {ours}"):
        one_origin({"libnccl.so.2": [theirs, ours]})


def test_this_process_has_one_libc(part: Part) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("this machine has no /proc")

    assert len(part("_maps").loaded()["libc.so.6"]) == 1


@pytest.mark.parametrize(
    ("found", "claimed", "problems"),
    [
        ({"a": ["1"]}, {"a": "1"}, []),
        ({"a": ["1"]}, {"a": "2"}, ["a is 1, locked is 2"]),
        ({}, {"a": "1"}, ["a 1 is locked and not installed"]),
        ({"a": ["1"]}, {}, ["a 1 is installed and not locked"]),
    ],
)
def test_every_difference_of_versions_is_a_problem(
    part: Part, found: dict[str, list[str]], claimed: dict[str, str], problems: list[str]
) -> None:
    assert part("_lib").compare_versions(found, claimed) == problems


def test_a_dump_folder_that_others_can_read_fails(part: Part, tmp_path: Path) -> None:
    private = part("flight_recorder").private
    tmp_path.chmod(0o700)
    private(tmp_path)

    tmp_path.chmod(0o755)
    with pytest.raises(AssertionError, match=r"the mode of .* is 'drwxr-xr-x', not 'drwx------'"):
        private(tmp_path)


@pytest.mark.parametrize(
    ("version", "capability", "wanted"),
    [("cuda", (8, 9), 2), ("cuda", (9, 0), 2), ("cuda", (10, 0), 2), ("mps", None, 1), ("xpu", None, 2)],
)
def test_which_fp8_a_device_multiplies(
    part: Part, version: str, capability: tuple[int, int] | None, wanted: int
) -> None:
    assert len(part("device_fp8").formats(device(capability), version)) == wanted


@pytest.mark.parametrize("name", ["gfx942:sramecc+:xnack-", "gfx950", "gfx1201"])
def test_which_fp8_an_amd_gpu_multiplies(part: Part, name: str) -> None:
    ((left, right),) = part("device_fp8").formats(device(None, name), "rocm")

    assert left == right == ("float8_e4m3fnuz" if name.startswith("gfx942") else "float8_e4m3fn")


@pytest.mark.parametrize(
    ("accelerator", "capability", "arch"), [("cuda", (8, 0), ""), ("rocm", None, "gfx90a")]
)
def test_a_device_without_fp8_is_a_skip_that_says_which_has_it(
    part: Part, accelerator: str, capability: tuple[int, int] | None, arch: str
) -> None:
    with pytest.raises(part("_lib").Skip, match=r"needs an .* GPU with FP8"):
        part("device_fp8").formats(device(capability, arch), accelerator)


def device(capability: tuple[int, int] | None, arch: str = "") -> object:
    """A torch whose GPU says this of itself."""
    code = f"class cuda:\n get_device_capability = staticmethod(lambda: {capability!r})\n"
    code += f" get_device_properties = staticmethod(lambda _: type('P', (), {{'gcnArchName': {arch!r}}}))\n"
    module = ModuleType("torch")
    exec(code, module.__dict__)
    return module


RANKS = """
    import os, sys
    def init_process_group(*a, **o): pass
    def is_initialized(): return False
    class FileStore:
        def __init__(self, *a): pass
"""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "if here.rank:\n        raise AssertionError('wrong sum')\n    raise RuntimeError('peer is gone')",
            "rank 1 of 2 .*wrong sum",
        ),
        ("os._exit(7)", "rank 0 of 2 on gloo: ended with 7"),
        ("time.sleep(60)", "2 ranks of gloo did not end within 1 s"),
    ],
)
def test_ranks_fail_with_the_one_that_knows_why(tmp_path: Path, body: str, reason: str) -> None:
    """A rank that found a wrong value says more than the ones that only lost it."""
    world = ranks_world(tmp_path, body)

    done = subprocess.run(
        [world.python, world.folder / "script.py"], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 1
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(done.stderr.strip().splitlines()[-1])


def test_ranks_give_what_they_return_in_order(tmp_path: Path) -> None:
    world = ranks_world(tmp_path, "return {'twice': here.rank * 2}")

    done = subprocess.run(
        [world.python, world.folder / "script.py"], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout == "[{'rank': 0, 'twice': 0}, {'rank': 1, 'twice': 2}]\n"


def ranks_world(folder: Path, body: str) -> World:
    """A world whose script runs two ranks of a check that does `body`; torch is a stand-in."""
    world = World(folder)
    world.torch()
    world.write("torch/distributed/__init__.py", RANKS)
    with (world.site / "torch" / "__init__.py").open("a") as stream:
        stream.write("\ndef manual_seed(number): pass\n")
    checks = folder / "checks"
    checks.mkdir()
    for name in ("_lib.py", "_ranks.py"):
        (checks / name).write_bytes((SMOKE / "checks" / name).read_bytes())
    (checks / "mine.py").write_text(f"import os, time\ndef rank(here):\n    {body}\n")
    script = f"""
        import sys
        sys.path.append({str(checks)!r})
        from _ranks import run_ranks
        print(run_ranks(2, "mine.py", limit={1 if "sleep" in body else 30}))
    """
    (folder / "script.py").write_text(textwrap.dedent(script))
    return world
