"""LayerSpec -> the entries of that layer, read from the store's verified inputs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from trainyard.bytecode.compile import bytecode_entries
from trainyard.bytecode.python import ImagePython, image_python, python_debs, stdlib_sources
from trainyard.debian.archive import DebArchive
from trainyard.debian.facts import FACTS_FORMAT, DebFacts, deb_facts
from trainyard.debian.review import reviewed_as
from trainyard.debian.state import state_entries
from trainyard.layers import ImageFile, LayerKind, LayerSpec
from trainyard.lock.model import DebLock, LockedDeb, LockedWheel
from trainyard.oci.entry import Entry, file_entry, symlink_entry
from trainyard.platforms import Platform
from trainyard.store import Store
from trainyard.wheels.archive import Site, WheelArchive

Stop = Callable[[], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSources:
    """Where entries come from: the store's inputs, and the Python of the host's own base for bytecode."""

    store: Store
    site: Site
    host: Platform
    host_debs: DebLock
    workers: int
    # Opening torch reads 12,000 rows, and its parts and its bytecode share that.
    _wheels: dict[str, WheelArchive] = field(default_factory=dict)

    def entries(self, spec: LayerSpec, *, stop: Stop) -> Generator[Entry, None, None]:
        """The members of one layer in their final order; close it, or processes that compile bytecode stay."""
        yield from self._entries(spec, stop)

    def _entries(self, spec: LayerSpec, stop: Stop) -> Iterator[Entry]:
        match spec.kind:
            case LayerKind.DEBS:
                return chain.from_iterable(self._deb(deb).entries() for deb in spec.debs)
            case LayerKind.STATE:
                return self._state(spec)
            case LayerKind.STDLIB:
                archives = [self._deb(deb) for deb in spec.debs]
                return bytecode_entries(
                    stdlib_sources(archives), self._python(), workers=self.workers, stop=stop
                )
            case LayerKind.WHEELS:
                return chain.from_iterable(
                    self._wheel(wheel).entries(part=spec.part, parts=spec.parts) for wheel in spec.wheels
                )
            case LayerKind.BYTECODE:
                sources = chain.from_iterable(self._wheel(wheel).sources() for wheel in spec.wheels)
                return bytecode_entries(sources, self._python(), workers=self.workers, stop=stop)
            case LayerKind.FILES:
                return (_file(file) for file in spec.files)

    def python_debs(self) -> tuple[LockedDeb, ...]:
        """The inputs that compiling bytecode needs beside what is compiled."""
        return python_debs(self.host_debs)

    def deb_facts(self, debs: Sequence[LockedDeb]) -> list[DebFacts]:
        """What the state layer, SBOMs and checks need to know of each deb, computed once per deb."""
        return [
            DebFacts.from_json(
                self.store.facts(f"deb-{FACTS_FORMAT}-{deb.sha256}", partial(self._read_facts, deb))
            )
            for deb in debs
        ]

    def _read_facts(self, deb: LockedDeb) -> object:
        return deb_facts(self._deb(deb)).to_json()

    def _state(self, spec: LayerSpec) -> Iterator[Entry]:
        parameters = dict(spec.parameters)
        return state_entries(
            self.deb_facts(spec.debs),
            platform=Platform("linux", parameters["arch"]),
            sources=parameters["sources"],
            table=reviewed_as(parameters["reviewed"]),
        )

    def _deb(self, deb: LockedDeb) -> DebArchive:
        return DebArchive(self.store.input(deb.sha256), name=deb.name, version=deb.version)

    def _wheel(self, wheel: LockedWheel) -> WheelArchive:
        opened = WheelArchive(self.store.input(wheel.sha256), wheel, self.site)
        return self._wheels.setdefault(wheel.sha256, opened)

    def _python(self) -> ImagePython:
        return image_python(self.store, self.host_debs, self.host)


def _file(file: ImageFile) -> Entry:
    if file.link:
        return symlink_entry(file.path, file.link, origin="trainyard")
    return file_entry(file.path, file.data, mode=file.mode, origin="trainyard")
