"""What the top layer and the environment of an image say."""

from __future__ import annotations

import configparser
import json
import tomllib
from collections.abc import Mapping

import pytest
from debian.deb822 import Deb822

from tests.support.locks import AMD64, ARM64, deb, deb_lock, target, wheel, wheel_lock
from trainyard.layers import ImageFile
from trainyard.lock.model import DebLock
from trainyard.matrix.model import Requires
from trainyard.payload import load_payload
from trainyard.platforms import Platform
from trainyard.runtime import apt_sources, guarded_wheels, image_environment, runtime_files

WHEELS = wheel_lock(wheel("torch", "2.15.0+cu132"), wheel("numpy", "2.4.0"))


def files(
    *, platform: Platform = AMD64, debs: DebLock | None = None, payload: Mapping[str, bytes] | None = None
) -> dict[str, ImageFile]:
    found = runtime_files(target(), platform, wheels=WHEELS, debs=debs or deb_lock(), payload=payload or {})
    assert len({file.path for file in found}) == len(found)
    return {file.path: file for file in found}


def claims(platform: Platform = AMD64) -> dict[str, object]:
    found: dict[str, object] = json.loads(files(platform=platform)["opt/trainyard/claims.json"].data)
    return found


def test_the_virtual_environment_comes_first_on_the_path() -> None:
    assert dict(image_environment(target()))["PATH"].split(":")[0] == "/opt/venv/bin"


def test_pip_and_uv_are_both_held_to_the_constraints_that_the_image_brings() -> None:
    env = dict(image_environment(target()))

    assert env["PIP_CONSTRAINT"] == env["UV_CONSTRAINT"] == "/etc/trainyard/constraints.txt"
    assert "etc/trainyard/constraints.txt" in files()


@pytest.mark.parametrize("accelerator", ["rocm", "xpu", "mps", "cpu"])
def test_only_cuda_images_speak_to_the_nvidia_toolkit(accelerator: str) -> None:
    """On another image they would ask a runtime for GPUs that the job does not use."""
    other = image_environment(target(accelerator=accelerator))

    assert not [name for name, _ in other if name.startswith("NVIDIA_")]
    assert {"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"} <= dict(
        image_environment(target())
    ).keys()


def test_matrix_yaml_has_the_last_word_on_a_variable() -> None:
    env = dict(image_environment(target(env=(("LANG", "de_DE.UTF-8"), ("NCCL_DEBUG", "WARN")))))

    assert (env["LANG"], env["NCCL_DEBUG"]) == ("de_DE.UTF-8", "WARN")


def test_the_environment_is_sorted_and_names_each_variable_once() -> None:
    names = [name for name, _ in image_environment(target(env=(("AAA", "1"), ("LANG", "C"))))]

    assert names == sorted(set(names))


def test_the_text_is_utf8_whatever_the_engine_sets() -> None:
    assert dict(image_environment(target()))["LANG"] == "C.UTF-8"


def test_apt_asks_the_archive_for_the_day_after_the_lock() -> None:
    """The archive imports a Release hours after its date, and answers with the import before."""
    first = Deb822(apt_sources(target().debian[1], "2026-12-31T20:15:00Z").split("\n\n")[0])

    assert first["URIs"] == "https://snapshot.example.com/archive/debian/20270101T201500Z"


def test_apt_knows_the_suite_its_updates_and_its_security_and_who_signs_them() -> None:
    stanzas = [Deb822(text) for text in apt_sources(target().debian[1], "2026-11-30T20:15:00Z").split("\n\n")]

    assert [stanza["Suites"] for stanza in stanzas] == ["trixie trixie-updates", "trixie-security"]
    assert all(stanza["Signed-By"].startswith("/usr/share/keyrings/") for stanza in stanzas)
    assert "/debian-security/" in stanzas[1]["URIs"]


def test_an_old_snapshot_is_still_accepted_by_apt() -> None:
    """A Release says until when it is valid; the one of the lock's day is long past that."""
    text = apt_sources(target().debian[1], "2026-11-30T20:15:00Z")

    assert text.count("Check-Valid-Until: no") == 2


def test_torch_is_held_to_its_exact_version_and_numpy_is_a_childs_to_change() -> None:
    assert files()["etc/trainyard/constraints.txt"].data == b"torch==2.15.0+cu132\n"


@pytest.mark.parametrize(
    ("held", "free"),
    [
        (
            ["nvidia-nccl-cu13", "cuda-bindings", "cuda-toolkit", "triton", "torchvision"],
            ["onnxruntime", "sympy"],
        ),
        (
            ["rocm", "rocm-sdk-core", "rocm-sdk-device-gfx942", "triton-rocm", "pytorch-triton-rocm"],
            ["fsspec", "pip"],
        ),
        (["intel-sycl-rt", "oneccl", "mkl", "tbb", "umf", "triton-xpu"], ["setuptools", "uv"]),
    ],
)
def test_the_libraries_of_each_accelerator_are_held_and_the_rest_is_free(
    held: list[str], free: list[str]
) -> None:
    lock = wheel_lock(*(wheel(name) for name in [*held, *free]))

    assert [one.name for one in guarded_wheels(lock)] == sorted(held)


def test_the_hold_is_in_configuration_too_where_the_environment_is_lost() -> None:
    pip = configparser.ConfigParser()
    pip.read_string(files()["opt/venv/pip.conf"].data.decode())
    uv = tomllib.loads(files()["etc/uv/uv.toml"].data.decode())

    assert dict(pip["global"]) == {
        "constraint": "/etc/trainyard/constraints.txt",
        "build-constraint": "/etc/trainyard/constraints.txt",
    }
    assert uv == {
        "constraint-dependencies": ["torch==2.15.0+cu132"],
        "build-constraint-dependencies": ["torch==2.15.0+cu132"],
    }


def test_debian_packages_ask_no_questions_in_a_child() -> None:
    assert dict(image_environment(target()))["DEBIAN_FRONTEND"] == "noninteractive"


def test_an_extension_is_built_against_the_torch_that_it_will_meet() -> None:
    env = dict(image_environment(target()))

    assert env["PIP_BUILD_CONSTRAINT"] == env["UV_BUILD_CONSTRAINT"] == env["PIP_CONSTRAINT"]


def test_pyvenv_cfg_points_to_debians_python_and_has_its_upstream_version() -> None:
    parser = configparser.ConfigParser()
    parser.read_string("[venv]\n" + files()["opt/venv/pyvenv.cfg"].data.decode())

    assert dict(parser["venv"]) == {
        "home": "/usr/bin",
        "include-system-site-packages": "false",
        "version": "3.13.5",
    }


def test_another_python_in_the_base_is_another_pyvenv_cfg() -> None:
    newer = files(debs=deb_lock(deb("python3.13", "3.13.9-1")))

    assert b"version = 3.13.9\n" in newer["opt/venv/pyvenv.cfg"].data


def test_all_names_of_python_in_the_environment_lead_to_debians() -> None:
    found = files()
    links = {name: found[f"opt/venv/bin/{name}"].link for name in ("python", "python3", "python3.13")}

    assert links == {"python": "/usr/bin/python3.13", "python3": "python", "python3.13": "python"}


def test_the_claims_say_what_a_check_can_hold_against_the_image() -> None:
    assert claims() == {
        "schema": 1,
        "target": "cuda13.2",
        "accelerator": "cuda",
        "toolkit": "13.2",
        "platform": "linux/amd64",
        "python": "3.13",
        "env": dict(image_environment(target())),
        "wheels": {"numpy": "2.4.0", "torch": "2.15.0+cu132"},
        "guarded": ["torch"],
        "debs": {deb.name: deb.version for deb in deb_lock().debs},
        "requires": {"driver": ">=580"},
    }


def test_the_claims_of_two_platforms_differ_in_the_platform_alone() -> None:
    one, two = claims(AMD64), claims(ARM64)

    assert {name for name in one if one[name] != two[name]} == {"platform"}


def test_a_requirement_that_is_not_made_is_not_claimed() -> None:
    free = target(requires=Requires())
    found = runtime_files(free, AMD64, wheels=WHEELS, debs=deb_lock(), payload={})
    text = next(file.data for file in found if file.path.endswith("claims.json"))

    assert json.loads(text)["requires"] == {}


def test_what_lies_in_a_bin_folder_can_be_run_and_the_rest_cannot() -> None:
    found = files(payload={"usr/local/bin/tool": b"#!/bin/sh\n", "opt/trainyard/data.py": b""})

    assert found["usr/local/bin/tool"].mode == 0o755
    assert found["opt/trainyard/data.py"].mode == 0o644


def test_nothing_of_ours_can_be_written_by_everybody() -> None:
    assert not [file.path for file in files(payload=load_payload()).values() if file.mode & 0o002]


def test_the_files_are_sorted_by_path_whatever_the_payloads_order() -> None:
    payload = load_payload()
    backwards = dict(reversed(list(payload.items())))
    paths = list(files(payload=payload))

    assert paths == sorted(paths)
    assert list(files(payload=backwards).values()) == list(files(payload=payload).values())


def test_the_payload_brings_the_entrypoint_the_doctor_and_every_check() -> None:
    payload = load_payload()

    assert payload["usr/local/bin/trainyard-entrypoint"].startswith(b"#!/bin/sh")
    assert "opt/trainyard/doctor.py" in payload
    assert [path for path in payload if path.startswith("opt/trainyard/checks/")]


def test_the_payload_has_no_bytecode_of_the_developers_python() -> None:
    assert not [path for path in load_payload() if "__pycache__" in path or path.endswith(".pyc")]


def test_no_path_of_the_payload_begins_with_a_slash_or_climbs() -> None:
    assert not [path for path in load_payload() if path.startswith("/") or ".." in path.split("/")]
