"""The docker CLI as a builder: what is asked of it, and what each of its refusals becomes.

The CLI here is a shell script that answers as the real one does; the real one is in test_docker_build.py.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.dockerfiles import header_command
from trainyard.buildx import Docker, ImageBuild
from trainyard.errors import RunnerError, SpaceError, TrainyardError

ROOT = Path(__file__).parents[1]
BUILD = ImageBuild(
    context=Path("/p/images/t/linux-amd64"),
    platform="linux/amd64",
    base="localhost/trainyard/base:trixie-amd64@sha256:aa",
    base_layout=Path("/s/base"),
    base_digest="sha256:aa",
    wheels=Path("/s/wheels"),
    created=1796083200,
    layout=Path("/p/dist/new"),
)
GOOD = {
    "buildx version": "echo github.com/docker/buildx 0.13.1+ds1 0.13.1+ds1-3",
    "buildx inspect": "echo 'Name: default'; echo 'BuildKit version: v0.13.2'",
    "buildx build": "echo '#1 DONE' >&2",
    "version": "echo 26.1.5+dfsg1",
}


def docker(folder: Path, **answers: str) -> Docker:
    """A CLI that answers by its first words; `_` stands for a blank in a keyword."""
    cases = {**GOOD, **{words.replace("_", " "): script for words, script in answers.items()}}
    body = "".join(f'  "{words}"*) {script} ;;\n' for words, script in cases.items())
    program = folder / "docker"
    program.write_text(f'#!/bin/sh\ncase "$*" in\n{body}  *) exit 1 ;;\nesac\n')
    program.chmod(0o755)
    return Docker.find({"PATH": f"{folder}:{os.environ['PATH']}"})


def refusal(cli: Docker, builder: str = "") -> RunnerError:
    with pytest.raises(RunnerError) as caught:
        cli.check(builder)
    assert caught.value.hint
    return caught.value


def test_a_fit_builder_is_named_by_its_version(tmp_path: Path) -> None:
    assert docker(tmp_path).check() == "BuildKit v0.13.2"


def test_no_cli_says_how_to_go_on_without_one(tmp_path: Path) -> None:
    with pytest.raises(RunnerError, match="no `docker` on PATH") as caught:
        Docker.find({"PATH": str(tmp_path)})

    assert "invoke build" in caught.value.hint


def test_no_buildx_names_the_package(tmp_path: Path) -> None:
    error = refusal(
        docker(tmp_path, buildx_version="echo 'docker: unknown command: docker buildx' >&2; exit 1")
    )

    assert "no buildx plugin" in error.message
    assert "docker-buildx" in error.hint


def test_no_daemon_is_told_from_a_forbidden_one(tmp_path: Path) -> None:
    """buildx answers 0 and prints the daemon's error in its table."""
    said = "Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?"
    absent = refusal(docker(tmp_path, buildx_inspect=f"echo 'Error:  {said}'"))
    forbidden = refusal(
        docker(tmp_path, buildx_inspect="echo 'permission denied while trying to connect' >&2; exit 1")
    )

    assert "no Docker daemon answers: Cannot connect" in absent.message
    assert "permission" in forbidden.message
    assert "usermod" in forbidden.hint


def test_an_unknown_builder_is_named(tmp_path: Path) -> None:
    error = refusal(
        docker(tmp_path, buildx_inspect="echo 'ERROR: no builder \"farm\" found' >&2; exit 1"), "farm"
    )

    assert "'farm'" in error.message
    assert "docker buildx ls" in error.hint


@pytest.mark.parametrize(
    ("words", "script", "named"),
    [
        (
            "buildx_version",
            "echo github.com/docker/buildx v0.11.2",
            "buildx github.com/docker/buildx v0.11.2",
        ),
        ("buildx_inspect", "echo 'BuildKit version: v0.12.5'", "BuildKit v0.12.5"),
    ],
)
def test_what_is_too_old_is_named_with_the_version_that_is_needed(
    tmp_path: Path, words: str, script: str, named: str
) -> None:
    error = refusal(docker(tmp_path, **{words: script}))

    assert f"{named} is too old: 0.13" in error.message


def test_a_buildkit_that_does_not_know_its_version_is_judged_by_its_engine(tmp_path: Path) -> None:
    """As Debian builds it."""
    unknown = "echo 'BuildKit version: v0.0.0+unknown'"

    assert docker(tmp_path, buildx_inspect=unknown).check() == "Docker Engine 26.1.5+dfsg1"
    error = refusal(docker(tmp_path, buildx_inspect=unknown, version="echo 20.10.24+dfsg1"))
    assert "Docker Engine 20.10.24+dfsg1 is too old: 26.0" in error.message


def test_the_command_keeps_the_network_out_and_time_stamps_down() -> None:
    words = BUILD.argv()

    assert words[:2] == ("buildx", "build")
    assert {"--network=none", "--provenance=false", "--sbom=false", "SOURCE_DATE_EPOCH=1796083200"} <= set(
        words
    )
    assert "rewrite-timestamp=true" in words[words.index("--output") + 1]
    assert f"{BUILD.base}=oci-layout:///s/base@sha256:aa" in words
    assert "wheels=/s/wheels" in words
    assert words[-1] == str(BUILD.context)
    assert "--builder" not in words


def test_layers_are_compressed_as_asked_the_base_s_too() -> None:
    for compression in ("zstd", "gzip"):
        words = replace(BUILD, compression=compression).argv()

        assert f"compression={compression},force-compression=true" in words[words.index("--output") + 1]


def test_the_dockerfile_s_header_says_what_is_run() -> None:
    """For a person who types it; that both give one image is in test_docker_build.py."""
    dockerfile = ROOT / "images" / "cuda13.2" / "linux-amd64" / "Dockerfile"
    text = header_command(dockerfile, contexts="/c", layout="/layout").replace("\\\n", " ")
    typed = shlex.split(text.replace("--network none", "--network=none"))
    base, _, context = typed[typed.index("--build-context") + 1].partition("=")
    build = ImageBuild(
        context=Path(typed[-1]),
        platform="linux/amd64",
        base=base,
        base_layout=Path("/c/cuda13.2/linux-amd64/base"),
        base_digest=context.rpartition("@")[2],
        wheels=Path("/c/cuda13.2/linux-amd64/wheels"),
        created=int(typed[typed.index("--build-arg") + 1].partition("=")[2]),
        layout=Path("/layout"),
    )

    assert typed == ["docker", *(word for word in build.argv() if word != "--progress=plain")]


def test_progress_is_passed_on_line_by_line(tmp_path: Path) -> None:
    lines: list[str] = []
    docker(tmp_path, buildx_build="printf '#1 one\\n#2 two\\n' >&2").build(BUILD, say=lines.append)

    assert lines == ["#1 one", "#2 two"]


@pytest.mark.parametrize(
    ("said", "kind", "hint"),
    [
        ("ERROR: write /x: no space left on device", SpaceError, "docker buildx prune"),
        ("ERROR: OCI exporter is not supported for the docker driver", RunnerError, "containerd-snapshotter"),
        ("exec /bin/sh: exec format error", RunnerError, "--builder"),
        ("ERROR: process /bin/sh did not complete", RunnerError, "which step"),
    ],
)
def test_a_failed_build_says_why_and_what_to_do(
    tmp_path: Path, said: str, kind: type[TrainyardError], hint: str
) -> None:
    with pytest.raises(kind) as caught:
        docker(tmp_path, buildx_build=f"echo '{said}' >&2; exit 1").build(BUILD, say=lambda _line: None)

    assert hint in caught.value.hint


def test_only_the_last_lines_of_a_failed_build_are_repeated(tmp_path: Path) -> None:
    script = "for n in $(seq 100); do echo line-$n >&2; done; exit 1"
    with pytest.raises(RunnerError) as caught:
        docker(tmp_path, buildx_build=script).build(BUILD, say=lambda _line: None)

    assert "line-100" in caught.value.message
    assert "line-2\n" not in caught.value.message
