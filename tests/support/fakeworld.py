"""A virtual environment with a torch of the test's making: shaped like the real one, as wrong as asked."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
import venv
from collections.abc import Mapping
from pathlib import Path

SMOKE = Path(__file__).parents[2] / "trainyard" / "smoke"
CLAIMS: Mapping[str, object] = {
    "schema": 1,
    "target": "cuda13.2",
    "accelerator": "cuda",
    "toolkit": "13.2",
    "platform": "linux/amd64",
    "python": "3.13",
    "wheels": {"torch": "2.15.0", "nvidia-cudnn-cu13": "9.26.0.51", "nvidia-nccl-cu13": "2.30.7"},
}
# Every value that a check looks at; a test changes some.
SOUND: Mapping[str, object] = {
    "version": "2.15.0+cu132",
    "cuda": "13.2",
    "hip": None,
    "xpu": None,
    "mps": False,
    "openmp": True,
    "cudnn": 92600,
    "archs": ["sm_90"],
    "answer": 6.0,
    "gloo": True,
    "nccl": True,
    "xccl": False,
    "defaults": {"cpu": "gloo", "cuda": "nccl", "xpu": "xccl", "mps": "gloo"},
    "reduced": 3.0,
    "init_error": "",
    "nccl_version": [2, 30, 7],
    "nccl_default": "_create_nccl2_process_group",
    "nccl_switched": "_create_nccl_process_group",
    "available": False,
    "device_error": "Found no NVIDIA driver on your system",
}
_TORCH = """
import json, pathlib, types
_F = json.loads(pathlib.Path(__file__).with_name("facts.json").read_text())
__version__ = _F["version"]

class _Tensor:
    def __init__(self, value): self.value = value
    def __add__(self, other): return self
    def sum(self): return self
    def item(self): return self.value

def ones(count): return _Tensor(_F["answer"])
def tensor(values): return _Tensor(_F["reduced"])
def zeros(count, device): raise RuntimeError(_F["device_error"])

version = types.SimpleNamespace(cuda=_F["cuda"], hip=_F["hip"], xpu=_F["xpu"], git_version="abc")
def _is(value): return types.SimpleNamespace(is_available=lambda: value, is_built=lambda: value)
backends = types.SimpleNamespace(
    mps=_is(_F["mps"]), mkl=_is(True), mkldnn=_is(True), openmp=_is(_F["openmp"]),
    cudnn=types.SimpleNamespace(version=lambda: _F["cudnn"]),
)
cuda = types.SimpleNamespace(
    is_available=lambda: _F["available"], get_arch_list=lambda: _F["archs"],
    nccl=types.SimpleNamespace(version=lambda: tuple(_F["nccl_version"])),
)
"""
_DISTRIBUTED = """
from torch import _F

def is_available(): return True
def is_gloo_available(): return _F["gloo"]
def is_nccl_available(): return _F["nccl"]
def is_xccl_available(): return _F["xccl"]
def is_mpi_available(): return False
def is_ucc_available(): return False
def HashStore(): return None
def init_process_group(backend, **options):
    assert not _F["init_error"], _F["init_error"]
def all_reduce(tensor): pass
def get_backend(): return "gloo"
def destroy_process_group(): pass
class Backend:
    default_device_backend_map = _F["defaults"]
"""
_C10D = """
import os, types
from torch import _F

class Backend:
    _plugins = {}
    @classmethod
    def _ensure_backend_registered(cls, name):
        switched = os.environ.get("TORCH_DIST_USE_NCCL2") == "0"
        creator = {
            "nccl": _F["nccl_switched"] if switched else _F["nccl_default"],
            "nccl-legacy": "_create_nccl_process_group",
            "nccl2": "_create_nccl2_process_group",
        }[name]
        cls._plugins[name.upper()] = types.SimpleNamespace(creator_fn=types.SimpleNamespace(__name__=creator))
"""


class World:
    """A venv to run checks in, with claims to hold against it."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder / "venv", symlinks=True)
        self.folder = folder
        self.python = folder / "venv" / "bin" / "python"
        self.site = next((folder / "venv").glob("lib/*/site-packages"))
        self.claims = dict(CLAIMS)
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder)}

    def torch(self, **changes: object) -> None:
        """Install the fake torch, sound but for `changes`."""
        assert set(changes) <= set(SOUND)
        self.write("torch/__init__.py", _TORCH)
        self.write("torch/facts.json", json.dumps({**SOUND, **changes}))
        self.write("torch/distributed/__init__.py", _DISTRIBUTED)
        self.write("torch/distributed/distributed_c10d.py", _C10D)
        self.install("torch", "2.15.0", {})

    def install(self, name: str, version: str, files: Mapping[str, str]) -> Path:
        """A distribution with files and a RECORD; its dist-info folder."""
        info = f"{name.replace('-', '_')}-{version}.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        everything = {**files, f"{info}/METADATA": metadata}
        record = "".join(f"{path},,{len(text)}\n" for path, text in everything.items())
        for path, text in {**everything, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            self.write(path, text)
        return self.site / info

    def write(self, path: str, text: str) -> Path:
        """A file in site-packages."""
        target = self.site / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(textwrap.dedent(text))
        return target

    def check(self, name: str, *arguments: str) -> dict[str, object]:
        """The result of one shipped check in this world."""
        claims = self.folder / "claims.json"
        claims.write_text(json.dumps(self.claims))
        done = subprocess.run(
            [self.python, SMOKE / "doctor.py", "--json", "--only", name, "--claims", claims, *arguments],
            capture_output=True,
            text=True,
            env=self.env,
            check=False,
        )
        assert done.stdout, done.stderr
        result: dict[str, object] = json.loads(done.stdout)["results"][0]
        return result

    def status(self, name: str, *arguments: str) -> tuple[object, object]:
        """(status, reason) of one shipped check in this world."""
        result = self.check(name, *arguments)
        return result["status"], result["reason"]
