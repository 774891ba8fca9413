"""A virtual environment installed the way the image's is, and what a child image does to it afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

from tests.support.locks import AMD64, deb_lock, target, wheel_lock
from tests.support.wheels import Content, build_wheel, locked
from trainyard.layers import CONSTANT_MTIME
from trainyard.runtime import CLAIMS, runtime_files
from trainyard.wheels.archive import Site, WheelArchive

PACKAGE = Path(__file__).parents[2] / "trainyard"
# As trainyard/rootfs/usr/local/bin/trainyard-verify does it, with this repository's copy.
LAUNCHER = f"""
import sys
sys.dont_write_bytecode = True
sys.path[0] = {str(PACKAGE)!r}
from guard.verify import main
del sys.path[0]
sys.exit(main(sys.argv[1:]))
"""
NCCL = "nvidia/nccl/lib/libnccl.so.2"
WHEELS: Mapping[tuple[str, str], Mapping[str, Content]] = {
    ("torch", "2.15.0"): {
        "torch/__init__.py": "__version__ = '2.15.0'\n",
        "torch/nn.py": "relu = abs\n",
        "torch/lib/libtorch_cpu.so": b"\x7fELF torch",
        "torch/lib/libgomp.so.1": b"\x7fELF gomp",
    },
    ("triton", "3.9.0"): {"triton/__init__.py": ""},
    ("nvidia-nccl-cu13", "2.30.7"): {
        NCCL: b"\x7fELF nccl for CUDA 13",
        "nvidia/nccl/include/nccl.h": "// 2.30\n",
    },
    ("numpy", "2.5.5"): {"numpy/__init__.py": ""},
}


class Child:
    """An environment of our own making; `answer` is what trainyard-verify says of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prefix = folder / "venv"
        venv.create(self.prefix, symlinks=True)
        self.python = self.prefix / "bin" / "python"
        self.site = next(self.prefix.glob("lib/*/site-packages"))
        self.env = {"PATH": f"{self.prefix}/bin:{os.environ['PATH']}", "HOME": str(folder)}
        wheels = [
            build_wheel(folder / "built", name=name, version=version, files=files)
            for (name, version), files in WHEELS.items()
        ]
        for path in wheels:
            self._unpack(path)
        lock = wheel_lock(*map(locked, wheels))
        files = runtime_files(target(), AMD64, wheels=lock, debs=deb_lock(), payload={})
        self.claims = folder / "claims.json"
        self.claims.write_bytes(next(file.data for file in files if file.path == CLAIMS))

    def _unpack(self, path: Path) -> None:
        """What the assembler's layer would bring, at the same times."""
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        site = Site(prefix=str(self.prefix).lstrip("/"), python=python)
        for entry in WheelArchive(path, locked(path), site).entries():
            target = Path("/", entry.path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(b"".join(entry.content))
            os.utime(target, (CONSTANT_MTIME, CONSTANT_MTIME))

    def write(self, path: str, content: Content) -> Path:
        """A file in site-packages, with the time of now."""
        target = self.site / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    def install(
        self,
        name: str,
        version: str,
        files: Mapping[str, Content],
        *options: str,
        requires: tuple[str, ...] = (),
    ) -> None:
        """What `RUN uv pip install` does in a child whose hold was taken off."""
        wheel = build_wheel(self.folder / "other", name=name, version=version, files=files, requires=requires)
        self.uv("install", "--no-index", "--no-deps", "--offline", *options, str(wheel))

    def uv(self, verb: str, *arguments: str) -> None:
        """`uv pip VERB` in this environment."""
        command = [sys.executable, "-m", "uv", "pip", verb, "--quiet", "--no-config", "--no-cache"]
        subprocess.run([*command, "--python", str(self.python), *arguments], check=True, env=self.env)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """trainyard-verify in this child."""
        script = self.folder / "trainyard-verify"
        script.write_text(LAUNCHER)
        command = [str(self.python), str(script), "--claims", str(self.claims), *arguments]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, check=False)

    def answer(self, *arguments: str) -> dict[str, object]:
        """Its JSON document."""
        done = self.run("--json", *arguments)
        assert done.stdout, done.stderr
        found: dict[str, object] = json.loads(done.stdout)
        assert done.returncode == (0 if found["ok"] else 1)
        return found

    def findings(self, *arguments: str) -> list[tuple[str, str]]:
        """(package, problem) of every finding."""
        found = self.answer(*arguments)["findings"]
        assert isinstance(found, list)
        return [(one["name"], one["problem"]) for one in found]
