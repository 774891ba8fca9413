"""A copy of this project that a test may change, and `invoke` in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.support.locks import AMD64
from trainyard.paths import Project
from trainyard.platforms import Platform
from trainyard.settings import settings_from
from trainyard.workspace import Workspace

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 12, 1, 6, tzinfo=UTC)
_FILES = ("matrix.yaml", "tasks.py", "trainyard", "templates", "lockfiles", "images")


def copy_project(folder: Path) -> Path:
    """What a build reads of this project, in a folder of its own."""
    for name in _FILES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, folder / name)
    return folder


@dataclass(frozen=True, slots=True)
class Invoke:
    """Runs `invoke` in a project folder, with a cache of its own."""

    folder: Path
    environ: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "TRAINYARD_CACHE": str(self.folder / "cache"), **self.environ}
        return subprocess.run(
            [sys.executable, "-m", "invoke", *words],
            cwd=self.folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def json(self, *words: str) -> dict[str, object]:
        """The one JSON document of a command that succeeds."""
        done = self(*words, "--json")
        assert done.returncode == 0, done.stderr
        document: dict[str, object] = json.loads(done.stdout)
        return document


def workspace_of(
    root: Path,
    *,
    cache: Path,
    environ: Mapping[str, str] | None = None,
    host: Platform = AMD64,
    apt_sources: Callable[[], Mapping[str, str]] = dict,
    say: Callable[[str], None] = lambda _line: None,
) -> Workspace:
    """The workspace of a project folder, with a clock that stands still."""
    variables = {"PATH": os.environ["PATH"], "TRAINYARD_CACHE": str(cache), **(environ or {})}
    return Workspace(
        project=Project(root),
        settings=settings_from(variables, home=root, cores=2),
        host=host,
        clock=lambda: 0.0,
        now=lambda: NOW,
        apt_sources=apt_sources,
        say=say,
    )


def write_matrix(root: Path, *, targets: Sequence[str] = ("cuda13.2",), requirement: str = "torch") -> None:
    """A small matrix.yaml: these targets, of one base, linux/amd64, one requirement each."""
    lines = [
        "format: 1",
        "defaults:",
        f"  target: {targets[0]}",
        "bases:",
        "  trixie:",
        "    suite: trixie",
        '    python: "3.13"',
        "    snapshot: https://snapshot.example.com/archive",
        "    packages: [python3.13, tini]",
        "sets:",
        f"  wanted: ['{requirement}']",
        "targets:",
    ]
    for name in targets:
        lines += [
            f"  {name}:",
            f"    title: {name} of a test",
            "    accelerator: cpu",
            '    toolkit: "1"',
            "    base: trixie",
            "    platforms: [linux/amd64]",
            "    sets: [wanted]",
        ]
    root.mkdir(parents=True, exist_ok=True)
    (root / "matrix.yaml").write_text("\n".join(lines) + "\n", "utf-8")
