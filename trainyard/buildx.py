"""The docker CLI as a builder: is it fit for us, and one `docker buildx build` of a rendered folder."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainyard.errors import RunnerError, SpaceError, TrainyardError

# The first with rewrite-timestamp, which takes the time of the build out of every layer.
BUILDKIT = (0, 13)
BUILDX = (0, 13)
ENGINE = (26, 0)  # the first that brings it
_TAIL = 30
_PATIENCE = 60.0  # seconds for a question to the CLI
_VERSION = re.compile(r"v?(\d+)\.(\d+)")
_INSTALL = "install the docker CLI and its buildx plugin (Debian 13: docker-cli docker-buildx)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBuild:
    """One build: the rendered folder, the two contexts, and the folder that becomes an OCI layout.

    `base` is what the Dockerfile's FROM says, `base_digest` its manifest in `base_layout`. `created` is
    SOURCE_DATE_EPOCH; `compression` is `zstd` or `gzip`; `builder` names a buildx builder, empty for the current one.
    """

    context: Path
    platform: str
    base: str
    base_layout: Path
    base_digest: str
    wheels: Path
    created: int
    layout: Path
    compression: str = "zstd"
    builder: str = ""
    use_cache: bool = True

    def argv(self) -> tuple[str, ...]:
        """The command line after `docker`."""
        packed = f"rewrite-timestamp=true,compression={self.compression},force-compression=true"
        return (
            *("buildx", "build", "--progress=plain", "--network=none", "--provenance=false", "--sbom=false"),
            *(("--builder", self.builder) if self.builder else ()),
            *(() if self.use_cache else ("--no-cache",)),
            *("--platform", self.platform),
            *("--build-arg", f"SOURCE_DATE_EPOCH={self.created}"),
            *("--build-context", f"{self.base}=oci-layout://{self.base_layout}@{self.base_digest}"),
            *("--build-context", f"wheels={self.wheels}"),
            *("--output", f"type=oci,tar=false,dest={self.layout},{packed}"),
            str(self.context),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Docker:
    """The docker CLI of this host, in the environment that it is run in."""

    program: str
    environ: Mapping[str, str]

    @classmethod
    def find(cls, environ: Mapping[str, str]) -> Docker:
        """The CLI on PATH; RunnerError if there is none."""
        program = shutil.which("docker", path=environ.get("PATH"))
        if program is None:
            raise RunnerError(
                "there is no `docker` on PATH", hint=f"{_INSTALL}; or build without it: invoke build"
            )
        return cls(program=program, environ=environ)

    def check(self, builder: str = "") -> str:
        """What will build, in words; RunnerError saying what is missing, forbidden or too old."""
        plugin = self._ask("buildx", "version")
        if plugin.returncode != 0:
            raise RunnerError(f"{self.program} has no buildx plugin", hint=_INSTALL)
        _at_least("buildx", plugin.stdout, BUILDX)
        inspected = self._ask("buildx", "inspect", *((builder,) if builder else ()))
        if inspected.returncode != 0:
            raise unreachable(inspected.stderr, builder)
        if problem := re.search(r"^\s*Error:\s*(.+)", inspected.stdout, re.MULTILINE):
            raise unreachable(problem[1], builder)
        buildkit = re.search(
            r"^BuildKit(?: version)?:\s*(\S+)", inspected.stdout, re.MULTILINE | re.IGNORECASE
        )
        if buildkit and _version(buildkit[1]) > (0, 0):
            _at_least("BuildKit", buildkit[1], BUILDKIT)
            return f"BuildKit {buildkit[1]}"
        # Debian's engine has a BuildKit that does not know its own version.
        engine = self._ask("version", "--format", "{{.Server.Version}}")
        if engine.returncode != 0:
            raise unreachable(engine.stderr, builder)
        _at_least("Docker Engine", engine.stdout, ENGINE)
        return f"Docker Engine {engine.stdout.strip()}"

    def build(self, build: ImageBuild, *, say: Callable[[str], object]) -> None:
        """Run one build, its progress line by line to `say`; TrainyardError with its last lines if it fails."""
        tail: deque[str] = deque(maxlen=_TAIL)
        with subprocess.Popen(
            [self.program, *build.argv()],
            env=dict(self.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as process:
            assert process.stderr is not None
            for line in process.stderr:
                tail.append(line.rstrip())
                say(line.rstrip())
        if process.returncode != 0:
            raise _failure(list(tail), process.returncode, build.layout)

    def _ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [self.program, *words],
                env=dict(self.environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise RunnerError(
                f"`docker {' '.join(words)}` gave no answer in {_PATIENCE:.0f} s",
                hint="is the daemon alive? docker version",
            ) from None


def _version(text: str) -> tuple[int, int]:
    match = _VERSION.search(text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _at_least(what: str, text: str, wanted: tuple[int, int]) -> None:
    if _version(text) < wanted:
        raise RunnerError(
            f"{what} {text.strip()} is too old: {wanted[0]}.{wanted[1]} is the first that gives the same bytes twice",
            hint="use Docker Engine 26 or later, or a builder of its own: `docker buildx create --name NAME`, "
            "then `invoke build --engine docker --builder NAME`",
        )


def unreachable(text: str, builder: str = "", *, otherwise: str = "invoke build") -> RunnerError:
    """Why an engine or a builder does not answer, from what docker says; `otherwise` goes on without it."""
    lowered = text.lower()
    if builder and "no builder" in lowered:
        return RunnerError(f"there is no builder {builder!r}", hint="`docker buildx ls` lists them")
    if "permission denied" in lowered:
        return RunnerError(
            f"no permission to talk to the Docker daemon: {text.strip()}",
            hint="join the group that owns its socket (usermod -aG docker USER, then log in again), "
            "or point DOCKER_HOST at one of your own",
        )
    return RunnerError(
        f"no Docker daemon answers: {text.strip()}",
        hint=f"start it, or point DOCKER_HOST (for a build: or --builder) at one; without any: {otherwise}",
    )


def _failure(tail: list[str], status: int, layout: Path) -> TrainyardError:
    """Why a build ended, from its last lines."""
    text = "\n  ".join(["docker buildx build failed", *tail])
    lowered = text.lower()
    if "no space left on device" in lowered:
        if any(str(layout) in line and "no space" in line for line in tail):
            return SpaceError(
                text, hint=f"make room in {layout.parent}, where the image goes: invoke clean --dist"
            )
        return SpaceError(text, hint="make room where the builder keeps its data: docker buildx prune")
    if "oci exporter is not supported" in lowered:
        return RunnerError(
            "this engine cannot write OCI images: it keeps images in the old store",
            hint='put {"features": {"containerd-snapshotter": true}} into /etc/docker/daemon.json and restart it, '
            "or take a builder of its own with --builder",
        )
    if "exec format error" in lowered:
        return RunnerError(
            text,
            hint="this builder cannot run the platform's programs: use one of that architecture with --builder",
        )
    if (
        "cannot connect to the docker daemon" in lowered
        or "permission denied while trying to connect" in lowered
    ):
        return unreachable(tail[-1] if tail else "")
    return RunnerError(text, hint=f"exit status {status}; the lines above say which step it was")
