"""Whether a lock is still of what matrix.yaml asks for: a list of reasons, never a bool. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.requirements import Requirement

from trainyard.lock.debian import deb_inputs
from trainyard.lock.environment import environment_of, index_label, wheel_inputs
from trainyard.lock.honest import strangers
from trainyard.lock.model import DebLock, WheelLock
from trainyard.matrix.model import Base, Target
from trainyard.platforms import Platform


def stale_reasons(target: Target, platform: Platform, lock: WheelLock) -> tuple[str, ...]:
    """Every reason, a sentence each, why `lock` is not one of that target and platform; empty means fresh."""
    reasons = [
        *_differing("target", lock.target, target.name),
        *_differing("platform", str(lock.platform), str(platform)),
        *_differing("Python", lock.python, target.python),
        *_differing("index", lock.index, index_label(target)),
        *_unmet(target, platform, lock),
        *(sentence for _, sentence in strangers(target.accelerator, target.toolkit, lock.wheels)),
    ]
    if not reasons and lock.inputs != wheel_inputs(target, platform):
        reasons.append(
            "matrix.yaml no longer asks for what it was resolved from: a requirement was dropped or loosened"
        )
    return tuple(reasons)


def stale_deb_reasons(base_name: str, base: Base, arch: str, lock: DebLock) -> tuple[str, ...]:
    """Every reason, one sentence each, why `lock` is not one of that base; empty means fresh."""
    reasons = [
        *_differing("base", lock.base, base_name),
        *_differing("architecture", lock.arch, arch),
    ]
    suites = {release.suite for release in lock.releases}
    if suites and base.suite not in suites:
        reasons.append(f"it is of {', '.join(sorted(suites))}, and base {base_name} is {base.suite}")
    if not base.allow_expired:
        reasons += [
            f"it was made from a Release of {release.archive} {release.suite} that had expired on {release.expired}, "
            f"and base {base_name} no longer says `allow_expired: true`"
            for release in lock.expired
        ]
    if lock.deb(f"python{base.python}") is None:
        reasons.append(f"it has no python{base.python}, the Python of base {base_name}")
    if lock.inputs != deb_inputs(base_name, base, arch):
        # Only then: a package that is asked for may be a virtual one, which is locked under another name.
        missing = [name for name in sorted(set(base.packages)) if lock.deb(name) is None]
        reasons += [f"it has no {name}" for name in missing if name != f"python{base.python}"]
        if not reasons:
            reasons.append("matrix.yaml no longer asks for the packages that it was resolved from")
    return tuple(reasons)


def _differing(what: str, locked: str, wanted: str) -> Iterator[str]:
    if locked != wanted:
        yield f"it is for {what} {locked}, and {wanted} is wanted"


def _unmet(target: Target, platform: Platform, lock: WheelLock) -> Iterator[str]:
    """The requirements of matrix.yaml that no locked wheel satisfies."""
    environment = environment_of(target, platform)
    for text in target.requirements:
        requirement = Requirement(text)
        if not environment.holds(requirement.marker):
            continue
        wheel = lock.wheel(requirement.name)
        if wheel is None:
            yield f"it has no {requirement.name}, which matrix.yaml asks for"
        elif not requirement.specifier.contains(wheel.version, prereleases=True):
            yield f"it has {wheel.name} {wheel.version}, and matrix.yaml asks for {text}"
