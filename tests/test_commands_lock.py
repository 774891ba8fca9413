"""`invoke lock` against a package index on loopback; the base's lock is there already."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.locks import deb, deb_lock
from tests.support.project import ROOT, workspace_of, write_matrix
from tests.support.wheelindex import served_index
from tests.support.wheels import build_wheel
from trainyard.commands.lock import LockRequest, LockResult, cut_off, guarded, write_locks
from trainyard.errors import LockError, TrainyardError, UsageError
from trainyard.lock.debian import deb_inputs, render_deb_lock
from trainyard.lock.model import WheelLock
from trainyard.workspace import Workspace

OLD, NEW = "2026-10-01T00:00:00Z", "2026-11-20T00:00:00Z"
EARLY = "2026-11-01"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[dict[Path, str]]:
    """What the index has; a test may add to it."""
    folder = tmp_path / "index"
    yield {
        build_wheel(folder, name="torch", version="1.0", requires=["numpy"]): OLD,
        build_wheel(folder, name="torch", version="2.0", requires=["numpy"]): NEW,
        build_wheel(folder, name="numpy", version="1.0"): OLD,
        build_wheel(folder, name="numpy", version="1.1"): NEW,
    }


@pytest.fixture
def space(tmp_path: Path, index: dict[Path, str]) -> Iterator[Workspace]:
    root = tmp_path / "project"
    write_matrix(root, targets=["one", "two"])
    (root / "templates").symlink_to(ROOT / "templates")
    with served_index(index) as url:
        made = workspace_of(
            root,
            cache=tmp_path / "cache",
            environ={"UV_DEFAULT_INDEX": url, "XDG_CACHE_HOME": str(tmp_path / "uv"), "HOME": str(tmp_path)},
        )
        base = made.matrix.bases["trixie"]
        lock = replace(deb_lock(deb("tini")), inputs=deb_inputs("trixie", base, "amd64"))
        path = made.project.deb_lock("trixie", "amd64")
        path.parent.mkdir(parents=True)
        path.write_text(render_deb_lock(made.project, lock), "utf-8")
        yield made


def lock(space: Workspace, *names: str, **request: object) -> dict[str, LockResult]:
    targets = [space.matrix.target(name) for name in names or ("one",)]
    results = write_locks(space, targets, LockRequest(**request))  # type: ignore[arg-type]
    return {result.lock: result for result in results}


def lines(result: LockResult) -> list[str]:
    return [change.line() for change in result.moved]


def wheels_of(space: Workspace, name: str = "one") -> dict[str, str]:
    return {one.name: one.version for one in read(space, name).wheels}


def read(space: Workspace, name: str = "one") -> WheelLock:
    target = space.matrix.target(name)
    found = space.read_wheel_lock(target, target.platforms[0])
    assert found is not None
    return found


ONE, TWO = "lockfiles/one/linux-amd64.txt", "lockfiles/two/linux-amd64.txt"
BASE = "lockfiles/base/trixie.amd64.txt"


def test_a_first_lock_is_of_today_and_is_fresh(space: Workspace) -> None:
    results = lock(space)
    target = space.matrix.target("one")

    assert wheels_of(space) == {"torch": "2.0", "numpy": "1.1"}
    assert read(space).until == "2026-12-01T00:00:00Z"
    assert results[BASE].outcome == "fresh"
    assert results[ONE].moved == ()
    assert space.lock_problems(target, target.platforms[0]) == ()


def test_a_cut_off_hides_what_came_later(space: Workspace) -> None:
    lock(space, until=EARLY)

    assert wheels_of(space) == {"torch": "1.0", "numpy": "1.0"}
    assert read(space).until == "2026-11-01T00:00:00Z"


def test_locking_again_keeps_the_cut_off_and_does_not_touch_the_file(space: Workspace) -> None:
    lock(space, until=EARLY)
    path = space.project.root / ONE
    before = (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())

    results = lock(space)

    assert results[ONE].outcome == "unchanged, up to 2026-11-01T00:00:00Z"
    assert (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes()) == before


def test_a_wheel_that_the_index_shows_late_moves_nothing_until_an_upgrade(
    space: Workspace, index: dict[Path, str], tmp_path: Path
) -> None:
    lock(space, until=EARLY)
    late = build_wheel(tmp_path / "late", name="numpy", version="1.0.5")
    index[late] = OLD

    assert lock(space)[ONE].moved == ()
    assert lines(lock(space, upgrade=True, until=EARLY)[ONE]) == ["numpy 1.0 -> 1.0.5"]


def test_upgrade_moves_the_cut_off_and_says_what_moved(space: Workspace) -> None:
    lock(space, until=EARLY)

    (result,) = (one for name, one in lock(space, upgrade=True, package="torch").items() if name == ONE)

    assert lines(result) == ["torch 1.0 -> 2.0"]
    assert wheels_of(space) == {"torch": "2.0", "numpy": "1.0"}, "only the named package may move"


def test_a_package_is_known_by_any_spelling_of_its_name(space: Workspace) -> None:
    lock(space, until=EARLY)

    lock(space, package="NumPy", until="2026-12-01")

    assert wheels_of(space) == {"torch": "1.0", "numpy": "1.1"}


def test_a_package_that_no_lock_has_is_refused_before_anything_is_written(space: Workspace) -> None:
    lock(space, until=EARLY)
    (space.project.root / BASE).write_text("broken", "utf-8")

    with pytest.raises(UsageError, match=r"'nunpy' \(did you mean 'numpy'\?\)"):
        lock(space, package="nunpy")
    assert (space.project.root / BASE).read_text("utf-8") == "broken"


def test_a_package_of_one_target_does_not_fail_the_target_that_lacks_it(
    space: Workspace, index: dict[Path, str]
) -> None:
    lock(space, "one", "two", until=EARLY)
    path = space.project.root / TWO
    rest = [line for line in path.read_text("utf-8").splitlines(keepends=True) if "numpy==" not in line]
    path.write_text("".join(rest), "utf-8")

    results = lock(space, "one", "two", package="numpy", until="2026-12-01")

    assert not [result for result in results.values() if result.problems]
    assert lines(results[ONE]) == ["numpy 1.0 -> 1.1"]


def test_one_target_that_fails_does_not_stop_the_others_and_its_file_stays(
    space: Workspace, tmp_path: Path
) -> None:
    lock(space, "one", "two", until=EARLY)
    before = (space.project.root / ONE).read_bytes()
    text = space.project.matrix.read_text("utf-8")
    text = text.replace("  wanted: ['torch']", "  wanted: ['torch']\n  none: ['nosuchpackage']")
    text = text.replace("sets: [wanted]", "sets: [none]", 1)
    space.project.matrix.write_text(text, "utf-8")
    again = replace(space)

    results = lock(again, "one", "two", upgrade=True, package="")

    assert results[ONE].outcome == "not locked"
    assert any("nosuchpackage" in line for line in results[ONE].problems)
    assert (space.project.root / ONE).read_bytes() == before
    assert results[TWO].problems == ()
    assert wheels_of(again, "two") == {"torch": "2.0", "numpy": "1.1"}


def test_a_malformed_base_lock_does_not_stop_the_wheels(space: Workspace) -> None:
    (space.project.root / BASE).write_text("<<<<<<< HEAD\n", "utf-8")

    results = lock(space)

    assert results[BASE].outcome == "not locked"
    assert "restore lockfiles/base/trixie.amd64.txt from git" in results[BASE].hint
    assert results[ONE].problems == ()


def test_a_base_without_a_mirror_says_how_to_name_one_and_the_wheels_go_on(space: Workspace) -> None:
    (space.project.root / BASE).unlink()

    results = lock(space)

    assert "TRAINYARD_DEBIAN_MIRROR=URL" in results[BASE].hint
    assert not (space.project.root / BASE).exists()
    assert results[ONE].problems == ()


def test_package_moves_no_base(space: Workspace) -> None:
    """Without a mirror an upgrade of the base could only fail."""
    lock(space, until=EARLY)

    assert lock(space, upgrade=True, package="torch")[BASE].outcome == "fresh"
    assert lock(space, upgrade=True)[BASE].outcome == "not locked"


def test_an_index_that_is_away_is_said_and_leaves_the_lock(space: Workspace, tmp_path: Path) -> None:
    lock(space, until=EARLY)
    before = (space.project.root / ONE).read_bytes()
    away = workspace_of(
        space.project.root,
        cache=tmp_path / "cache",
        environ={
            "UV_OFFLINE": "1",
            "XDG_CACHE_HOME": str(tmp_path / "fresh"),
            "HOME": str(tmp_path),
        },
    )

    results = lock(away, until="2026-12-01")

    assert results[ONE].outcome == "not locked"
    assert (space.project.root / ONE).read_bytes() == before


def test_two_locks_at_once_are_refused(space: Workspace) -> None:
    """The base's packages go through the cache, whose unfinished files the second would remove."""
    space.store.root.mkdir(parents=True, exist_ok=True)
    with (space.store.root / "lock").open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        with pytest.raises(TrainyardError, match="another trainyard"):
            lock(space)


# Pure parts


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("", ""),
        ("2026-12-01", "2026-12-01T00:00:00Z"),
        ("2026-12-01T06:00:00Z", "2026-12-01T06:00:00Z"),
    ],
)
def test_a_cut_off_is_a_date_or_an_instant(text: str, instant: str) -> None:
    assert cut_off(text) == instant


@pytest.mark.parametrize(
    "text",
    [
        "today",
        "2026-12",
        "01.12.2026",
        "2026-12-01T06:00",
        "2026-12-01T06:00:00+01:00",
        "2026-13-01",
        "2026-02-30",
        "2026-12-01T25:00:00Z",
        "٢٠٢٦-12-01",
    ],
)
def test_what_is_no_utc_instant_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="is no date") as caught:
        cut_off(text)
    assert "2026-12-01" in caught.value.hint


def test_an_expected_failure_becomes_a_result_and_a_wrong_value_or_a_bug_does_not() -> None:
    def fail(error: Exception) -> LockResult:
        raise error

    result = guarded("x", lambda: fail(LockError("one\ntwo", hint="h")))

    assert (result.outcome, result.problems, result.hint) == ("not locked", ("one", "two"), "h")
    assert result.line() == "x: not locked\n  one\n  two"
    assert result.line(hint=True) == "x: not locked\n  one\n  two\n  hint: h"
    with pytest.raises(UsageError):
        guarded("x", lambda: fail(UsageError("no")))
    with pytest.raises(KeyError):
        guarded("x", lambda: fail(KeyError("bug")))
