"""The pinned uv as a function: requirements to the pylock.toml of one environment, up to one instant."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from packaging.pylock import Pylock, PylockUnsupportedVersionError, PylockValidationError
from uv import find_uv_bin

from trainyard.connection import shown
from trainyard.errors import FetchError, LockError
from trainyard.lock.environment import WheelEnvironment
from trainyard.lock.routing import OwnIndex, Route, routed

# uv's own words, by which a network that does not deliver is told from requirements that cannot be met.
_NETWORK = re.compile(
    r"error sending request|Failed to (fetch|download)|[Nn]etwork (connectivity )?(is|was) disabled"
    r"|dns error|operation timed out|connection (closed|reset)|Request failed after"
)
_NOISE = re.compile(r"warning: The requested Python version .*|Resolved \d+ packages? in .*")
_CREDENTIALS = re.compile(r"://[^/@\s]+@")
_ANNOTATED = re.compile(r"([a-z0-9-]+)==\S+\s+# via (.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """What uv is asked: requirements (PEP 508), constraints, an environment, and a cut-off (RFC 3339 UTC).

    An override replaces what other packages ask of that name. `index` is where its companions come from. `preferred`
    maps packages to the versions that stay if they can. Without `dependencies` only the requirements themselves are
    looked up.
    """

    requirements: Sequence[str]
    environment: WheelEnvironment
    until: str
    constraints: Sequence[str] = ()
    overrides: Sequence[str] = ()
    preferred: Mapping[str, str] = field(default_factory=dict)
    index: OwnIndex | None = None
    dependencies: bool = True


class UnsolvableError(LockError):
    """uv says that no set of versions meets the requirements; the message is uv's reasoning."""


def compile_pylock(compilation: Compilation, environ: Mapping[str, str]) -> Pylock:
    """The answer of uv: a pure function of the request and of what the indexes had at the cut-off.

    UnsolvableError with uv's reasoning, FetchError when an index cannot be reached, LockError for the rest.
    """
    with _asked(compilation, environ, "--format", "pylock.toml") as output:
        return _read(output)


def requirers(compilation: Compilation, environ: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    """Package name -> who asks for it, from the same resolution; the errors of `compile_pylock`."""
    # Preferences are read in the format of the output, and only a pylock.toml is written here.
    anew = replace(compilation, preferred={})
    with _asked(anew, environ, "--format", "requirements.txt", "--annotation-style", "line") as output:
        found = (_ANNOTATED.fullmatch(line) for line in output.read_text("utf-8").splitlines())
        return {match[1]: tuple(dict.fromkeys(map(_asker, match[2].split(", ")))) for match in found if match}


@contextmanager
def _asked(compilation: Compilation, environ: Mapping[str, str], *options: str) -> Iterator[Path]:
    """The output file of uv, made in a new folder: uv prefers what it finds there, which is `preferred` alone."""
    with tempfile.TemporaryDirectory(prefix="trainyard-uv-") as name, _routed(compilation, environ) as route:
        folder = Path(name)
        output = folder / "pylock.locked.toml"
        if compilation.preferred:
            output.write_text(_preferences(compilation.preferred))
        done = subprocess.run(
            [*_command(compilation, folder, route), *options, "--output-file", str(output)],
            cwd=folder,
            env=_variables(compilation, environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        if route is not None and route.failure is not None:
            raise route.failure
        if done.returncode != 0:
            raise _failure(done.returncode, _told(done.stderr, compilation.index, route))
        yield output


@contextmanager
def _routed(compilation: Compilation, environ: Mapping[str, str]) -> Iterator[Route | None]:
    if compilation.index is None:
        yield None
        return
    with routed(compilation.index, environ) as route:
        yield route


def _command(compilation: Compilation, folder: Path, route: Route | None) -> list[str]:
    """The command line; what it names is written into `folder`."""
    command = [find_uv_bin(), "pip", "compile", "--no-progress", "--color", "never"]
    command += ["--only-binary", ":all:", "--no-sources", "--exclude-newer", compilation.until]
    # Our own interpreter, so that uv looks for no other: it builds nothing, so any will do.
    command += ["--python", sys.executable, "--python-version", compilation.environment.python]
    command += ["--python-platform", compilation.environment.uv_platform]
    if compilation.index is None or route is None:
        command.append("--no-config")
    else:
        undated = "" if compilation.index.dated else "exclude-newer = false\n"
        config = _written(folder, "uv.toml", [f'[[index]]\nurl = "{route.url}"\n{undated}'])
        # One index after the other for each name: the first that has it is asked alone.
        command += ["--config-file", config, "--index-strategy", "first-index"]
        command += ["--preview-features", "index-exclude-newer"]
    for option, lines in (
        ("--constraints", compilation.constraints),
        ("--overrides", compilation.overrides),
    ):
        if lines:
            command += [option, _written(folder, f"{option.strip('-')}.txt", lines)]
    if not compilation.dependencies:
        command.append("--no-deps")
    return [*command, _written(folder, "requirements.in", compilation.requirements)]


def _written(folder: Path, name: str, lines: Sequence[str]) -> str:
    (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return str(folder / name)


def _preferences(versions: Mapping[str, str]) -> str:
    """A pylock.toml with those names and versions."""
    packages = [f'[[packages]]\nname = "{name}"\nversion = "{versions[name]}"\n' for name in sorted(versions)]
    return "\n".join(['lock-version = "1.0"\ncreated-by = "trainyard"\n', *packages])


def _asker(text: str) -> str:
    """A package, or the matrix, for which uv names our files: `-r requirements.in`, `--override ...`."""
    return "matrix.yaml" if text.startswith("-") else text


def _told(stderr: str, index: OwnIndex | None, route: Route | None) -> str:
    """What uv says about the indexes as they are: the loopback one is ours alone."""
    if index is None or route is None:
        return stderr
    lacks = "".join(
        f"\n{name} comes from index {index.name} alone, and {shown(index.url)} has none"
        for name in sorted(route.missing)
    )
    return stderr.replace(route.url, shown(index.url).rstrip("/")).rstrip() + lacks


def _variables(compilation: Compilation, environ: Mapping[str, str]) -> dict[str, str]:
    variables = {**environ, "UV_PYTHON_DOWNLOADS": "never"}
    if compilation.index is not None:
        direct = environ.get("NO_PROXY") or environ.get("no_proxy")
        variables |= dict.fromkeys(("NO_PROXY", "no_proxy"), f"{direct},127.0.0.1" if direct else "127.0.0.1")
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
