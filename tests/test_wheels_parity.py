"""pip and uv as judges: their trees of the same wheels differ from ours in notes and launchers only."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
import sysconfig
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest

from tests.support.wheels import build_wheel, installed, locked, record_hash
from trainyard.wheels.archive import Site, WheelArchive

# The interpreter that runs the tests decides pip's paths.
SITE = Site("env", sysconfig.get_python_version())
PACKAGES = SITE.site_packages.removeprefix("env/")
Tree = dict[str, tuple[bool, bytes]]  # path below the prefix -> (executable, content)

# What an installer writes for itself; --prefix from a local file adds the last ones.
NOTES = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("wheels")
    return [
        build_wheel(
            folder,
            name="everything",
            files={
                "everything/__init__.py": "def main():\n    return 3\n",
                "everything/tool.sh": "#!/bin/sh\n",
                "everything/größe,.txt": "ä",
                "everything/empty": "",
            },
            data={
                "purelib/pure.py": "p = 1\n",
                "platlib/plat.py": "p = 2\n",
                "scripts/placeholder": "#!python\nprint(1)\n",
                "scripts/shell": "#!/bin/sh\necho 1\n",
                "data/share/everything/conf": "c",
                "data/etc/conf": "c",
                "headers/sub/everything.h": "int x;\n",
            },
            entry_points="everything = everything:main",
            executable=[
                "everything/tool.sh",
                "everything-1.0.data/scripts/placeholder",
                "everything-1.0.data/scripts/shell",
            ],
        ),
        build_wheel(folder, name="Plain_Name", version="2.0.post1", files={"plain_name.py": "x = 1\n"}),
        build_wheel(
            folder,
            name="vendored",
            files={
                "vendored/a.py": "",
                "vendored/_v/x-1.dist-info/RECORD": "a,,\n",
                "vendored/_v/x-1.dist-info/INSTALLER": "pip\n",
            },
        ),
    ]


def on_disk(root: Path) -> Tree:
    files = (path for path in root.rglob("*") if path.is_file() and path.name != ".lock")
    return {
        str(path.relative_to(root)): (bool(path.stat().st_mode & 0o100), path.read_bytes()) for path in files
    }


def ours(wheels: list[Path]) -> Tree:
    tree: Tree = {}
    for path in wheels:
        for name, (mode, content) in installed(WheelArchive(path, locked(path), SITE)).items():
            tree[name.removeprefix("env/")] = (mode == 0o775, content)
    return tree


def install(command: list[str], prefix: Path, wheels: list[Path]) -> Tree:
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(prefix.parent / f"{prefix.name}.home"),
        "LC_ALL": "C.UTF-8",
    }
    subprocess.run(
        [*command, "--prefix", str(prefix), *map(str, wheels)], env=environ, check=True, capture_output=True
    )
    return on_disk(prefix)


@pytest.fixture(scope="module")
def pips(wheels: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Tree:
    options = ["--no-deps", "--no-index", "--no-compile", "--ignore-installed", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-warn-script-location", *options]
    return install(command, tmp_path_factory.mktemp("pip"), wheels)


@pytest.fixture(scope="module")
def uvs(wheels: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Tree:
    options = ["--no-deps", "--no-index", "--offline", "--no-cache", "--no-config", "--link-mode", "copy"]
    uv = str(Path(sys.executable).with_name("uv"))
    return install(
        [uv, "pip", "install", "--quiet", "--python", sys.executable, *options],
        tmp_path_factory.mktemp("uv"),
        wheels,
    )


def comparable(tree: Tree) -> Tree:
    """Without the notes of the installer and the launcher, which has another text in each installer."""
    return {
        path: item
        for path, item in tree.items()
        if path != "bin/everything"
        and not (path.split("/")[-1] in NOTES and path.count("/") == PACKAGES.count("/") + 2)
    }


def without_first_lines(tree: Tree) -> Tree:
    """Scripts whose placeholder was replaced name each environment's own Python."""
    return {
        path: (mode, content.split(b"\n", 1)[1] if path == "bin/placeholder" else content)
        for path, (mode, content) in tree.items()
    }


def test_pip_installs_the_same_tree(wheels: list[Path], pips: Tree) -> None:
    assert without_first_lines(comparable(ours(wheels))) == without_first_lines(comparable(pips))


def test_uv_installs_the_same_tree_but_for_its_place_of_headers(wheels: list[Path], uvs: Tree) -> None:
    def elsewhere(tree: Tree) -> Tree:
        return {path: item for path, item in tree.items() if not path.startswith("include/")}

    assert without_first_lines(elsewhere(comparable(ours(wheels)))) == without_first_lines(
        elsewhere(comparable(uvs))
    )


def test_the_launcher_is_where_pip_and_uv_have_theirs_and_executable(
    wheels: list[Path], pips: Tree, uvs: Tree
) -> None:
    assert ours(wheels)["bin/everything"][0]
    assert pips["bin/everything"][0]
    assert uvs["bin/everything"][0]


def test_record_is_pip_s_but_for_launchers_and_the_installer_s_notes(wheels: list[Path], pips: Tree) -> None:
    def rows(tree: Tree) -> set[tuple[str, ...]]:
        found = set()
        for path, (_, content) in tree.items():
            if path.endswith("RECORD") and path.count("/") == PACKAGES.count("/") + 2:
                found |= {tuple(row) for row in csv.reader(io.StringIO(content.decode()))}
        own = ("bin/everything", "bin/placeholder")
        return {
            row
            for row in found
            if not row[0].endswith(own) and not (row[0].count("/") == 1 and row[0].split("/")[1] in NOTES[1:])
        }

    assert rows(ours(wheels)) == rows(pips)


def test_importlib_finds_the_distributions_and_their_files(wheels: list[Path], tmp_path: Path) -> None:
    """importlib.metadata, reading our RECORD, finds each file that it lists, and its hash."""
    for path, (executable, content) in ours(wheels).items():
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(0o755 if executable else 0o644)
    found = {
        each.metadata["Name"]: (each.version, each.read_text("INSTALLER"), files_are_right(each))
        for each in distributions(path=[str(tmp_path / PACKAGES)])
    }

    assert found == {
        "everything": ("1.0", "trainyard\n", True),
        "Plain_Name": ("2.0.post1", "trainyard\n", True),
        "vendored": ("1.0", "trainyard\n", True),
    }


def files_are_right(distribution: Distribution) -> bool:
    """Whether each file of RECORD is there, and has the hash and the size that RECORD gives."""
    files = distribution.files or []
    return bool(files) and all(
        file.hash is None
        or (record_hash(file.read_binary()), len(file.read_binary()))
        == (f"sha256={file.hash.value}", file.size)
        for file in files
    )
