"""Second opinions on a wheel lock that uv made: pip installs it, and pip-tools comes to the same pins.

Both run under the Python that the image has, since pip takes markers from the interpreter that runs it. pip is
the one that the lock brings, pip-tools the one of this environment.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from packaging.utils import canonicalize_name

from trainyard.bytecode.python import ImagePython
from trainyard.errors import FetchError, LockError
from trainyard.lock.closure import closure_problems, needs_in
from trainyard.lock.libraries import libraries_of_two, members_in
from trainyard.lock.model import WheelLock
from trainyard.matrix.model import Target
from trainyard.store import Store

# What pip-tools imports; pure Python, so that any interpreter can run it.
_PIP_TOOLS = ("piptools", "click", "build", "pyproject_hooks", "packaging")
_PIN = re.compile(r"([A-Za-z0-9._-]+)==(\S+)")
_NETWORK = re.compile(
    r"Max retries|NewConnectionError|ConnectionError|Could not fetch URL|name resolution|ReadTimeout|"
    r"SSLError|HTTP error [45]|NetworkConnectionError|Connection refused"
)


def second_opinions(
    target: Target,
    lock: WheelLock,
    *,
    lock_file: Path,
    store: Store,
    python: ImagePython | None,
    environ: Mapping[str, str],
) -> tuple[str, ...]:
    """All that somebody else than uv finds wrong with a lock; its wheels are in the store, which is held.

    `python` is the image's own, when this host can run it: without it only the metadata is judged, since pip
    would read the markers of another platform. Of a target with an index of its own pip-tools is not asked, which
    cannot keep two indexes apart; of one with overrides neither is pip, which knows none.
    """
    problems = [*closure_problems(target, lock, needs_in(store))]
    problems += libraries_of_two(lock.wheels, members_in(store))
    if python is not None and not target.overrides:
        problems += pip_accepts(lock_file, lock, store=store, python=python, environ=environ)
    if python is not None and target.index is None:
        problems += pip_compile_agrees(target, lock, store=store, python=python, environ=environ)
    return tuple(problems)


def who_was_asked(target: Target, python: ImagePython | None) -> str:
    """What `second_opinions` without a problem means."""
    if python is None:
        return "its metadata is closed (pip would read this host's markers)"
    if target.overrides:
        return "its metadata is closed (pip knows no overrides)"
    if target.index is not None:
        return "pip agrees (pip-tools cannot keep two indexes apart)"
    return "pip and pip-tools agree"


def pip_accepts(
    lock_file: Path, lock: WheelLock, *, store: Store, python: ImagePython, environ: Mapping[str, str]
) -> tuple[str, ...]:
    """What pip says against installing the lock file by hash from nothing but the store; empty: it would."""
    with store.scratch() as folder:
        wheels = folder / "wheels"
        wheels.mkdir()
        for wheel in lock.wheels:
            os.link(store.input(wheel.sha256), wheels / wheel.filename)
        arguments = ["-m", "pip", "install", "--dry-run", "--quiet", "--no-cache-dir", "--no-index"]
        arguments += ["--find-links", str(wheels), "--only-binary", ":all:", "--require-hashes"]
        arguments += ["--target", str(folder / "target"), "--requirement", str(lock_file)]
        done = _run(arguments, lock, store, python, environ, folder)
        if done.returncode == 0:
            return ()
        said = [line for line in done.stderr.splitlines() if line.strip()]
        hidden = f"{wheels}{os.sep}"
        return tuple(f"pip: {line.replace(hidden, '').removeprefix('ERROR: ')}" for line in said)


def pip_compile_agrees(
    target: Target, lock: WheelLock, *, store: Store, python: ImagePython, environ: Mapping[str, str]
) -> tuple[str, ...]:
    """Where pip-tools, asked for the same requirements and cut-off, would not keep the lock's versions as they are.

    It prefers them, as uv does when it locks again: an index may show today what it had not at the cut-off.
    FetchError when the index cannot be reached, LockError when pip-tools finds no solution.
    """
    with store.scratch() as folder:
        (folder / "requirements.in").write_text("".join(f"{line}\n" for line in target.requirements))
        output = folder / "pins.txt"
        output.write_text("".join(f"{wheel.requirement}\n" for wheel in lock.wheels))
        # Metadata by range requests, not whole wheels: seconds instead of gigabytes.
        pip = f"--use-feature=fast-deps --only-binary :all: --uploaded-prior-to {lock.until}"
        arguments = ["-m", "piptools", "compile", "--no-config", "--no-header", "--no-annotate"]
        arguments += ["--no-emit-index-url", "--no-emit-options", "--allow-unsafe", "--strip-extras"]
        arguments += ["--cache-dir", str(folder / "cache"), "--pip-args", pip]
        arguments += ["--output-file", str(output), "requirements.in"]
        done = _run(arguments, lock, store, python, environ, folder)
        if done.returncode != 0:
            raise _failure(done.stderr)
        return _differences(lock, dict(_PIN.findall(output.read_text("utf-8"))))


def _differences(lock: WheelLock, pins: Mapping[str, str]) -> tuple[str, ...]:
    ours = {wheel.name: wheel.version for wheel in lock.wheels}
    theirs = {str(canonicalize_name(name)): version for name, version in pins.items()}
    return tuple(
        f"{name}: uv chose {ours.get(name, 'none')}, pip-tools {theirs.get(name, 'none')}"
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    )


def _run(
    arguments: Sequence[str],
    lock: WheelLock,
    store: Store,
    python: ImagePython,
    environ: Mapping[str, str],
    folder: Path,
) -> subprocess.CompletedProcess[str]:
    """One of the two under that Python, with no configuration but which index to ask."""
    if python.version != lock.python:
        raise LockError(
            f"the lock of {lock.target} is for Python {lock.python}, and pip would run under {python.version}",
            hint="lock the base and the target together: invoke lock",
        )
    variables = {
        **environ,
        **python.env,
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INPUT": "1",
        "PIP_RETRIES": "2",
    }
    variables |= {
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYTHONPATH": os.pathsep.join(_modules(lock, store, folder)),
    }
    if index := environ.get("UV_DEFAULT_INDEX"):
        variables["PIP_INDEX_URL"] = index
    return subprocess.run(
        [*python.argv, *arguments],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )


def _modules(lock: WheelLock, store: Store, folder: Path) -> list[str]:
    """PYTHONPATH entries with pip-tools, what it needs, and pip: nothing else of this environment."""
    modules = folder / "modules"
    modules.mkdir()
    pip = lock.wheel("pip")
    names = _PIP_TOOLS if pip is not None else (*_PIP_TOOLS, "pip")
    for name in names:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            raise LockError(f"{name} is not installed here", hint="uv pip sync requirements.txt")
        package = Path(spec.origin).parent
        (modules / name).symlink_to(package)
        for info in package.parent.glob(f"{_distribution(name)}-*.dist-info"):
            (modules / info.name).symlink_to(info)
    if pip is None:
        return [str(modules)]
    # Python imports from a zip, and a wheel is one.
    zipped = modules / pip.filename
    os.link(store.input(pip.sha256), zipped)
    return [str(modules), str(zipped)]


def _distribution(module: str) -> str:
    return "pip_tools" if module == "piptools" else module


def _failure(stderr: str) -> LockError | FetchError:
    # pip-tools ends in a traceback; its frames are indented, what it says is not.
    said = [line for line in stderr.splitlines() if line.strip() and not line.startswith((" ", "Traceback"))]
    text = re.sub(r"://[^/@\s]+@", "://", "\n".join(said[-20:]))
    if _NETWORK.search(stderr):
        return FetchError(
            f"pip-tools cannot reach the package index: {text}",
            hint="check the network; `invoke lock --check` asks the index for a second opinion",
        )
    return LockError(f"pip-tools cannot resolve what uv did: {text}", hint="see docs/troubleshooting.md")
