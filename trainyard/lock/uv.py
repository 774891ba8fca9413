"""The pinned uv as a function: requirements to the pylock.toml of one environment, up to one instant."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.pylock import Pylock, PylockUnsupportedVersionError, PylockValidationError
from uv import find_uv_bin

from trainyard.errors import FetchError, LockError
from trainyard.lock.environment import WheelEnvironment

# uv's own words, by which a network that does not deliver is told from requirements that cannot be met.
_NETWORK = re.compile(
    r"error sending request|Failed to (fetch|download)|[Nn]etwork (connectivity )?(is|was) disabled"
    r"|dns error|operation timed out|connection (closed|reset)|Request failed after"
)
_NOISE = re.compile(r"warning: The requested Python version .*|Resolved \d+ packages? in .*")
_CREDENTIALS = re.compile(r"://[^/@\s]+@")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """What uv is asked: requirements (PEP 508), constraints, an environment, and a cut-off (RFC 3339 UTC).

    Without `dependencies` only the requirements themselves are looked up.
    """

    requirements: Sequence[str]
    environment: WheelEnvironment
    until: str
    constraints: Sequence[str] = ()
    dependencies: bool = True


class UnsolvableError(LockError):
    """uv says that no set of versions meets the requirements; the message is uv's reasoning."""


def compile_pylock(compilation: Compilation, environ: Mapping[str, str]) -> Pylock:
    """The answer of uv: a pure function of the request and of what the index had at the cut-off.

    UnsolvableError with uv's reasoning, FetchError when the index cannot be reached, LockError for the rest.
    """
    # Nothing that an earlier run left is a preference: the folder is new each time.
    with tempfile.TemporaryDirectory(prefix="trainyard-uv-") as name:
        folder = Path(name)
        output = folder / "pylock.locked.toml"
        (folder / "requirements.in").write_text("".join(f"{line}\n" for line in compilation.requirements))
        if compilation.constraints:
            (folder / "constraints.txt").write_text("".join(f"{line}\n" for line in compilation.constraints))
        done = subprocess.run(
            _command(compilation, folder, output),
            cwd=folder,
            env=_variables(compilation, environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        if done.returncode != 0:
            raise _failure(done.returncode, done.stderr)
        return _read(output)


def _command(compilation: Compilation, folder: Path, output: Path) -> list[str]:
    command = [find_uv_bin(), "pip", "compile", "--no-config", "--no-progress", "--color", "never"]
    command += ["--only-binary", ":all:", "--no-sources", "--exclude-newer", compilation.until]
    # Our own interpreter, so that uv looks for no other: it builds nothing, so any will do.
    command += ["--python", sys.executable, "--python-version", compilation.environment.python]
    command += ["--python-platform", compilation.environment.uv_platform]
    command += ["--format", "pylock.toml", "--output-file", str(output)]
    if compilation.constraints:
        command += ["--constraints", str(folder / "constraints.txt")]
    if not compilation.dependencies:
        command.append("--no-deps")
    return [*command, str(folder / "requirements.in")]


def _variables(compilation: Compilation, environ: Mapping[str, str]) -> dict[str, str]:
    variables = {**environ, "UV_PYTHON_DOWNLOADS": "never"}
    if compilation.environment.macos is not None:
        variables["MACOSX_DEPLOYMENT_TARGET"] = compilation.environment.macos
    return variables


def _failure(code: int, stderr: str) -> LockError | FetchError:
    """The last words of uv as an error of ours, without credentials."""
    lines = [line for line in stderr.strip().splitlines() if not _NOISE.fullmatch(line)]
    text = _CREDENTIALS.sub("://", "\n".join(lines)) or f"uv ended with exit code {code} and said nothing"
    if _NETWORK.search(text):
        return FetchError(
            f"the package index cannot be reached: {text}",
            hint="check the network; http_proxy, https_proxy, SSL_CERT_FILE, UV_DEFAULT_INDEX are obeyed",
        )
    if "No solution found" in text:
        return UnsolvableError(text)
    return LockError(f"uv cannot resolve this: {text}", hint="see docs/troubleshooting.md")


def _read(output: Path) -> Pylock:
    try:
        return Pylock.from_dict(tomllib.loads(output.read_text("utf-8")))
    except (OSError, ValueError, PylockValidationError, PylockUnsupportedVersionError) as error:
        raise LockError(
            f"uv wrote a lock that cannot be read: {error}",
            hint="is this the pinned uv? uv pip sync requirements.txt",
        ) from None
