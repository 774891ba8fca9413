"""Compiles every .py below a folder into another root; runs in the image's Python, inside a Dockerfile's stage.

    python3 -I tree.py SOURCE OUT        OUT/<SOURCE>/.../__pycache__/x.cpython-3xx.pyc

The sources go to as many server.py as there are cores, which must lie beside this file. What Python refuses
(templates, tests with errors on purpose) is left out, as `import` would.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SERVER = Path(__file__).with_name("server.py")
# The same as in process.py: nothing that this host has reaches the bytes.
OPTIONS = ("-S", "-B", "-X", "pycache_prefix=/dev/null", "-X", "utf8=1", "-W", "ignore")
ENVIRONMENT = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
COMPILED = b"P"


def sources(folder: Path) -> Iterator[Path]:
    """Every regular .py file below, in order; a link is no source."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(parent, name)
            if name.endswith(".py") and path.is_file() and not path.is_symlink():
                yield path


def target_of(source: Path, out: Path) -> Path:
    """Where the bytecode of a source goes, below `out`; folders get the modes of the source's."""
    folder = out
    for part in source.parent.parts[1:]:
        folder /= part
        make_folder(folder, like=Path("/", folder.relative_to(out)))
    folder /= "__pycache__"
    make_folder(folder, like=source.parent)
    return folder / f"{source.stem}.{sys.implementation.cache_tag}.pyc"


def make_folder(folder: Path, *, like: Path) -> None:
    """A folder with another one's permission bits; it may be there."""
    if not folder.is_dir():
        folder.mkdir(exist_ok=True)
        folder.chmod(like.stat().st_mode & 0o7777)


def ask(server: "subprocess.Popen[bytes]", path: Path) -> bytes | None:
    """The .pyc of one source, None if it does not compile; server.py says what goes over the pipe."""
    assert server.stdin is not None
    assert server.stdout is not None
    name, source = os.fsencode(path), path.read_bytes()
    server.stdin.write(len(name).to_bytes(4, "big") + len(source).to_bytes(4, "big") + name + source)
    server.stdin.flush()
    kind, size = server.stdout.read(1), int.from_bytes(server.stdout.read(4), "big")
    body = server.stdout.read(size)
    if not kind or len(body) != size:
        raise RuntimeError(f"{path}: the compiling process died")
    return body if kind == COMPILED else None


def work(paths: Iterator[Path], lock: threading.Lock, out: Path) -> None:
    """One thread: one server, and sources until there are no more."""
    command = [sys.executable, *OPTIONS, str(SERVER)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT, cwd="/"
    ) as server:
        while True:
            with lock:
                path = next(paths, None)
                if path is None:
                    return
                target = target_of(path, out)
            bytecode = ask(server, path)
            if bytecode is not None:
                target.write_bytes(bytecode)
                target.chmod(path.stat().st_mode & 0o666)


def main(source: Path, out: Path) -> None:
    """Compile all; the first failure is raised."""
    os.umask(0o022)
    make_folder(out, like=Path("/"))
    paths, lock, count = sources(source), threading.Lock(), os.cpu_count() or 1
    with ThreadPoolExecutor(count) as pool:
        for future in [pool.submit(work, paths, lock, out) for _ in range(count)]:
            future.result()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
