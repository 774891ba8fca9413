"""Python sources -> bytecode, by several compile servers at a time, in the order of the sources."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue

from trainyard.bytecode.process import CompileServer
from trainyard.bytecode.python import ImagePython
from trainyard.oci.entry import Entry, file_entry
from trainyard.oci.layer import StoppedError

_AHEAD = 8  # sources per server that wait for it or for their turn
_ENVIRONMENT = "opt/venv/"
_Answer = tuple[bytes | None, str]


def bytecode_path(source: str, cache_tag: str) -> str:
    """Where Python looks for the bytecode of a source (PEP 3147): `a/b.py` -> `a/__pycache__/b.<tag>.pyc`."""
    folder, slash, name = source.rpartition("/")
    return f"{folder}{slash}__pycache__/{name.removesuffix('.py')}.{cache_tag}.pyc"


def compile_sources(
    sources: Iterable[tuple[str, bytes]],
    python: ImagePython,
    *,
    workers: int,
    stop: Callable[[], bool],
    on_refused: Callable[[str, str], object] | None = None,
) -> Iterator[tuple[str, bytes]]:
    """Image path and bytes of the .pyc of every source that compiles, in the order of the sources.

    `sources` are (image path, content); one that Python refuses (templates, tests with errors on purpose)
    is left out, and `on_refused` hears its path and why. Bytes depend on path, content and `python` alone.
    Closing the iterator ends the processes. Errors: StoppedError when `stop` returns true; TrainyardError
    naming the source whose server died.
    """
    pending: deque[tuple[str, Future[_Answer]]] = deque()

    def finished() -> Iterator[tuple[str, bytes]]:
        path, future = pending.popleft()
        bytecode, reason = future.result()
        if bytecode is not None:
            yield bytecode_path(path, python.cache_tag), bytecode
        elif on_refused is not None:
            on_refused(path, reason)

    with _servers(python, workers) as submit:
        for path, source in sources:
            if stop():
                raise StoppedError("stopped before all bytecode was compiled")
            pending.append((path, submit(path, source)))
            if len(pending) >= workers * _AHEAD:
                yield from finished()
        while pending:
            yield from finished()


def bytecode_entries(
    sources: Iterable[tuple[str, bytes]], python: ImagePython, *, workers: int, stop: Callable[[], bool]
) -> Iterator[Entry]:
    """The bytecode of `sources` as files of a layer; see `compile_sources`.

    Group 0 may replace what belongs to the environment, so that a child image can install over it.
    """
    for path, bytecode in compile_sources(sources, python, workers=workers, stop=stop):
        mode = 0o664 if path.startswith(_ENVIRONMENT) else 0o644
        yield file_entry(path, bytecode, mode=mode, origin="bytecode")


@contextlib.contextmanager
def _servers(python: ImagePython, count: int) -> Iterator[Callable[[str, bytes], Future[_Answer]]]:
    """`count` servers, and the function that gives a source to the next one that is free."""
    idle: SimpleQueue[CompileServer] = SimpleQueue()

    def ask(path: str, source: bytes) -> _Answer:
        server = idle.get_nowait()  # there are as many threads as servers
        try:
            return server.compile(path, source)
        finally:
            idle.put(server)

    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(CompileServer(python)) for _ in range(count)]
        for server in servers:
            idle.put(server)
        pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix="compile")
        try:
            yield lambda path, source: pool.submit(ask, path, source)
        finally:
            # The threads wait for answers, and get none from a dead process; only then can they be joined.
            for server in servers:
                server.kill()
            pool.shutdown(wait=True, cancel_futures=True)
