"""Whether a host runs a target, and if not, the missing piece by name. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from trainyard.inventory.facts import Host, Missing, Verdict
from trainyard.matrix.model import Requires, Target

_CALLED = {"cuda": "an NVIDIA GPU", "rocm": "an AMD GPU", "xpu": "an Intel GPU"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a target asks of a host; from matrix.yaml, or from what an image claims."""

    target: str
    accelerator: str
    platforms: tuple[str, ...]
    python: str
    requires: Requires
    families: tuple[str, ...] = ()


def needs_of(target: Target) -> Needs:
    """A target of matrix.yaml."""
    return Needs(
        target=target.name,
        accelerator=target.accelerator,
        platforms=tuple(map(str, target.platforms)),
        python=target.python,
        requires=target.requires,
        families=target.families,
    )


def judge(needs: Needs, host: Host) -> Verdict:
    """`no` where it cannot start, `cpu` where it starts and torch will find no device that it can use."""
    stops = tuple(_stops(needs, host))
    slows = tuple(_SLOWS[needs.accelerator](needs, host)) if needs.accelerator in _SLOWS else ()
    return Verdict(
        target=needs.target,
        platforms=needs.platforms,
        runs="no" if stops else "cpu" if slows else "yes",
        # Of a machine of another kind it is enough to say that.
        missing=stops if any(one.what == "platform" for one in stops) else (*stops, *slows),
    )


def _stops(needs: Needs, host: Host) -> Iterator[Missing]:
    if host.platform not in needs.platforms:
        yield Missing(what="platform", needs=" or ".join(needs.platforms), found=f"this is {host.platform}")
        return
    if needs.accelerator == "mps":
        yield from _unless(needs.requires.macos, "macOS", host.macos)
        versions = [found.version for found in host.pythons]
        if not any(version.startswith(f"{needs.python}.") for version in versions):
            yield Missing(
                what="Python", needs=needs.python, found=f"this has {', '.join(versions) or 'none'}"
            )
        return
    yield from _unless(needs.requires.glibc, "glibc", host.glibc)
    if all(way.problem for way in host.ways):
        problems = "; ".join(f"{way.name}: {way.problem}" for way in host.ways)
        yield Missing(what="container engine", needs="docker, podman or user namespaces", found=problems)


def _cuda(needs: Needs, host: Host) -> Iterator[Missing]:
    yield from _kernel(needs, host)
    driver, devices = host.driver("cuda"), host.devices("cuda")
    if driver is None and not devices:
        yield Missing(what="device", needs=_CALLED["cuda"], found="none is here")
        return
    if driver is None or driver.problem:
        problem = driver.problem if driver else "none is here"
        yield Missing(what="driver", needs=f"NVIDIA's {needs.requires.driver or 'driver'}", found=problem)
    if driver is not None and driver.version:
        yield from _unless(needs.requires.driver, "driver", driver.version)
    if not devices:
        yield Missing(what="device", needs=_CALLED["cuda"], found="the driver is here, and lists none")
    elif least := needs.requires.compute_capability:
        known = [device for device in devices if device.architecture]
        if known and not any(_within(least, device.architecture) for device in known):
            here = ", ".join(sorted({f"{device.name} has {device.architecture}" for device in known}))
            yield Missing(what="compute capability", needs=least, found=here)
    if not any(way.gpus for way in host.ways if not way.problem):
        yield Missing(
            what="device in containers",
            needs="the NVIDIA Container Toolkit (its runtime, or a CDI file)",
            found="no engine here has it",
        )


def _rocm(needs: Needs, host: Host) -> Iterator[Missing]:
    yield from _kernel(needs, host)
    yield from _device(needs, host)
    known = sorted({device.architecture for device in host.devices("rocm") if device.architecture})
    if needs.families and known and not set(known) & set(needs.families):
        yield Missing(
            what="GPU family",
            needs=" or ".join(needs.families),
            found=f"this has {', '.join(known)}; `families` in matrix.yaml adds it",
        )


def _xpu(needs: Needs, host: Host) -> Iterator[Missing]:
    yield from _kernel(needs, host)
    yield from _device(needs, host)


def _kernel(needs: Needs, host: Host) -> Iterator[Missing]:
    yield from _unless(needs.requires.kernel, "kernel", host.kernel)


def _device(needs: Needs, host: Host) -> Iterator[Missing]:
    """A device, one of the modules, and a driver that works."""
    if not host.devices(needs.accelerator):
        yield Missing(what="device", needs=_CALLED[needs.accelerator], found="none is here")
        return
    modules = needs.requires.modules or []
    if modules and not set(modules) & set(host.modules):
        yield Missing(
            what="kernel module",
            needs=" or ".join(modules),
            found=f"loaded: {', '.join(host.modules) or 'none of a GPU'}",
        )
        return
    driver = host.driver(needs.accelerator)
    if driver is not None and driver.problem:
        yield Missing(what="driver", needs=driver.name, found=driver.problem)
    if driver is not None and driver.version:
        yield from _unless(needs.requires.driver, "driver", driver.version)


_SLOWS: Mapping[str, Callable[[Needs, Host], Iterator[Missing]]] = {"cuda": _cuda, "rocm": _rocm, "xpu": _xpu}


def _unless(wanted: str | None, what: str, found: str) -> Sequence[Missing]:
    """A requirement that is not met; one that nobody makes always is."""
    if wanted is None or (found and _within(wanted, found)):
        return ()
    return (Missing(what=what, needs=wanted, found=f"this has {found or 'none that is known'}"),)


def _within(wanted: str, found: str) -> bool:
    try:
        return SpecifierSet(wanted).contains(Version(found), prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return False
