"""No script counts as reviewed but the very one that somebody read."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.debs import build_deb
from trainyard.debian.archive import DebArchive
from trainyard.debian.review import (
    Reviewed,
    parse_reviewed,
    privileged,
    problems,
    refusals,
    reviewed,
    reviewed_as,
    reviewed_sha256,
    scripts_of,
    suites,
)
from trainyard.debian.state import EFFECTS
from trainyard.errors import LockError
from trainyard.oci.directories import DEFAULT, attributes_of

FOLDER = Path(__file__).parents[1] / "trainyard/debian"
POSTINST = "#!/bin/sh\ntouch /etc/made\n"
DIGEST = hashlib.sha256(POSTINST.encode()).hexdigest()
TABLE = f"""
[triggers]
ldconfig = "made by the state layer"
[privileged]
"usr/bin/keep" = {{ keep = true, why = "needed" }}
[scripts.pkg.postinst]
sha256 = ["{DIGEST}"]
touch = {{ "etc/made" = "0644 0:0" }}
alternatives = [{{ link = "/bin/x", name = "x", path = "/y", priority = 1, slaves = [["/a", "b", "/c"]] }}]
"""


@pytest.fixture
def table() -> Reviewed:
    return parse_reviewed(TABLE)


def archive(folder: Path, **options: object) -> DebArchive:
    return DebArchive(build_deb(folder, "pkg", "1", **options), name="pkg", version="1")  # type: ignore[arg-type]


def test_a_reviewed_script_is_no_problem(tmp_path: Path, table: Reviewed) -> None:
    assert problems(archive(tmp_path, scripts={"postinst": POSTINST}), table=table) == []


def test_a_changed_script_is_named_with_its_hash(tmp_path: Path, table: Reviewed) -> None:
    changed = POSTINST + "rm -rf /\n"
    digest = hashlib.sha256(changed.encode()).hexdigest()

    found = problems(archive(tmp_path, scripts={"postinst": changed}), table=table)

    assert found == [f"pkg: its postinst script has changed, and nobody has reviewed it: sha256 {digest}"]


@pytest.mark.parametrize("name", ["preinst", "config"])
def test_a_new_script_is_named(tmp_path: Path, table: Reviewed, name: str) -> None:
    found = problems(archive(tmp_path, scripts={"postinst": POSTINST, name: "#!/bin/sh\n"}), table=table)

    assert len(found) == 1
    assert found[0].startswith(f"pkg: its {name} script is new")


def test_scripts_that_run_on_removal_need_no_review(tmp_path: Path, table: Reviewed) -> None:
    assert (
        problems(archive(tmp_path, scripts={"prerm": "#!/bin/sh\n", "postrm": "#!/bin/sh\n"}), table=table)
        == []
    )


@pytest.mark.parametrize("directive", ["activate", "activate-noawait", "activate-await"])
def test_an_unknown_trigger_is_a_problem(tmp_path: Path, table: Reviewed, directive: str) -> None:
    found = problems(
        archive(tmp_path, control_files={"triggers": f"{directive} update-icons\n"}), table=table
    )

    assert found == ["pkg: activates the trigger update-icons, which nobody has reviewed"]


def test_a_known_trigger_and_an_interest_are_no_problem(tmp_path: Path, table: Reviewed) -> None:
    deb = archive(tmp_path, control_files={"triggers": "activate-noawait ldconfig\ninterest /usr/lib/x\n"})

    assert problems(deb, table=table) == []


def test_a_package_whose_files_would_be_refused_says_so_before_a_build(tmp_path: Path) -> None:
    bad = archive(tmp_path / "bad", files={"usr/bin/gain": b""}, modes={"usr/bin/gain": 0o4755})

    assert refusals(bad) == ["pkg=1: usr/bin/gain: setuid or setgid (4755), and not reviewed"]
    assert refusals(archive(tmp_path / "good", files={"usr/bin/plain": b""})) == []


def test_effects_are_read_as_values(tmp_path: Path, table: Reviewed) -> None:
    (script,) = scripts_of([archive(tmp_path, scripts={"postinst": POSTINST}).control], table=table)

    assert script.touch == {"etc/made": "0644 0:0"}
    assert script.alternatives[0].slaves == (("/a", "b", "/c"),)
    assert table.privileged["usr/bin/keep"].keep


def test_a_script_that_the_package_no_longer_has_does_nothing(tmp_path: Path, table: Reviewed) -> None:
    assert scripts_of([archive(tmp_path).control], table=table) == []


def test_scripts_come_by_package_and_in_dpkgs_order(tmp_path: Path, table: Reviewed) -> None:
    rows = {
        (package, name): replace(table.scripts["pkg", "postinst"], why=f"{package} {name}")
        for package in ("b", "a")
        for name in ("postinst", "config", "preinst")
    }
    scripts = dict.fromkeys(("preinst", "postinst", "config"), POSTINST)
    controls = [
        DebArchive(build_deb(tmp_path, name, "1", scripts=scripts), name=name, version="1").control
        for name in ("b", "a")
    ]

    found = scripts_of(controls, table=replace(table, scripts=rows))

    assert [script.why for script in found] == [
        f"{package} {name}" for package in ("a", "b") for name in ("config", "preinst", "postinst")
    ]


def test_a_misspelt_effect_or_section_is_an_error() -> None:
    with pytest.raises(TypeError, match="tuoch"):
        parse_reviewed(TABLE.replace("touch =", "tuoch ="))
    with pytest.raises(KeyError, match="triggres"):
        parse_reviewed(TABLE.replace("[triggers]", "[triggres]"))


def test_a_suites_own_row_stands_in_front_of_the_common_one_and_leaves_the_others() -> None:
    common, own = reviewed("trixie").scripts, reviewed("forky").scripts

    assert own["apt", "preinst"].sha256 != common["apt", "preinst"].sha256
    assert own["netbase", "postinst"] == common["netbase", "postinst"]
    assert ("python3.14", "postinst") not in common
    assert reviewed("forky").privileged == reviewed("trixie").privileged


def test_what_is_read_for_one_suite_moves_no_key_of_another() -> None:
    """The hash of images recorded before forky had rows; another one here means that all of them move."""
    assert reviewed_sha256("trixie") == hashlib.sha256((FOLDER / "reviewed.toml").read_bytes()).hexdigest()
    assert len({reviewed_sha256(suite) for suite in suites()}) == len(suites())


def test_a_plans_table_is_found_again_by_its_hash() -> None:
    assert {
        suite: reviewed_as(reviewed_sha256(suite)) == reviewed(suite) for suite in ("trixie", "forky")
    } == {
        "trixie": True,
        "forky": True,
    }
    with pytest.raises(LockError, match="no table of reviewed scripts has sha256 0000"):
        reviewed_as("0" * 64)


def test_no_two_suites_disagree_about_a_setuid_file() -> None:
    answers = {(path, one.keep) for suite in suites() for path, one in reviewed(suite).privileged.items()}

    assert {path: one.keep for path, one in privileged().items()} == dict(answers)
    assert len(answers) == len(privileged())


@pytest.mark.parametrize("suite", [suite for suite in suites() if suite])
def test_no_row_of_a_suite_repeats_the_common_table(suite: str) -> None:
    own = parse_reviewed((FOLDER / f"reviewed-{suite}.toml").read_text())

    assert [key for key, row in own.scripts.items() if reviewed("").scripts.get(key) == row] == []


@pytest.mark.parametrize("suite", suites())
def test_every_row_of_the_real_table_says_what_is_done_or_why_nothing_is(suite: str) -> None:
    silent = [
        key
        for key, script in reviewed(suite).scripts.items()
        if not any(
            (
                script.why,
                script.directories,
                script.links,
                script.copies,
                script.files,
                script.touch,
                script.groups,
                script.alternatives,
                script.effects,
            )
        )
    ]

    assert silent == []


@pytest.mark.parametrize("suite", suites())
def test_every_effect_of_the_real_table_has_a_function_and_every_function_a_use(suite: str) -> None:
    used = {effect for script in reviewed(suite).scripts.values() for effect in script.effects}

    assert used == set(EFFECTS)


@pytest.mark.parametrize("suite", suites())
def test_every_hash_of_the_real_table_is_one(suite: str) -> None:
    digests = [digest for script in reviewed(suite).scripts.values() for digest in script.sha256]

    assert all(len(digest) == 64 and set(digest) <= set("0123456789abcdef") for digest in digests)
    assert all(len(script.sha256) in (1, 2) for script in reviewed(suite).scripts.values())


def test_no_setuid_file_is_kept_without_a_reason() -> None:
    assert all(privilege.why for privilege in privileged().values())
    assert [path for path, privilege in privileged().items() if privilege.keep] == []


@pytest.mark.parametrize("suite", suites())
def test_groups_of_the_real_table_have_numbers_of_their_own_in_the_systems_range(suite: str) -> None:
    numbers = [gid for script in reviewed(suite).scripts.values() for gid in script.groups.values()]

    assert len(numbers) == len(set(numbers))
    assert all(100 < gid < 1000 for gid in numbers)


@pytest.mark.parametrize("suite", suites())
def test_only_mail_and_locks_of_the_real_tables_directories_have_attributes_of_their_own(suite: str) -> None:
    paths = [path for script in reviewed(suite).scripts.values() for path in script.directories]

    assert {path for path in paths if attributes_of(path) != DEFAULT} == {"var/mail", "run/lock"}
