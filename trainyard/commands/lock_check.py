"""`invoke lock --check`: every reason why a lock is stale, and what others than uv think of a fresh one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from trainyard.bytecode.python import ImagePython, image_python, python_debs
from trainyard.commands.lock import LockResult, guarded
from trainyard.fetch import fetch_inputs, missing_inputs
from trainyard.lock.opinions import second_opinions, who_was_asked
from trainyard.matrix.model import Target
from trainyard.platforms import Platform
from trainyard.workspace import Workspace


def check_locks(
    workspace: Workspace, targets: Sequence[Target], *, named: bool = True
) -> tuple[LockResult, ...]:
    """Write nothing; one result for each target and platform, with every problem of both of its locks.

    Where a target was not `named`, one that nobody has locked yet is said, and is no problem.
    """
    with workspace.store.exclusive():
        return tuple(_check_all(workspace, targets, named=named))


def _check_all(workspace: Workspace, targets: Sequence[Target], *, named: bool) -> Iterator[LockResult]:
    for target in targets:
        for platform in target.platforms:
            name = workspace.project.relative(workspace.project.wheel_lock(target.name, platform))
            if not named and not workspace.is_begun(target, platform):
                yield LockResult(lock=name, outcome=f"not locked yet (invoke lock --target {target.name})")
            elif stale := workspace.lock_problems(target, platform):
                yield LockResult(
                    lock=name, outcome="stale", problems=stale, hint=f"invoke lock --target {target.name}"
                )
            else:
                yield guarded(name, partial(_ask, workspace, target, platform, name))


def _ask(workspace: Workspace, target: Target, platform: Platform, name: str) -> LockResult:
    """Second opinions need the wheels themselves, and three gigabytes are not fetched for a question."""
    lock = workspace.read_wheel_lock(target, platform)
    assert lock is not None
    if missing := missing_inputs(workspace.store, lock.wheels):
        outcome = f"fresh; not asked: pip and pip-tools, since {len(missing)} of its wheels are not here (invoke build)"
        return LockResult(lock=name, outcome=outcome)
    python = _python(workspace, target, platform)
    problems = second_opinions(
        target,
        lock,
        lock_file=workspace.project.wheel_lock(target.name, platform),
        store=workspace.store,
        python=python,
        environ=workspace.settings.environ,
    )
    outcome = "fresh, but" if problems else f"fresh; {who_was_asked(target, python)}"
    return LockResult(lock=name, outcome=outcome, problems=problems)


def _python(workspace: Workspace, target: Target, platform: Platform) -> ImagePython | None:
    """The image's own Python where this host runs it, its debs fetched if they are not here."""
    if workspace.host != platform or platform.os != "linux":
        return None
    debs = workspace.host_debs(target)
    lock = workspace.read_wheel_lock(target, platform)
    assert lock is not None
    if missing := missing_inputs(workspace.store, python_debs(debs)):
        fetch_inputs(
            workspace.store,
            wheels=(),
            debs=missing,
            lock=lock,
            deb_lock=debs,
            origin=workspace.deb_origin(target.name),
            settings=workspace.settings,
        )
    return image_python(workspace.store, debs, platform)
