"""xpu the whole way: locked from indexes on loopback, built on the real base, and run natively by its Python."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.mirrors import share_debs, why_gone
from tests.support.project import Invoke, copy_project
from tests.support.releases import UPLOADED, xpu
from tests.support.runners import HOST, can_unshare
from tests.support.wheelindex import served_index, served_pages
from tests.support.wheels import build_wheel
from trainyard.oci.runnable import read_runnable
from trainyard.paths import Project
from trainyard.platforms import Platform
from trainyard.runner.base import Command, Confinement
from trainyard.runner.native import NativeRunner, open_native
from trainyard.smoke.profiles import HOSTILE, NORMAL
from trainyard.store import Store

AMD64 = Platform("linux", "amd64")
pytestmark = [
    pytest.mark.real,
    pytest.mark.network,
    pytest.mark.skipif(HOST != AMD64, reason="this host is not the one platform of xpu"),
    pytest.mark.skipif(
        not can_unshare(as_root=os.geteuid() == 0), reason="this host lets us make no namespaces"
    ),
]
PYTHON = "/opt/venv/bin/python"


@dataclass(frozen=True, slots=True)
class Yard:
    """A copy of the project in which xpu wants torch and tools alone, locked and built."""

    project: Project
    invoke: Invoke
    runner: NativeRunner

    def run(self, *argv: str, how: Confinement = NORMAL) -> str:
        done = self.runner.run(Command(argv=argv, timeout=120), how)
        assert done.rc == 0, done.stderr.decode()
        return done.stdout.decode()

    def ask(self, expression: str, how: Confinement = NORMAL) -> object:
        """The value of a Python expression inside."""
        return json.loads(
            self.run(
                PYTHON, "-c", f"import ctypes, json, sys, torch; print(json.dumps({expression}))", how=how
            )
        )


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    if reason := why_gone("forky"):
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("xpu")
    root = copy_project(folder / "project")
    matrix = root / "matrix.yaml"
    head, line, tail = matrix.read_text("utf-8").partition("\n  xpu:\n")
    matrix.write_text(
        head + line + tail.replace("[torch, tools, vision, data, artifacts]", "[torch, tools]"), "utf-8"
    )
    share_debs("forky", "amd64", folder / "cache")
    release = xpu(folder / "wheels", python="3.14")
    tools = {
        build_wheel(folder / "wheels", name=name, version="99.0"): UPLOADED for name in ("numpy", "pip", "uv")
    }
    with served_index({**release.default, **tools}) as default, served_pages(release.own) as own:
        environ = {
            "TRAINYARD_CACHE": str(folder / "cache"),
            "UV_DEFAULT_INDEX": default,
            "TRAINYARD_INDEX_PYTORCH_XPU": f"{own.url}/whl",
        }
        invoke = Invoke(root, environ)
        for words in (("lock",), ("build", "--record", "--no-smoke")):
            done = invoke(*words, "--target", "xpu")
            assert done.returncode == 0, done.stderr
        project, store = Project(root), Store(folder / "cache")
        image = read_runnable(project.dist("xpu", AMD64), AMD64)
        yield Yard(project, invoke, open_native(image, store, host=AMD64))


def test_the_stub_is_imported_by_the_bases_python(yard: Yard) -> None:
    assert yard.ask("[sys.version_info[:2], torch.__version__, torch.version.xpu, sys.prefix]") == [
        [3, 14],
        "2.15.0+xpu",
        "20260101",
        "/opt/venv",
    ]


def test_bytecode_is_of_that_python_and_is_taken_without_a_look_at_the_source(yard: Yard) -> None:
    cached = str(yard.ask("torch.__cached__"))

    assert cached == "/opt/venv/lib/python3.14/site-packages/torch/__pycache__/__init__.cpython-314.pyc"
    report = json.loads(yard.run("/usr/local/bin/trainyard-doctor", "--json", "--only", "bytecode"))
    assert [(one["name"], one["status"]) for one in report["results"]] == [("bytecode", "pass")]


@pytest.mark.parametrize("how", [NORMAL, HOSTILE], ids=lambda how: how.name)
def test_level_zero_finds_intels_driver_and_no_gpu(yard: Yard, how: Confinement) -> None:
    """ZE_RESULT_ERROR_UNINITIALIZED is what the loader says when its drivers see no device."""
    assert yard.ask("hex(ctypes.CDLL('libze_loader.so.1').zeInit(0))", how) == "0x78000001"


def test_dpkg_and_apt_believe_the_base(yard: Yard) -> None:
    root = Confinement(user="0:0")

    assert yard.run("/bin/sh", "-c", "dpkg --audit && apt-get check -qq", how=root) == ""


def test_a_virtual_environment_of_the_base_has_its_pip(yard: Yard) -> None:
    script = "python3.14 -m venv /tmp/own && /tmp/own/bin/pip --version"

    assert "(python 3.14)" in yard.run("/bin/sh", "-c", script)


def test_tag_labels_and_claims_say_which_python_and_which_debian(yard: Yard) -> None:
    record = json.loads(yard.project.golden("xpu", AMD64).read_text("utf-8"))
    claims = json.loads(yard.run("cat", "/opt/trainyard/claims.json"))

    assert record["tag"].startswith("xpu-torch2.15.0-xpu-py314-")
    assert (claims["python"], claims["accelerator"]) == ("3.14", "xpu")
    assert claims["requires"] == {"kernel": ">=6.8", "modules": ["xe", "i915"]}


def test_the_dockerfile_uses_that_python(yard: Yard) -> None:
    done = yard.invoke("render", "--target", "xpu")
    assert done.returncode == 0, done.stderr
    text = (yard.project.docker_context("xpu", AMD64) / "Dockerfile").read_text("utf-8")

    assert "python3.14 -I /bytecode/tree.py /opt/venv/lib/python3.14/site-packages" in text
    assert "3.13" not in text


def test_a_second_build_gives_the_recorded_digest(yard: Yard) -> None:
    image = yard.invoke.json("build", "--target", "xpu", "--no-smoke")["images"][0]  # type: ignore[index]

    assert image["digest"] == json.loads(yard.project.golden("xpu", AMD64).read_text())["manifest_digest"]
