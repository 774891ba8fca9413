"""The package's import arrows point one way. To move a module, edit ROWS."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "trainyard"

# A module may import from its own package and from rows above its own; neighbours in a row stay strangers.
ROWS = [
    {"errors", "logins", "guard"},
    {"digest", "files", "platforms", "connection"},
    {"settings", "paths", "store", "download"},
    {"templates"},
    {"matrix", "lock.model", "oci"},
    {"layers", "debian", "wheels"},
    {"bytecode"},
    {"lock"},
    {"fetch"},
    {"runtime", "layering", "payload"},
    {"plan"},
    {"sources", "golden"},
    {"assemble"},
    {"build", "dockerfile", "buildx", "parity"},
    {"multiplatform", "sbom"},
    {"report"},
    {"runner"},
    {"smoke", "inventory"},
    {"workspace"},
    {"commands"},
    {"cli"},
]
RANK = {module: rank for rank, row in enumerate(ROWS) for module in row}
# Run inside an image or in the image's Python: they import nothing of ours.
FOREIGN = ("guard/", "smoke/checks/", "smoke/doctor.py", "bytecode/server.py", "bytecode/tree.py")
# No I/O: a plan can be made, printed and tested without a disk, a network or a clock.
PURE = [
    "layering.py",
    "layers.py",
    "plan.py",
    "runtime.py",
    "dockerfile.py",
    "golden.py",
    "parity.py",
    "sbom.py",
    "lock/model.py",
    "lock/freshness.py",
    "lock/honest.py",
    "inventory/facts.py",
    "inventory/parse.py",
    "inventory/judge.py",
    "oci/image.py",
]
IMPURE = {"os", "pathlib", "subprocess", "socket", "urllib3", "time", "shutil", "tempfile", "random"}
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path.name != "__init__.py"]


def unit_of(parts: list[str]) -> str:
    """The longest prefix of a dotted name that has a row."""
    for length in (2, 1):
        name = ".".join(parts[:length])
        if name in RANK:
            return name
    return parts[0]


def imported(path: Path) -> list[list[str]]:
    """Dotted names that a file imports, anywhere in it, as parts."""
    package = [PACKAGE.name, *path.relative_to(PACKAGE).parts[:-1]]
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base += node.module.split(".") if node.module else []
            names += [[*base, alias.name] for alias in node.names]
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_from_rows_above(path: Path) -> None:
    here = unit_of(list(path.relative_to(PACKAGE).with_suffix("").parts))
    assert here in RANK, f"give {here!r} a row in ROWS"

    units = {unit_of(name[1:]) for name in imported(path) if name[0] == PACKAGE.name and len(name) > 1}
    own = here.split(".")[0]
    wrong = {unit for unit in units if unit.split(".")[0] != own and RANK.get(unit, 0) >= RANK[here]}

    assert not wrong, f"{here} may not import {sorted(wrong)}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_what_runs_inside_an_image_imports_nothing_of_trainyard(path: Path) -> None:
    if not str(path.relative_to(PACKAGE)).startswith(FOREIGN):
        return

    assert not [name for name in imported(path) if name[0] == PACKAGE.name and name[1:2] != ["guard"]]


@pytest.mark.parametrize("name", PURE)
def test_a_pure_module_imports_nothing_that_could_do_io(name: str) -> None:
    assert not IMPURE & {parts[0] for parts in imported(PACKAGE / name)}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_the_edge_reads_the_environment_and_the_clock(path: Path) -> None:
    """Environment and wall clock are handed in by cli/context.py; scripts that run in an image have their own."""
    if str(path.relative_to(PACKAGE)).startswith((*FOREIGN, "runner/", "cli/context.py")):
        return
    text = path.read_text()

    assert "os.environ" not in text
    assert "os.getenv" not in text
    assert "datetime.now" not in text
    assert "time.time(" not in text


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_and_functions_stay_small(path: Path) -> None:
    text = path.read_text()
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    long = [
        f"{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in functions
        if node.end_lineno is not None and node.end_lineno - node.lineno + 1 > 60
    ]

    assert len(text.splitlines()) <= 250
    assert not long
