"""`invoke list` and `invoke plan`: what stands, in documents and for a person."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.support.locks import AMD64, deb, deb_lock, wheel, wheel_lock
from tests.support.plans import Yard
from tests.support.project import ROOT, workspace_of, write_matrix
from tests.support.wheels import build_wheel
from trainyard.build import record_golden
from trainyard.commands.listing import Cell, list_cells, listing_table
from trainyard.commands.plan import plan_document, plan_lines
from trainyard.errors import LockError
from trainyard.lock.debian import deb_inputs, render_deb_lock
from trainyard.lock.environment import wheel_inputs
from trainyard.lock.render import render_wheel_lock
from trainyard.plan import Plan
from trainyard.report import CheckResult, Report, Status
from trainyard.smoke.run import write_report
from trainyard.workspace import Workspace


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    """Two targets, of which `one` is locked."""
    root = tmp_path / "project"
    write_matrix(root, targets=["one", "two"])
    (root / "templates").symlink_to(ROOT / "templates")
    made = workspace_of(root, cache=tmp_path / "store")
    target = made.matrix.target("one")
    debs = replace(deb_lock(deb("tini")), inputs=deb_inputs("trixie", made.matrix.bases["trixie"], "amd64"))
    wheels = replace(wheel_lock(wheel("torch", "2.15.0")), target="one", inputs=wheel_inputs(target, AMD64))
    for path, text in (
        (made.project.deb_lock("trixie", "amd64"), render_deb_lock(made.project, debs)),
        (made.project.wheel_lock("one", AMD64), render_wheel_lock(made.project, wheels)),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return made


def cells(space: Workspace) -> dict[str, Cell]:
    return {cell.target: cell for cell in list_cells(replace(space))}


def plan_of_one(space: Workspace) -> Plan:
    return space.plan(space.matrix.target("one"), AMD64)


def build_tiny(space: Workspace, tmp_path: Path) -> tuple[Yard, Plan]:
    """An image in the place of target `one`, of a layer that needs no Debian."""
    yard = Yard(tmp_path)
    wheel_file = build_wheel(tmp_path, name="torch", version="2.15.0")
    plan = replace(yard.plan([wheel_file]), target="one")
    return yard, plan


def test_each_cell_says_whether_it_is_locked_and_if_not_why_not(space: Workspace) -> None:
    found = cells(space)

    assert (found["one"].locked, found["two"].locked) == (True, False)
    assert found["one"].reasons == ("images/one/linux-amd64.json is missing",)
    assert found["two"].reasons == ("lockfiles/two/linux-amd64.txt is missing",)
    assert found["two"].title == "two of a test"


def test_nothing_is_built_or_recorded_before_it_is(space: Workspace) -> None:
    one = cells(space)["one"]

    assert (one.built, one.size, one.recorded, one.report) == (None, None, None, None)


def test_a_built_image_has_its_digest_and_the_size_of_its_layers(space: Workspace, tmp_path: Path) -> None:
    yard, plan = build_tiny(space, tmp_path)
    built = yard.build(plan)

    one = cells(space)["one"]

    assert one.built == built.image.digest
    assert one.size == sum(layer.record.size for layer in built.layers)


def test_a_record_of_other_inputs_is_said_to_be_old(space: Workspace, tmp_path: Path) -> None:
    yard, plan = build_tiny(space, tmp_path)
    golden, _ = record_golden(yard.project, plan, yard.assembler(), provide=lambda _specs: None)

    one = cells(space)["one"]

    assert one.recorded == golden.manifest_digest
    assert one.reasons == ("inputs moved since the golden record",)


def test_a_report_counts_only_for_the_image_that_it_is_of(space: Workspace, tmp_path: Path) -> None:
    yard, plan = build_tiny(space, tmp_path)
    built = yard.build(plan)
    report = Report(
        target="one",
        platform="linux/amd64",
        digest=built.image.digest,
        runner="native",
        profile="normal",
        results=(CheckResult(name="user", status=Status.PASS),),
    )
    write_report(report, built.layout)
    assert cells(space)["one"].report == "1 passed"

    write_report(replace(report, digest="sha256:" + "0" * 64), built.layout)
    assert cells(space)["one"].report is None


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"schemaVersion": 2, "manifests": []}', '{"manifests": 7}'],
    ids=["cut", "a list", "no image", "no list"],
)
def test_a_damaged_layout_is_not_built(space: Workspace, tmp_path: Path, text: str) -> None:
    yard, plan = build_tiny(space, tmp_path)
    layout = yard.build(plan).layout
    (layout / "index.json").write_text(text, "utf-8")

    assert cells(space)["one"].built is None


def test_a_malformed_lock_is_a_reason_and_the_others_are_listed(space: Workspace) -> None:
    space.project.wheel_lock("one", AMD64).write_text("<<<<<<< HEAD\n", "utf-8")

    found = cells(space)

    assert not found["one"].locked
    assert any("not a locked wheel" in reason for reason in found["one"].reasons)
    assert set(found) == {"one", "two"}


def test_a_malformed_record_is_a_reason(space: Workspace) -> None:
    path = space.project.golden("one", AMD64)
    path.parent.mkdir(parents=True)
    path.write_text("{", "utf-8")

    assert any("not a golden record" in reason for reason in cells(space)["one"].reasons)


def test_the_table_shows_every_cell_and_every_reason(space: Workspace) -> None:
    console = Console(width=200, file=io.StringIO())
    console.print(listing_table(list_cells(space)))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()

    for cell in list_cells(space):
        assert cell.target in text
        assert all(reason in text for reason in cell.reasons)


def test_the_cells_are_json_able(space: Workspace) -> None:
    assert len(json.loads(json.dumps([asdict(cell) for cell in list_cells(space)]))) == 2


# plan


def test_a_plan_needs_both_locks_and_all_reasons_are_said_at_once(space: Workspace) -> None:
    space.project.deb_lock("trixie", "amd64").unlink()

    with pytest.raises(LockError, match=r"(?s)lockfiles/two/.*lockfiles/base/trixie") as caught:
        space.plan(space.matrix.target("two"), AMD64)
    assert caught.value.hint == "invoke lock --target two"


def test_the_plans_document_has_each_layer_with_its_inputs(space: Workspace) -> None:
    plan = plan_of_one(space)
    document = json.loads(json.dumps(plan_document(plan, space.store)))
    names = {name for layer in document["layers"] for name in layer["inputs"]}

    assert document["key"] == plan.key
    assert [layer["key"] for layer in document["layers"]] == [spec.key for spec in plan.layers]
    assert {"torch==2.15.0", "tini=1.0-1", "/etc/trainyard/constraints.txt"} <= names


def test_the_plan_says_which_layers_are_built(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    plan = yard.plan([build_wheel(tmp_path)], files={"etc/x": b"x"})
    yard.assembler().build(plan.layers[:1])

    document = json.loads(json.dumps(plan_document(plan, yard.store)))
    lines = list(plan_lines(plan, yard.store))

    assert [layer["built"] for layer in document["layers"]] == [True, False]
    assert ["  built  " in line for line in lines[1:3]] == [True, False]


def test_the_plan_for_a_person_has_a_line_for_each_layer_and_variable(space: Workspace) -> None:
    plan = plan_of_one(space)
    lines = list(plan_lines(plan, space.store))

    assert lines[0].startswith(f"one linux/amd64  {plan.tag}  plan ")
    assert all(any(spec.title in line for line in lines) for spec in plan.layers)
    assert [f"env {name}={value}" for name, value in plan.config.env] == lines[-len(plan.config.env) :]
