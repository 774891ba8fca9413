"""`invoke lock`: resolve, say what moved, write; or only say what is stale."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from packaging.utils import canonicalize_name

from trainyard.commands.select import near
from trainyard.debian.archive import DebArchive
from trainyard.debian.review import Reviewed, problems, refusals, reviewed
from trainyard.errors import TrainyardError, UsageError
from trainyard.files import write_atomic
from trainyard.lock.changes import Change, changes
from trainyard.lock.debian import lock_base, render_deb_lock
from trainyard.lock.freshness import stale_deb_reasons
from trainyard.lock.model import DebLock, LockedDeb, LockedWheel, WheelLock
from trainyard.lock.render import render_wheel_lock
from trainyard.lock.resolve import resolve_wheels
from trainyard.matrix.model import Target
from trainyard.platforms import Platform
from trainyard.workspace import Workspace

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRequest:
    """`upgrade` moves everything to the newest up to `until`; `package` lets only that wheel move."""

    upgrade: bool = False
    package: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockResult:
    """One lock file: what became of it, what moved in it, and what is wrong with it."""

    lock: str
    outcome: str
    moved: tuple[Change, ...] = ()
    problems: tuple[str, ...] = ()
    hint: str = ""

    def line(self, *, hint: bool = False) -> str:
        """The result for a person, with its hint on request."""
        moved = [change.line() for change in self.moved]
        hints = [f"hint: {self.hint}"] if hint and self.hint else []
        return "\n  ".join([f"{self.lock}: {self.outcome}", *moved, *self.problems, *hints])


def write_locks(
    workspace: Workspace, targets: Sequence[Target], request: LockRequest
) -> tuple[LockResult, ...]:
    """Resolve every base and target; a target that fails does not stop the others, and leaves no file."""
    until = cut_off(request.until)
    if request.package:
        _refuse_unknown(workspace, targets, request.package)
    with workspace.store.exclusive():
        return (*_lock_bases(workspace, targets, request), *_lock_wheels(workspace, targets, request, until))


def cut_off(text: str) -> str:
    """`--until` as an RFC 3339 UTC instant: a date means its first second; empty stays empty."""
    if not text:
        return ""
    instant = f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text
    try:
        if _INSTANT.fullmatch(instant) and datetime.fromisoformat(instant):
            return instant
    except ValueError:  # such as 30 February
        pass
    raise UsageError(f"--until {text!r} is no date", hint="write 2026-12-01 or 2026-12-01T06:00:00Z")


def _lock_bases(
    workspace: Workspace, targets: Sequence[Target], request: LockRequest
) -> Iterator[LockResult]:
    cells = {
        (target.debian[0], platform.arch): target
        for target in targets
        for platform in target.platforms
        if platform.os == "linux"
    }
    for (name, arch), target in sorted(cells.items(), key=lambda item: item[0]):
        path = workspace.project.deb_lock(name, arch)
        yield guarded(
            workspace.project.relative(path),
            partial(
                _lock_base, workspace, target, arch, path, upgrade=request.upgrade and not request.package
            ),
        )


def _lock_base(workspace: Workspace, target: Target, arch: str, path: Path, *, upgrade: bool) -> LockResult:
    name, base = target.debian
    old = workspace.read_deb_lock(name, arch)
    if old is not None and not upgrade and not stale_deb_reasons(name, base, arch, old):
        # The archive has no past: resolving again would move packages that nobody asked to move.
        return LockResult(lock=workspace.project.relative(path), outcome="fresh")
    new = lock_base(
        name,
        base,
        arch,
        downloader=workspace.downloader(),
        mirror=workspace.mirror(target),
        store=workspace.store,
        now=workspace.now(),
        review=partial(_review, table=reviewed(base.suite)),
        before=old,
    )
    if old is not None and _same_packages(new, old):
        # Only the archive's date moved; the packages did not, so the lock and all that is built from it stay.
        return LockResult(lock=workspace.project.relative(path), outcome="unchanged")
    write_atomic(path, render_deb_lock(workspace.project, new).encode())
    return LockResult(
        lock=workspace.project.relative(path),
        outcome=f"{len(new.debs)} packages{_accepted(new)}",
        moved=changes(old, new.debs),
    )


def _same_packages(new: DebLock, old: DebLock) -> bool:
    """Whether only dates differ; a lock that is no longer from an expired Release is worth writing, too."""
    return (new.debs, new.inputs) == (old.debs, old.inputs) and bool(new.expired) == bool(old.expired)


def _accepted(lock: DebLock) -> str:
    """What matrix.yaml let pass, so that nobody overlooks it."""
    suites = [f"{release.suite} (until {release.expired})" for release in lock.expired]
    return f", from expired Releases, as matrix.yaml allows: {', '.join(suites)}" if suites else ""


def _review(deb: LockedDeb, path: Path, *, table: Reviewed) -> list[str]:
    archive = DebArchive(path, name=deb.name, version=deb.version)
    return [*problems(archive, table=table), *refusals(archive)]


def _lock_wheels(
    workspace: Workspace, targets: Sequence[Target], request: LockRequest, until: str
) -> Iterator[LockResult]:
    for target in targets:
        for platform in target.platforms:
            path = workspace.project.wheel_lock(target.name, platform)
            yield guarded(
                workspace.project.relative(path),
                partial(_lock_target, workspace, target, platform, request, until),
            )


def _lock_target(
    workspace: Workspace, target: Target, platform: Platform, request: LockRequest, until: str
) -> LockResult:
    path = workspace.project.wheel_lock(target.name, platform)
    old = workspace.read_wheel_lock(target, platform)
    moment = until or (old.until if old and not request.upgrade else workspace.today())
    new = resolve_wheels(
        target,
        platform,
        until=moment,
        settings=workspace.settings,
        keep=_kept(old, request),
        # A mirror that lags shows today what it had not at the cut-off; that moves nothing.
        prefer=old.wheels if old and not (request.upgrade or request.package) else (),
    )
    if old is not None and (new.wheels, new.inputs) == (old.wheels, old.inputs):
        return LockResult(lock=workspace.project.relative(path), outcome=f"unchanged, up to {old.until}")
    write_atomic(path, render_wheel_lock(workspace.project, new).encode())
    return LockResult(
        lock=workspace.project.relative(path),
        outcome=f"{len(new.wheels)} wheels up to {new.until}, {sum(w.size for w in new.wheels) / 1e6:.0f} MB",
        moved=changes(old, new.wheels),
    )


def _kept(old: WheelLock | None, request: LockRequest) -> tuple[LockedWheel, ...]:
    """With --package every other wheel stays where it is."""
    if not request.package or old is None:
        return ()
    return tuple(wheel for wheel in old.wheels if wheel != old.wheel(request.package))


def _refuse_unknown(workspace: Workspace, targets: Sequence[Target], package: str) -> None:
    """UsageError, before anything is written, for a --package that no lock of these targets has."""
    locks = [
        workspace.read_wheel_lock(target, platform) for target in targets for platform in target.platforms
    ]
    names = sorted({wheel.name for lock in locks if lock for wheel in lock.wheels})
    if canonicalize_name(package) not in names:
        raise UsageError(
            f"no locked wheel is called {package!r}{near(package, names)}", hint="lockfiles/ lists them"
        )


def guarded(name: str, work: Callable[[], LockResult]) -> LockResult:
    """One lock's expected failure as a result, so that the others go on."""
    try:
        return work()
    except UsageError:
        raise
    except TrainyardError as error:
        return LockResult(
            lock=name, outcome="not locked", problems=tuple(error.message.splitlines()), hint=error.hint
        )
