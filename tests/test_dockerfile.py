"""The Dockerfile that a Plan means, and every file beside it."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.locks import AMD64, MiB, deb, deb_lock, fake_hash, target, wheel, wheel_lock
from trainyard.dockerfile import base_image, base_name, base_specs, render_context, stages
from trainyard.errors import TrainyardError
from trainyard.layering import SPLIT
from trainyard.layers import ImageFile, LayerKind
from trainyard.lock.model import WheelLock
from trainyard.matrix.model import Target
from trainyard.oci.image import Image
from trainyard.paths import Project
from trainyard.plan import Plan, make_plan
from trainyard.store import LayerRecord

PROJECT = Project(Path(__file__).parents[1])
NATIVE = "cp313-cp313-manylinux_2_28_x86_64"
COMPILER = {"server.py": b"# server\n", "tree.py": b"# tree\n"}
PAYLOAD = {"usr/local/bin/trainyard-entrypoint": b"#!/bin/sh\n", "opt/trainyard/doctor.py": b"x = 1\n"}
WHEELS = (
    wheel("torch", "2.15.0", size=2 * SPLIT, tag=NATIVE),
    wheel("numpy", "2.5.5", size=16 * MiB, tag=NATIVE),
    wheel("markupsafe", tag=NATIVE),
    wheel("uv", "0.13.9"),
    wheel("jinja2"),
)


def plan_of(lock: WheelLock | None = None, *, of: Target | None = None) -> Plan:
    return make_plan(
        of or target(),
        AMD64,
        wheels=lock or wheel_lock(*WHEELS),
        debs=deb_lock(deb("bash")),
        payload=PAYLOAD,
        reviewed=fake_hash("reviewed"),
    )


def other_python(version: str) -> Plan:
    """The plan of a target whose base brings that Python."""
    tag = f"cp{version.replace('.', '')}"
    base = target().debian[1].model_copy(update={"python": version, "packages": [f"python{version}"]})
    wheels = (wheel("torch", "2.15.0", tag=f"{tag}-{tag}-manylinux_2_28_x86_64"), wheel("uv", "0.13.9"))
    return make_plan(
        target(base=base),
        AMD64,
        wheels=dataclasses.replace(wheel_lock(*wheels), python=version),
        debs=deb_lock(deb("bash"), version=version),
        payload=PAYLOAD,
        reviewed=fake_hash("reviewed"),
    )


def everything_of(plan: Plan) -> str:
    """All that a plan says in words: config, layers with their parameters and files, and the rendered context."""
    rendered = {name: data.decode() for name, data in files_of(plan).items()}
    return repr(
        (plan.tag, plan.config, [(spec.title, spec.parameters, spec.files) for spec in plan.layers], rendered)
    )


def base_of(plan: Plan, *, salt: str = "") -> Image:
    def record(key: str) -> LayerRecord:
        hexes = [f"sha256:{fake_hash(f'{key}{what}{salt}')}" for what in ("tar", "blob")]
        media = "application/vnd.oci.image.layer.v1.tar+zstd"
        return LayerRecord(
            key=key,
            diff_id=hexes[0],
            digest=hexes[1],
            size=1,
            content_size=1,
            files=1,
            media_type=media,
        )

    return base_image(plan, {spec.key: record(spec.key) for spec in base_specs(plan)})


def files_of(plan: Plan) -> dict[str, bytes]:
    return render_context(PROJECT, plan, base_of(plan), compiler=COMPILER)


def dockerfile_of(plan: Plan) -> str:
    return files_of(plan)["Dockerfile"].decode()


def instructions(text: str) -> list[str]:
    """Each instruction in one line, without comments."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    return joined.splitlines()


def test_every_locked_wheel_is_installed_by_exactly_one_stage() -> None:
    installed = [one.name for stage in stages(plan_of()) for one in stage.wheels]

    assert sorted(installed) == ["jinja2", "markupsafe", "numpy", "torch", "uv"]


def test_a_wheel_that_the_plan_splits_is_one_stage() -> None:
    assert [stage.title for stage in stages(plan_of())][:1] == ["wheel: torch==2.15.0"]
    parts = [spec for spec in plan_of().layers if spec.kind is LayerKind.WHEELS and spec.parts == 2]
    assert len(parts) == 2


def test_every_stage_is_copied_into_the_image_and_has_its_requirements() -> None:
    plan = plan_of()
    files, text = files_of(plan), instructions(dockerfile_of(plan))

    for stage in stages(plan):
        assert f"FROM installer AS {stage.name}" in text
        assert f"COPY --link --from={stage.name} /out/ /" in text
        assert f"requirements/{stage.requirements}" in files


def test_requirements_are_slices_of_the_lock_that_hold_each_wheel_by_hash() -> None:
    plan = plan_of()
    found = {}
    for path, data in files_of(plan).items():
        if path.startswith("requirements/") and path != "requirements/uv.txt":
            for line in data.decode().splitlines():
                if line and not line.startswith("#"):
                    text, digest = line.split(" --hash=sha256:")
                    found[Requirement(text).name] = (text, digest)

    assert found == {one.name: (one.requirement, one.sha256) for one in plan.wheels.wheels}


def test_a_stage_sees_its_own_wheels_only() -> None:
    """So that one new wheel rebuilds one stage: mounts are part of a step's cache key."""
    plan = plan_of()
    runs = [line for line in instructions(dockerfile_of(plan)) if "uv pip install" in line]
    mounted = [sorted(re.findall(r"from=wheels,source=(\S+?),", line)) for line in runs]

    assert mounted == [sorted(one.filename for one in stage.wheels) for stage in stages(plan)]


def test_from_names_the_base_by_its_digest() -> None:
    plan = plan_of()
    first = next(line for line in instructions(dockerfile_of(plan)) if line.startswith("FROM"))

    assert first == f"FROM {base_name(plan)}@{base_of(plan).digest} AS base"
    assert base_of(plan, salt="other").digest != base_of(plan).digest


def test_every_other_stage_starts_from_an_earlier_one() -> None:
    seen: set[str] = set()
    for line in instructions(dockerfile_of(plan_of())):
        if line.startswith("FROM"):
            source, _, name = line.removeprefix("FROM ").partition(" AS ")
            assert not seen or source in seen
            seen.add(name)


def test_no_step_has_a_network() -> None:
    runs = [line for line in instructions(dockerfile_of(plan_of())) if line.startswith("RUN")]

    assert runs
    assert all(line.startswith("RUN --network=none ") for line in runs)


def test_there_is_no_heredoc_and_no_frontend_to_download() -> None:
    text = dockerfile_of(plan_of())

    assert "<<" not in text
    assert "syntax=" not in text


def test_the_config_is_the_plan_s() -> None:
    plan = plan_of()
    text = "\n".join(instructions(dockerfile_of(plan)))

    for name, value in plan.config.env:
        assert f'{name}="{value}"' in text
    for name, value in plan.config.labels:
        assert f'{name}="{value}"' in text
    assert f"USER {plan.config.user}" in text
    assert f"WORKDIR {plan.config.working_dir}" in text
    assert f"STOPSIGNAL {plan.config.stop_signal}" in text
    assert 'ENTRYPOINT ["/usr/bin/tini", "-g", "--", "/usr/local/bin/trainyard-entrypoint"]' in text


def test_docker_expands_nothing_in_a_value() -> None:
    text = dockerfile_of(plan_of(of=target(env=(("ODD", 'a $HOME "b" \\c'),))))

    assert r'ODD="a \$HOME \"b\" \\c"' in text


def test_a_value_that_would_end_its_line_is_refused() -> None:
    with pytest.raises(TrainyardError, match="cannot hold the value"):
        files_of(plan_of(of=target(env=(("ODD", "a\nRUN evil"),))))


@pytest.mark.parametrize("name", ["a,target=/etc.whl", "../a.whl", "a b.whl", "a$(x).whl"])
def test_a_wheel_whose_name_would_say_more_than_a_name_is_refused(name: str) -> None:
    odd = dataclasses.replace(wheel("odd"), filename=name)
    with pytest.raises(TrainyardError, match="cannot be named"):
        files_of(plan_of(wheel_lock(*WHEELS, odd)))


def test_without_uv_in_the_locks_the_hint_says_what_to_add() -> None:
    with pytest.raises(TrainyardError, match="installs wheels with uv") as caught:
        files_of(plan_of(wheel_lock(wheel("jinja2"))))

    assert "matrix.yaml" in caught.value.hint


def test_the_plan_s_own_files_lie_beside_and_their_modes_do_not_depend_on_the_checkout() -> None:
    plan = plan_of()
    files, text = files_of(plan), dockerfile_of(plan)
    held = [file for spec in plan.layers if spec.kind is LayerKind.FILES for file in spec.files]

    assert {path for path in files if path.startswith("rootfs/")} == {
        f"rootfs/{file.path}" for file in held if not file.link
    }
    assert " && chmod 0755 /out/usr/local/bin/trainyard-entrypoint" in text
    assert " && chmod 0775 /out/opt/venv /out/opt/venv/bin" in text
    assert " && chmod 0664 /out/opt/venv/pip.conf /out/opt/venv/pyvenv.cfg" in text
    for file in held:
        if file.link:
            assert f"ln -s {file.link} /out/{file.path}" in text


def test_the_header_says_from_what_it_was_generated() -> None:
    plan = plan_of()
    header = dockerfile_of(plan).partition("\nFROM")[0]

    assert plan.key in header
    assert "invoke render" in header
    assert "lockfiles/cuda13.2/linux-amd64.txt" in header


def test_all_but_what_is_copied_is_ignored() -> None:
    plan = plan_of()
    copied = {path.partition("/")[0] for path in files_of(plan) if "/" in path}
    rules = [
        line for line in files_of(plan)[".dockerignore"].decode().splitlines() if not line.startswith("#")
    ]

    assert rules[0] == "*"
    assert {rule.removeprefix("!") for rule in rules[1:]} == copied


def test_another_lock_moves_only_its_own_stage() -> None:
    newer = [
        dataclasses.replace(one, sha256=fake_hash("new")) if one.name == "numpy" else one for one in WHEELS
    ]
    before, after = files_of(plan_of()), files_of(plan_of(wheel_lock(*newer)))
    changed = {path for path in before if before[path] != after.get(path)}

    assert {path for path in changed if path.startswith("requirements/")} == {"requirements/02-numpy.txt"}


def test_the_base_image_brings_nothing_that_the_image_would_inherit() -> None:
    """Labels, entrypoint and user of a base end up in whatever is built on it."""
    config = base_of(plan_of()).config.decode()

    assert not [word for word in ("Labels", "Entrypoint", "User", "WorkingDir") if word in config]


@pytest.mark.parametrize("version", ["3.12", "3.14", "3.15"])
def test_an_image_is_of_its_bases_python_throughout(version: str) -> None:
    """What it says of itself, where its files lie, its links, its tag, and what its Dockerfile runs."""
    plan = other_python(version)
    text = everything_of(plan)

    assert re.findall(r"(?<![\d.])3\.13(?!\d)|(?:cp|py|cpython-)313", text) == []
    assert f"-py{version.replace('.', '')}-" in plan.tag
    assert ("dev.trainyard.python", version) in plan.config.labels
    assert ImageFile(path="opt/venv/bin/python", link=f"/usr/bin/python{version}") in plan.layers[-1].files
    assert f"/opt/venv/lib/python{version}/site-packages" in dockerfile_of(plan)
    assert {dict(spec.parameters)["python"] for spec in plan.layers if spec.kind is LayerKind.WHEELS} == {
        version
    }
