"""A target's requirements to one exact wheel per package, by uv; nothing is installed or built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from packaging.pylock import Package, PackageWheel, PylockSelectError
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from trainyard.digest import is_sha256
from trainyard.download import Downloader
from trainyard.errors import LockError
from trainyard.lock.environment import environment_of, index_label, wheel_inputs
from trainyard.lock.honest import strangers
from trainyard.lock.model import LockedWheel, WheelLock
from trainyard.lock.routing import own_index
from trainyard.lock.uv import Compilation, UnsolvableError, compile_pylock, requirers
from trainyard.matrix.model import Target
from trainyard.platforms import Platform
from trainyard.settings import Settings

_LARGEST = 1 << 40
_NOT_OURS = "ask the index's owner; a lock holds only wheels whose bytes are known"


def resolve_wheels(
    target: Target,
    platform: Platform,
    *,
    until: str,
    settings: Settings,
    keep: Sequence[LockedWheel] = (),
    prefer: Sequence[LockedWheel] = (),
) -> WheelLock:
    """Lock one (target, platform) against what the index had at `until` (RFC 3339 UTC).

    `keep` are wheels that may not move, `prefer` those that move only when a requirement makes them. The same index
    and arguments give the same lock, on any host.
    LockError with uv's reasoning when no versions fit together, or for wheels of another accelerator than the
    target's; FetchError when an index cannot be reached.
    """
    environment = environment_of(target, platform)
    compilation = Compilation(
        requirements=sorted(set(target.requirements)),
        constraints=[wheel.requirement for wheel in keep],
        overrides=target.overrides,
        preferred={wheel.name: wheel.version for wheel in prefer},
        index=own_index(target, settings),
        environment=environment,
        until=until,
    )
    name = f"{target.name} {platform}"
    try:
        pylock = compile_pylock(compilation, settings.environ)
        chosen = list(pylock.select(environment=environment.markers(), tags=environment.tags()))
    except UnsolvableError as error:
        raise LockError(
            f"{name} cannot be resolved up to {until}\n{error.message}",
            hint=f"change matrix.yaml, or move the cut-off: invoke lock --target {target.name} --upgrade",
        ) from None
    except PylockSelectError as error:
        raise LockError(f"{name}: {error}", hint=_NOT_OURS) from None
    downloader = Downloader(settings.environ, logins=settings.logins)
    wheels = [_locked(package, found, downloader) for package, found in chosen]
    _refuse_strangers(target, name, wheels, compilation, settings.environ)
    return WheelLock(
        target=target.name,
        platform=platform,
        python=environment.python,
        index=index_label(target),
        until=until,
        inputs=wheel_inputs(target, platform),
        wheels=tuple(sorted(wheels, key=lambda wheel: wheel.name)),
    )


def _refuse_strangers(
    target: Target,
    name: str,
    wheels: Sequence[LockedWheel],
    compilation: Compilation,
    environ: Mapping[str, str],
) -> None:
    """LockError that names each wheel of another accelerator or toolkit, and who asks for it."""
    found = strangers(target.accelerator, target.toolkit, wheels)
    if not found:
        return
    askers = requirers(compilation, environ)
    raise LockError(
        "\n".join(
            [
                f"{name} would mix accelerators",
                *(
                    f"{sentence}; {', '.join(askers.get(wheel, ('nobody',)))} asks for it"
                    for wheel, sentence in found
                ),
            ]
        ),
        hint="see docs/troubleshooting.md#a-lock-that-mixes-accelerators",
    )


def wheel_filename(wheel: PackageWheel) -> str:
    """The file name of a wheel that uv listed."""
    return unquote(wheel.filename)


def _locked(package: Package, wheel: object, downloader: Downloader) -> LockedWheel:
    """The lock's line for what was chosen; LockError unless it is a wheel of that package."""
    if not isinstance(wheel, PackageWheel) or package.version is None:
        raise LockError(f"{package.name}: the index offers no wheel", hint=_NOT_OURS)
    filename, version = wheel_filename(wheel), str(package.version)
    try:
        name, its_version, _, _ = parse_wheel_filename(filename)
    except InvalidWheelFilename as error:
        raise LockError(f"{package.name}: {error}", hint=_NOT_OURS) from None
    if (name, its_version) != (canonicalize_name(package.name), package.version) or not _is_plain(filename):
        raise LockError(f"{package.name} {version}: the index calls its wheel {filename!r}", hint=_NOT_OURS)
    sha256, size = wheel.hashes.get("sha256", ""), wheel.size
    if not is_sha256(sha256) or size is None:
        sha256, size = _measured(package, wheel, downloader)
    if not 0 < size < _LARGEST:
        raise LockError(f"{package.name} {version}: {filename} has {size} bytes", hint=_NOT_OURS)
    return LockedWheel(name=name, version=version, sha256=sha256, size=size, filename=filename)


def _measured(package: Package, wheel: PackageWheel, downloader: Downloader) -> tuple[str, int]:
    """Hash and size from the bytes, for an index that does not say them (PEP 503 without fragments)."""
    if wheel.url is None:
        raise LockError(f"{package.name}: {wheel.path} is a local file, not on an index", hint=_NOT_OURS)
    sha256, size = downloader.measure(wheel.url)
    if wheel.hashes.get("sha256", sha256) != sha256:
        raise LockError(
            f"{package.name}: the index says sha256 {wheel.hashes['sha256']} and serves {sha256}",
            hint="a mirror or proxy served another file: try again; if it stays so, do not use that index",
        )
    return sha256, size


def _is_plain(filename: str) -> bool:
    return filename.isascii() and filename.isprintable() and not set(filename) & set("/\\ ")
