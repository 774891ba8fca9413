"""Plan -> layer blobs in the store: what is there by key is taken, the rest is built, largest first."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field

from trainyard.errors import InputError
from trainyard.layers import LayerKind, LayerSpec
from trainyard.oci.codec import Codec
from trainyard.oci.layer import StoppedError, write_layer
from trainyard.oci.members import Member, check_image
from trainyard.sources import LayerSources
from trainyard.store import LayerRecord, Store

# Layers that read far more than they become: the bytecode of 2.7 GB of wheels is 65 MB.
_SMALLER = (LayerKind.STATE, LayerKind.BYTECODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Whom to tell: a layer begins, its content flows (bytes), it is done."""

    begin: Callable[[LayerSpec], object] = lambda _spec: None
    flow: Callable[[LayerSpec, int], object] = lambda _spec, _count: None
    done: Callable[[LayerSpec, LayerRecord], object] = lambda _spec, _record: None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltLayer:
    """A layer of the image: its spec, its record, and whether it was in the store already."""

    spec: LayerSpec
    record: LayerRecord
    cached: bool


@dataclass(slots=True, kw_only=True)
class Assembler:
    """Builds the layers of a plan into a store with `workers` threads; `codec` decides the compressed form."""

    store: Store
    codec: Codec
    sources: LayerSources
    workers: int
    progress: Progress = field(default_factory=Progress)
    _stop: threading.Event = field(default_factory=threading.Event)

    def missing(self, specs: Sequence[LayerSpec]) -> list[LayerSpec]:
        """The specs whose layer must be built."""
        return [spec for spec in specs if self.store.layer(self.record_key(spec)) is None]

    def record_key(self, spec: LayerSpec) -> str:
        """The store's name for a layer in this compression."""
        return f"{spec.key}-{self.codec.name}"

    def build(self, specs: Sequence[LayerSpec]) -> list[BuiltLayer]:
        """Every layer, in the order of `specs`; the first failure stops the others and is raised."""
        todo = self.missing(specs)
        ordered = sorted(todo, key=_weight, reverse=True)
        futures: list[Future[LayerRecord]] = []
        with ThreadPoolExecutor(max_workers=self.workers, thread_name_prefix="layer") as pool:
            try:
                # Ctrl-C can come between any two lines, so all of them are inside.
                futures += (pool.submit(self._build_one, spec) for spec in ordered)
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                if any(not future.done() or future.exception() for future in futures) or len(futures) < len(
                    todo
                ):
                    # The threads see the flag at their next chunk, and leave nothing behind.
                    self._stop.set()
                    pool.shutdown(wait=True, cancel_futures=True)
        finished = [future for future in futures if not future.cancelled()]
        if errors := [error for future in finished if (error := future.exception())]:
            # The cause, not a layer that was stopped for it.
            raise min(errors, key=lambda error: isinstance(error, StoppedError))
        built = {spec.key for spec in todo}
        return [self._finished(spec, cached=spec.key not in built) for spec in specs]

    def _finished(self, spec: LayerSpec, *, cached: bool) -> BuiltLayer:
        record = self.store.layer(self.record_key(spec))
        assert record is not None, f"{spec.title} was built, and is not in the store"
        return BuiltLayer(spec=spec, record=record, cached=cached)

    def _build_one(self, spec: LayerSpec) -> LayerRecord:
        self.progress.begin(spec)
        with self.store.scratch() as folder:
            blob = folder / "blob"
            # Closed at once when the layer fails: entries of bytecode hold processes.
            with (
                blob.open("wb", buffering=0) as sink,
                closing(self.sources.entries(spec, stop=self._stop.is_set)) as entries,
            ):
                written = write_layer(
                    entries,
                    mtime=spec.mtime,
                    codec=self.codec,
                    sink=sink,
                    stop=self._stop.is_set,
                    on_bytes=lambda count: self.progress.flow(spec, count),
                )
                os.fsync(sink.fileno())
            record = LayerRecord(
                key=self.record_key(spec),
                diff_id=written.diff_id,
                digest=written.digest,
                size=written.size,
                content_size=written.content_size,
                files=written.files,
                media_type=written.media_type,
            )
            self.store.facts(f"members-{spec.key}", lambda: [member.to_json() for member in written.members])
            self.store.keep_layer(record, blob)
        self.progress.done(spec, record)
        return record


def check_conflicts(store: Store, specs: Sequence[LayerSpec]) -> None:
    """Refuse an image in which two packages own one path, or one hides another behind a link."""
    check_image([tuple(_members(store, spec)) for spec in specs])


def _members(store: Store, spec: LayerSpec) -> Iterator[Member]:
    def lost() -> object:
        # Written before the layer is: without them a conflict would pass unseen.
        raise InputError(
            f"{spec.title}: the cache has the layer, and no list of what is in it",
            hint="`invoke clean --layers`, then `invoke build`",
        )

    facts = store.facts(f"members-{spec.key}", lost)
    assert isinstance(facts, list)
    return (Member.from_json(item) for item in facts)


def _weight(spec: LayerSpec) -> int:
    """How long a layer takes, roughly: bytes of its inputs, times what its kind costs."""
    return spec.input_size * {"bytecode": 20, "stdlib": 40, "debs": 4}.get(spec.kind.value, 1)


def store_bytes_needed(specs: Sequence[LayerSpec]) -> int:
    """Bytes of disk that building these layers may take, from the sizes of their inputs."""
    return sum(spec.input_size // (8 if spec.kind in _SMALLER else 1) for spec in specs) * 5 // 4
