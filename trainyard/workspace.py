"""Everything a command works with: the project, the settings, the matrix, the store, and the locks on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from trainyard.assemble import Assembler, Progress
from trainyard.bytecode.python import check_same_python
from trainyard.debian.mirror import mirror_parent
from trainyard.debian.review import reviewed_sha256
from trainyard.download import Downloader
from trainyard.errors import LockError
from trainyard.fetch import DebOrigin
from trainyard.lock.freshness import stale_deb_reasons, stale_reasons
from trainyard.lock.model import DebLock, WheelLock, parse_deb_lock, parse_wheel_lock
from trainyard.matrix.load import load_matrix
from trainyard.matrix.model import Matrix, Target
from trainyard.oci.codec import codec
from trainyard.paths import Project
from trainyard.payload import load_payload
from trainyard.plan import Plan, make_plan
from trainyard.platforms import Platform
from trainyard.settings import Settings
from trainyard.sources import LayerSources
from trainyard.store import Store
from trainyard.wheels.archive import Site


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """One project on one host; `host` is None on a machine that no image of ours fits.

    `clock` gives seconds, for durations only; `now` the UTC instant, for a lock's cut-off and expiry dates only.
    """

    project: Project
    settings: Settings
    host: Platform | None
    clock: Callable[[], float]
    now: Callable[[], datetime]
    apt_sources: Callable[[], Mapping[str, str]]
    say: Callable[[str], None] = field(default=lambda _line: None)

    @cached_property
    def matrix(self) -> Matrix:
        """matrix.yaml, read and checked once."""
        return load_matrix(self.project.matrix)

    @cached_property
    def store(self) -> Store:
        """The cache folder."""
        return Store(self.settings.cache)

    def read_wheel_lock(self, target: Target, platform: Platform) -> WheelLock | None:
        """The lock as it is in lockfiles/, fresh or not; None if there is none."""
        path = self.project.wheel_lock(target.name, platform)
        if not path.is_file():
            return None
        return parse_wheel_lock(path.read_text("utf-8"), source=self.project.relative(path))

    def read_deb_lock(self, base_name: str, arch: str) -> DebLock | None:
        """The base's lock as it is in lockfiles/, fresh or not; None if there is none."""
        path = self.project.deb_lock(base_name, arch)
        if not path.is_file():
            return None
        return parse_deb_lock(path.read_text("utf-8"), source=self.project.relative(path))

    def is_begun(self, target: Target, platform: Platform) -> bool:
        """Whether git has anything of that image: a wheel lock, or a golden record that misses its lock.

        Otherwise it is declared, and waits for somebody who can reach its index.
        """
        project = self.project
        return any(
            path.is_file()
            for path in (project.wheel_lock(target.name, platform), project.golden(target.name, platform))
        )

    def lock_problems(self, target: Target, platform: Platform) -> tuple[str, ...]:
        """Every reason why the locks of an image cannot be used; empty when they can."""
        wheels = self.read_wheel_lock(target, platform)
        base_name, base = target.debian
        debs = self.read_deb_lock(base_name, platform.arch)
        wheel_path = self.project.relative(self.project.wheel_lock(target.name, platform))
        deb_path = self.project.relative(self.project.deb_lock(base_name, platform.arch))
        return (
            *((f"{wheel_path} is missing",) if wheels is None else stale_reasons(target, platform, wheels)),
            *(
                (f"{deb_path} is missing",)
                if debs is None
                else stale_deb_reasons(base_name, base, platform.arch, debs)
            ),
        )

    def plan(self, target: Target, platform: Platform) -> Plan:
        """The Plan from fresh locks; LockError with every reason otherwise."""
        if problems := self.lock_problems(target, platform):
            raise LockError(
                "\n  ".join([f"{target.name} {platform} is not locked:", *problems]),
                hint=f"invoke lock --target {target.name}",
            )
        wheels = self.read_wheel_lock(target, platform)
        debs = self.read_deb_lock(target.debian[0], platform.arch)
        assert wheels is not None
        assert debs is not None
        return make_plan(
            target,
            platform,
            wheels=wheels,
            debs=debs,
            payload=load_payload(),
            reviewed=reviewed_sha256(target.debian[1].suite),
        )

    def today(self) -> str:
        """00:00 UTC of today, RFC 3339: the default cut-off of a lock that moves."""
        return f"{self.now():%Y-%m-%d}T00:00:00Z"

    def downloader(self, on_bytes: Callable[[int], object] | None = None) -> Downloader:
        """What fetches URLs for this host."""
        return Downloader(self.settings.environ, on_bytes=on_bytes)

    def mirror(self, target: Target) -> str:
        """The Debian mirror's parent URL: matrix.yaml's, the environment's, or the host's own."""
        return mirror_parent(
            matrix=target.debian[1].mirror,
            setting=self.settings.debian_mirror,
            apt_sources=self.apt_sources(),
        )

    def deb_origin(self, target_name: str) -> DebOrigin:
        """Where the debs of a target's base come from: the mirror, then the archive of the past."""
        target = self.matrix.target(target_name)
        return DebOrigin(mirror=self.mirror(target), snapshot=target.debian[1].snapshot)

    def host_debs(self, target: Target) -> DebLock:
        """The lock of the target's base for this host's architecture: its Python compiles bytecode."""
        arch = self.host.arch if self.host is not None and self.host.os == "linux" else None
        debs = self.read_deb_lock(target.debian[0], arch) if arch else None
        if debs is None:
            raise LockError(
                f"bytecode is compiled by the image's own Python, and base {target.base_name} "
                "has no lock for this host",
                hint="build on Linux, amd64 or arm64, after `invoke lock`",
            )
        return debs

    def assembler(
        self, target: Target, platform: Platform, *, compression: str, progress: Progress
    ) -> Assembler:
        """What builds this target's layers into the store."""
        host = self.host
        debs = self.host_debs(target)
        assert host is not None
        target_debs = self.read_deb_lock(target.debian[0], platform.arch)
        if target_debs is not None:
            check_same_python(target_debs, debs)
        sources = LayerSources(
            store=self.store,
            site=Site(python=target.python),
            host=host,
            host_debs=debs,
            workers=self.settings.workers,
        )
        return Assembler(
            store=self.store,
            codec=codec(compression),
            sources=sources,
            workers=self.settings.workers,
            progress=progress,
        )
