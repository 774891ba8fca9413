"""No script counts as reviewed but the very one that somebody read."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.support.debs import build_deb
from trainyard.debian.archive import DebArchive
from trainyard.debian.review import Reviewed, parse_reviewed, problems, refusals, reviewed, scripts_of
from trainyard.debian.state import EFFECTS
from trainyard.oci.directories import DEFAULT, attributes_of

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


def test_effects_are_read_as_values(table: Reviewed) -> None:
    (script,) = scripts_of(["pkg", "without-scripts"], table=table)

    assert script.touch == {"etc/made": "0644 0:0"}
    assert script.alternatives[0].slaves == (("/a", "b", "/c"),)
    assert table.privileged["usr/bin/keep"].keep


def test_a_misspelt_effect_is_an_error() -> None:
    with pytest.raises(TypeError, match="tuoch"):
        parse_reviewed(TABLE.replace("touch =", "tuoch ="))


def test_every_row_of_the_real_table_says_what_is_done_or_why_nothing_is() -> None:
    silent = [
        key
        for key, script in reviewed().scripts.items()
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


def test_every_effect_of_the_real_table_has_a_function_and_every_function_a_use() -> None:
    used = {effect for script in reviewed().scripts.values() for effect in script.effects}

    assert used == set(EFFECTS)


def test_every_hash_of_the_real_table_is_one() -> None:
    digests = [digest for script in reviewed().scripts.values() for digest in script.sha256]

    assert all(len(digest) == 64 and set(digest) <= set("0123456789abcdef") for digest in digests)
    assert all(len(script.sha256) in (1, 2) for script in reviewed().scripts.values())


def test_no_setuid_file_is_kept_without_a_reason() -> None:
    assert all(privilege.why for privilege in reviewed().privileged.values())
    assert [path for path, privilege in reviewed().privileged.items() if privilege.keep] == []


def test_groups_of_the_real_table_have_numbers_of_their_own_in_the_systems_range() -> None:
    numbers = [gid for script in reviewed().scripts.values() for gid in script.groups.values()]

    assert len(numbers) == len(set(numbers))
    assert all(100 < gid < 1000 for gid in numbers)


def test_only_mail_and_locks_of_the_real_tables_directories_have_attributes_of_their_own() -> None:
    paths = [path for script in reviewed().scripts.values() for path in script.directories]

    assert {path for path in paths if attributes_of(path) != DEFAULT} == {"var/mail", "run/lock"}
