"""What moved, by package and in one line."""

from __future__ import annotations

from tests.support.locks import deb, deb_lock, wheel, wheel_lock
from trainyard.lock.changes import Change, changes, summary


def test_what_moved_is_said_for_each_package_once() -> None:
    old = wheel_lock(wheel("gone"), wheel("same"), wheel("up", "1.0"))
    new = wheel_lock(wheel("came"), wheel("same"), wheel("up", "2.0"))

    assert changes(old, new.wheels) == (
        Change(name="gone", old="1.0", new=None),
        Change(name="came", old=None, new="1.0"),
        Change(name="up", old="1.0", new="2.0"),
    )


def test_a_change_reads_as_a_diff_does() -> None:
    assert Change(name="a", old="1", new=None).line() == "- a 1"
    assert Change(name="a", old=None, new="1").line() == "+ a 1"
    assert Change(name="a", old="1", new="2").line() == "a 1 -> 2"


def test_another_file_of_the_same_version_is_a_move_too() -> None:
    old, new = wheel_lock(wheel("a")), wheel_lock(wheel("a", tag="cp313-cp313-manylinux_2_28_x86_64"))

    (change,) = changes(old, new.wheels)
    assert change.line() == "a 1.0 -> 1.0 (another file of the same version)"


def test_nothing_moved_in_a_first_lock_or_in_the_same_one() -> None:
    lock = wheel_lock(wheel("a"))

    assert changes(None, lock.wheels) == ()
    assert changes(lock, lock.wheels) == ()


def test_packages_of_a_base_are_compared_alike() -> None:
    old, new = deb_lock(deb("tini", "1")), deb_lock(deb("tini", "2"))

    assert [change.line() for change in changes(old, new.debs)] == ["tini 1 -> 2"]


def test_the_summary_counts_locks_and_packages() -> None:
    moved = Change(name="a", old="1", new="2")
    came = Change(name="b", old=None, new="1")

    assert summary([(moved, came), (moved,), ()]) == (
        "2 of 3 locks moved: 2 packages moved, 1 added, 0 removed"
    )
