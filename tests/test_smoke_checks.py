"""Each check passes in a sound world and fails, with the fact that is wrong, in a broken one."""

from __future__ import annotations

import ast
import importlib.util
import py_compile
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.support.fakeworld import SMOKE, World

# What images are for; a check imports of these what it is about.
TESTED = {"torch", "numpy", "pandas", "polars", "pyarrow", "pyreadr", "safetensors", "onnx", "onnxruntime"}
TORCH_CHECKS = ["torch_import", "torch_build", "distributed_backends", "nccl_default"]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize("name", TORCH_CHECKS)
def test_a_sound_torch_passes(world: World, name: str) -> None:
    world.torch()

    assert world.status(name) == ("pass", "")


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("torch_import", {"version": "2.14.1+cu132"}, "torch.__version__ is '2.14.1', not '2.15.0'"),
        ("torch_import", {"answer": 5.0}, "2 + 2 is 5.0, not 6.0"),
        ("torch_build", {"cuda": "13.0"}, "torch.version.cuda is '13.0', not '13.2'"),
        ("torch_build", {"cuda": None}, "torch 2.15.0+cu132 has no cuda compiled in"),
        ("torch_build", {"hip": "10.0"}, "torch 2.15.0+cu132 is built for rocm 10.0, not for cuda"),
        ("torch_build", {"openmp": False}, "torch has no OpenMP compiled in"),
        ("torch_build", {"archs": []}, "torch has kernels for no GPU architecture"),
        ("torch_build", {"cudnn": 92500}, "cuDNN is 92500, not 92600"),
        ("distributed_backends", {"nccl": False}, "the availability of nccl is False, not True"),
        ("distributed_backends", {"gloo": False}, "the availability of gloo is False, not True"),
        ("distributed_backends", {"xccl": True}, "the availability of xccl is True, not False"),
        (
            "distributed_backends",
            {"defaults": {"cpu": "gloo", "cuda": "gloo"}},
            "the default backend for cuda is 'gloo', not 'nccl'",
        ),
        (
            "distributed_backends",
            {"init_error": "Unknown c10d backend type GLOO"},
            "Unknown c10d backend type GLOO",
        ),
        ("distributed_backends", {"reduced": 0.0}, "all_reduce on one rank is 0.0, not 3.0"),
        (
            "nccl_default",
            {"nccl_default": "_create_nccl_process_group"},
            "`nccl` by default is 'legacy', not 'rewritten'",
        ),
        (
            "nccl_default",
            {"nccl_default": "_create_other"},
            "`nccl` by default is '_create_other', not 'rewritten'",
        ),
        (
            "nccl_default",
            {"nccl_switched": "_create_nccl2_process_group"},
            "`nccl` with TORCH_DIST_USE_NCCL2=0 is 'rewritten', not 'legacy'",
        ),
        (
            "nccl_default",
            {"nccl_version": [2, 27, 3]},
            "the NCCL that torch loads is (2, 27, 3), not (2, 30, 7)",
        ),
    ],
)
def test_a_wrong_torch_fails(world: World, name: str, change: dict[str, object], reason: str) -> None:
    world.torch(**change)

    assert world.status(name) == ("fail", reason)


@pytest.mark.parametrize("name", TORCH_CHECKS)
def test_a_torch_that_cannot_be_imported_fails(world: World, name: str) -> None:
    world.torch()
    world.write("torch/__init__.py", "raise OSError('libcudart.so.13: cannot open shared object file')")

    status, reason = world.status(name)

    assert status == "fail"
    assert "libcudart" in str(reason) or "fresh Python" in str(reason)


@pytest.mark.parametrize("name", [*TORCH_CHECKS, "gloo_collectives", "torch_compile_cpu", "device_matmul"])
def test_an_image_without_torch_skips_what_is_about_torch(world: World, name: str) -> None:
    world.claims["wheels"] = {}

    status, reason = world.status(name)

    assert status == "skip"
    assert str(reason).startswith("needs ")


def test_metadata_of_another_torch_than_the_one_that_imports_fails(world: World) -> None:
    world.torch()
    (world.site / "torch-2.15.0.dist-info").rename(world.site / "torch-2.15.1.dist-info")
    metadata = world.site / "torch-2.15.1.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("2.15.0", "2.15.1"))

    assert world.status("torch_import") == (
        "fail",
        "the version of torch's metadata is '2.15.1', not '2.15.0'",
    )


def test_a_torch_from_outside_of_the_image_fails(world: World, tmp_path: Path) -> None:
    world.torch()
    (world.site / "torch").rename(tmp_path / "elsewhere")
    (tmp_path / "path").mkdir()
    (tmp_path / "elsewhere").rename(tmp_path / "path" / "torch")
    world.env["PYTHONPATH"] = str(tmp_path / "path")

    status, reason = world.status("torch_import")

    assert status == "fail"
    assert str(reason).startswith(f"torch comes from {tmp_path / 'path'}")


def test_a_wheel_with_a_local_version_must_match_to_the_last_letter(world: World) -> None:
    world.claims["wheels"] = {"torch": "2.15.0+cu134"}
    world.torch(version="2.15.0+cu132")

    assert world.status("torch_import") == ("fail", "torch.__version__ is '2.15.0+cu132', not '2.15.0+cu134'")


def test_an_image_that_was_switched_to_the_legacy_nccl_must_claim_it(world: World) -> None:
    world.torch()
    world.env["TORCH_DIST_USE_NCCL2"] = "0"
    assert world.status("nccl_default") == ("fail", "`nccl` in this image is 'legacy', not 'rewritten'")

    world.claims["nccl"] = "legacy"
    assert world.status("nccl_default") == ("pass", "")


def test_an_older_torch_skips_what_came_with_2_15(world: World) -> None:
    world.torch()
    world.claims["wheels"] = {"torch": "2.14.1"}

    assert world.status("nccl_default") == ("skip", "needs torch 2.15 or newer, the image has 2.14.1")


@pytest.mark.parametrize(
    ("accelerator", "toolkit", "change"),
    [
        ("rocm", "10.0", {"version": "2.15.0+rocm10.0", "cuda": None, "hip": "10.0.26"}),
        ("xpu", "2026.0", {"version": "2.15.0+xpu", "cuda": None, "xpu": "20260000"}),
        ("mps", "", {"version": "2.15.0", "cuda": None, "mps": True}),
    ],
)
def test_torch_build_knows_the_other_accelerators(
    world: World, accelerator: str, toolkit: str, change: dict[str, object]
) -> None:
    world.claims |= {"accelerator": accelerator, "toolkit": toolkit}
    world.torch(**change)
    assert world.status("torch_build") == ("pass", "")

    world.torch()
    status, reason = world.status("torch_build")
    assert status == "fail"
    assert "cuda" in str(reason) or "compiled in" in str(reason)


@pytest.mark.skipif(bool(list(Path("/dev").glob("nvidia[0-9]*"))), reason="there is a GPU here")
@pytest.mark.parametrize("name", ["device_matmul", "device_collectives"])
def test_a_device_that_is_not_here_is_a_skip_that_names_it(world: World, name: str) -> None:
    world.torch(available=True)

    status, reason = world.status(name)
    assert status == "skip"
    assert str(reason).startswith("needs an NVIDIA GPU: no /dev/nvidia0 in this container")

    status, reason = world.status(name, "--require-device")
    assert status == "fail"
    assert str(reason).startswith("--require-device: needs an NVIDIA GPU")


def test_a_device_that_is_here_and_does_not_work_is_a_failure(world: World) -> None:
    """A driver that is too old must not look like a machine without a GPU."""
    world.torch()
    code = f"""
        import pathlib, sys
        sys.path.append({str(SMOKE / "checks")!r})
        import _devices
        _devices.device_files = lambda accelerator: (["/dev/nvidia0"], "an NVIDIA GPU")
        try:
            _devices.need_device({{"accelerator": "cuda", "wheels": {{"torch": "2.15.0"}}}})
        except AssertionError as error:
            print(error)
        """
    script = world.write("../script.py", code)

    done = subprocess.run([world.python, script], capture_output=True, text=True, check=True)

    assert (
        done.stdout
        == "/dev/nvidia0 is here, but torch cannot use it: Found no NVIDIA driver on your system\n"
    )


def test_a_rank_that_crashes_fails_the_collectives_with_its_last_words(world: World) -> None:
    world.torch()

    result = world.check("gloo_collectives")

    assert result["status"] == "fail"
    assert str(result["reason"]).startswith("rank 0 of 1 on gloo: ")


def test_exactly_the_locked_wheels_pass_and_are_counted(world: World) -> None:
    world.install("one", "1.0", {"one.py": "x = 1\n"})
    world.install("Two_Words", "2.0", {})
    world.claims["wheels"] = {"one": "1.0", "two-words": "2.0"}

    result = world.check("python_packages")

    assert (result["status"], result["evidence"]) == ("pass", {"packages": 2, "files": 5})


def test_every_difference_to_the_lock_is_named(world: World) -> None:
    world.install("one", "1.1", {})
    world.install("extra", "3.0", {})
    world.install("twice", "1.0", {})
    world.install("twice", "2.0", {})
    world.claims["wheels"] = {"one": "1.0", "missing": "1.0", "twice": "1.0"}

    status, reason = world.status("python_packages")

    assert status == "fail"
    assert str(reason).split("; ") == [
        "extra 3.0 is installed and not locked",
        "missing 1.0 is locked and not installed",
        "one is 1.1, locked is 1.0",
        f"twice is installed 2 times: {', '.join(sorted_as_found(world, 'twice'))}",
    ]


def sorted_as_found(world: World, name: str) -> list[str]:
    """The versions of a distribution in the order in which the folder lists them."""
    return [
        path.name.split("-")[1].removesuffix(".dist")
        for path in world.site.iterdir()
        if path.name.startswith(name)
    ]


def test_a_file_that_is_gone_or_shorter_than_in_record_fails(world: World) -> None:
    world.install("one", "1.0", {"one.py": "x = 1\n", "two.py": "x = 2\n"})
    world.claims["wheels"] = {"one": "1.0"}
    (world.site / "one.py").unlink()
    (world.site / "two.py").write_text("")

    reason = str(world.check("python_packages")["reason"])

    assert "one: one.py is missing" in reason
    assert "one: two.py has 0 bytes, RECORD says 6" in reason


def test_a_distribution_without_a_record_fails(world: World) -> None:
    info = world.install("one", "1.0", {})
    (info / "RECORD").unlink()
    world.claims["wheels"] = {"one": "1.0"}

    assert world.status("python_packages") == ("fail", "one: no RECORD")


@pytest.fixture
def native(tmp_path: Path) -> bytes:
    """A real shared library of this host, that needs libc."""
    source = next(Path(sysconfig.get_path("stdlib"), "lib-dynload").glob("_struct.*so"), None)
    if source is None or shutil.which("ldd") is None:
        pytest.skip("this Python has no native module of its own, or there is no ldd")
    return source.read_bytes()


def test_native_libraries_that_find_all_they_need_pass(world: World, native: bytes) -> None:
    (world.site / "fine.so").write_bytes(native)
    world.write("script.so", "INPUT(libfine.so)")

    result = world.check("native_libraries")

    assert (result["status"], result["evidence"]) == ("pass", {"libraries": 1, "left_to_the_driver": []})


def test_a_soname_that_nothing_provides_fails(world: World, native: bytes) -> None:
    (world.site / "broken.so").write_bytes(native.replace(b"libc.so.6", b"libq.so.6"))

    assert world.status("native_libraries") == (
        "fail",
        "broken.so needs libq.so.6, which nothing here provides",
    )


def test_a_neighbours_library_and_an_optional_plugin_may_be_unresolved(world: World, native: bytes) -> None:
    needs_q = native.replace(b"libc.so.6", b"libq.so.6")
    (world.site / "nvshmem_transport_q.so").write_bytes(needs_q)
    assert world.status("native_libraries") == ("pass", "")

    (world.site / "user.so").write_bytes(needs_q)
    assert world.status("native_libraries")[0] == "fail"
    (world.site / "libq.so.6").write_bytes(native)
    assert world.status("native_libraries") == ("pass", "")


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> object:
    """A check as a module, for the parts of it that need no world."""
    monkeypatch.syspath_prepend(str(SMOKE / "checks"))
    spec = importlib.util.spec_from_file_location(f"check_{name}", SMOKE / "checks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_bytecode_is_looked_at_for_python_source_and_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = load("bytecode", monkeypatch).look  # type: ignore[attr-defined]
    source = tmp_path / "m.py"
    source.write_text("x = 1\n")
    mode = py_compile.PycInvalidationMode
    cache = Path(importlib.util.cache_from_source(str(source)))

    assert look(source) == "no bytecode"
    py_compile.compile(str(source), invalidation_mode=mode.UNCHECKED_HASH)
    assert look(source) == ""
    source.write_text("x = 2\n")
    assert look(source) == "bytecode of another source"
    py_compile.compile(str(source), invalidation_mode=mode.TIMESTAMP)
    assert look(source) == "bytecode that is checked against the source's time"
    py_compile.compile(str(source), invalidation_mode=mode.CHECKED_HASH)
    assert look(source) == "bytecode that is checked against the source's time"
    cache.write_bytes(b"\0\0\r\n" + cache.read_bytes()[4:])
    assert look(source).startswith("bytecode of another Python")


def test_a_file_for_another_python_needs_no_bytecode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look = load("bytecode", monkeypatch).look  # type: ignore[attr-defined]
    (tmp_path / "m.py").write_text("print 'two'\n")

    assert look(tmp_path / "m.py") == ""


def test_a_network_is_a_skip_unless_the_container_is_said_to_be_sealed(world: World) -> None:
    assert world.status("no_network")[0] == "skip"


@pytest.mark.skipif(len(list(Path("/sys/class/net").iterdir())) < 2, reason="this host has no network itself")
def test_a_network_in_a_sealed_container_is_a_failure(world: World) -> None:
    status, reason = world.status("no_network", "--sealed")

    assert status == "fail"
    assert str(reason).startswith("the interfaces that are up is")


@pytest.mark.parametrize("path", sorted((SMOKE / "checks").glob("*.py")), ids=lambda path: path.stem)
def test_a_check_needs_nothing_but_the_standard_library_and_what_it_tests(path: Path) -> None:
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported.add(node.module.split(".")[0])

    shared = {other.stem for other in path.parent.glob("_*.py")}
    assert imported <= {*sys.stdlib_module_names, *shared, *TESTED}
