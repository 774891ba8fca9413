"""Plan -> the folder that `docker buildx build` takes: a Dockerfile and every small file that it copies. Pure.

The second way to the same file tree. What is large comes from two named build contexts: the wheels, and the base
image, which is the Plan's Debian layers under a config of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainyard.errors import TrainyardError
from trainyard.layers import ImageFile, LayerKind, LayerSpec
from trainyard.lock.model import LockedWheel
from trainyard.oci.directories import DEFAULT, attributes_of
from trainyard.oci.image import Image, ImageConfig, make_image
from trainyard.paths import Project
from trainyard.plan import Plan, seconds
from trainyard.store import LayerRecord
from trainyard.templates import render

# Letters of a wheel's name (PyPA, Binary distribution format); a comma would end a mount's option.
_FILENAME = re.compile(r"[A-Za-z0-9_.+!-]+\.whl")
BASE_KINDS = (LayerKind.DEBS, LayerKind.STATE, LayerKind.STDLIB)
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One build stage: installs the wheels of one layer group from its requirements file."""

    name: str
    title: str
    requirements: str
    wheels: tuple[LockedWheel, ...]


def base_specs(plan: Plan) -> tuple[LayerSpec, ...]:
    """The Plan's layers that are Debian."""
    return tuple(spec for spec in plan.layers if spec.kind in BASE_KINDS)


def base_name(plan: Plan) -> str:
    """What FROM calls the base. A name of this machine, so that no registry is ever asked for it."""
    return f"localhost/trainyard/base:{plan.debs.base}-{plan.debs.arch}"


def base_image(plan: Plan, records: Mapping[str, LayerRecord]) -> Image:
    """The Plan's Debian layers as an image; `records` are by layer key.

    Its config holds nothing that the final image would inherit.
    """
    layers = [(spec, records[spec.key]) for spec in base_specs(plan)]
    kept = [(spec, record) for spec, record in layers if record.files]
    config = ImageConfig(
        os=plan.platform.os,
        architecture=plan.platform.arch,
        created=plan.debs.snapshot,
        env=(("PATH", _SYSTEM_PATH),),
        cmd=("/bin/bash",),
    )
    return make_image(config, [record for _, record in kept], history=[spec.title for spec, _ in kept])


def epoch(plan: Plan) -> int:
    """SOURCE_DATE_EPOCH of a build: the instant that the assembled image calls its creation."""
    return seconds(plan.config.created)


def stages(plan: Plan) -> tuple[Stage, ...]:
    """One stage per wheel layer group, in the Plan's order; a wheel that the Plan splits is one stage."""
    groups = [spec for spec in plan.layers if spec.kind is LayerKind.WHEELS and spec.part == 0]
    return tuple(_stage(number, spec) for number, spec in enumerate(groups, start=1))


def _stage(number: int, spec: LayerSpec) -> Stage:
    title = spec.title.partition(" (1/")[0]
    word = (
        spec.wheels[0].name if len(spec.wheels) == 1 else ("pure" if spec.wheels[0].is_pure else "compiled")
    )
    name = f"{number:02}-{word}"
    return Stage(name=f"wheels-{name}", title=title, requirements=f"{name}.txt", wheels=spec.wheels)


def render_context(
    project: Project, plan: Plan, base: Image, *, compiler: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Path below `images/<target>/<os>-<arch>/` -> content of every file there, sorted by path.

    `compiler` are the scripts that make bytecode, by file name. Errors: TrainyardError when the locks lack uv,
    which installs the wheels, or a value cannot be written in a Dockerfile.
    """
    uv = plan.wheels.wheel("uv")
    if uv is None:
        raise TrainyardError(
            f"{plan.target} {plan.platform}: a Dockerfile installs wheels with uv, and the lock has none",
            hint="add `uv` to a package set in matrix.yaml, then run `invoke lock`",
        )
    if odd := [wheel.filename for wheel in plan.wheels.wheels if not _FILENAME.fullmatch(wheel.filename)]:
        raise TrainyardError(
            f"{plan.target} {plan.platform}: {odd[0]!r} cannot be named in a Dockerfile's mount",
            hint="`invoke lock` writes the lock again",
        )
    every = stages(plan)
    runtime = _runtime_files(plan)
    files = {
        "Dockerfile": render(project, "Dockerfile.j2", **_values(plan, base, every, runtime), uv=uv),
        ".dockerignore": render(project, "dockerignore.j2"),
        "requirements/uv.txt": _requirements(project, "the installer of all others", [uv]),
        **{
            f"requirements/{stage.requirements}": _requirements(project, stage.title, stage.wheels)
            for stage in every
        },
    }
    content = {path: text.encode() for path, text in files.items()}
    content |= {f"bytecode/{name}": data for name, data in compiler.items()}
    content |= {f"rootfs/{file.path}": file.data for file in runtime if not file.link}
    return dict(sorted(content.items()))


def _requirements(project: Project, title: str, wheels: Sequence[LockedWheel]) -> str:
    return render(project, "requirements.txt.j2", title=title, wheels=wheels)


def _runtime_files(plan: Plan) -> tuple[ImageFile, ...]:
    return tuple(file for spec in plan.layers if spec.kind is LayerKind.FILES for file in spec.files)


def _values(
    plan: Plan, base: Image, every: Sequence[Stage], runtime: Sequence[ImageFile]
) -> dict[str, object]:
    config = plan.config
    return {
        "plan": plan,
        "platform": plan.platform,
        "base": base_name(plan),
        "base_digest": base.digest,
        "python": plan.wheels.python,
        "epoch": epoch(plan),
        "stages": every,
        "links": [file for file in runtime if file.link],
        "modes": _modes(runtime),
        "env": [(name, _quoted(value)) for name, value in config.env],
        "labels": [(name, _quoted(value)) for name, value in config.labels],
        "entrypoint": _exec_form(config.entrypoint),
        "cmd": _exec_form(config.cmd),
        "config": config,
    }


def _modes(runtime: Sequence[ImageFile]) -> list[tuple[str, list[str]]]:
    """Octal mode -> paths, for files that are not 0644 and directories that are not 0755."""
    found: dict[int, list[str]] = {}
    for file in runtime:
        if not file.link and file.mode != 0o644:
            found.setdefault(file.mode, []).append(file.path)
    folders = {parent for file in runtime for parent in _parents(file.path)}
    for folder in sorted(folders):
        attributes = attributes_of(folder)
        if (attributes.uid, attributes.gid) != (0, 0):
            raise TrainyardError(f"/{folder} is not root's, and the Dockerfile has no rule for that")
        if attributes != DEFAULT:
            found.setdefault(attributes.mode, []).append(folder)
    return [(f"{mode:04o}", paths) for mode, paths in sorted(found.items(), reverse=True)]


def _parents(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]


def _quoted(value: str) -> str:
    """A value between double quotes, in which Docker expands nothing."""
    if any(ord(letter) < 32 for letter in value):
        raise TrainyardError(
            f"a Dockerfile cannot hold the value {value!r}",
            hint="take the control character out of matrix.yaml",
        )
    for letter in '\\"$':
        value = value.replace(letter, f"\\{letter}")
    return f'"{value}"'


def _exec_form(words: Sequence[str]) -> str:
    return "[" + ", ".join(_quoted(word) for word in words) + "]"
