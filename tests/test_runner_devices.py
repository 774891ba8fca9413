"""What an engine is asked for: GPUs through NVIDIA's toolkit, other devices as nodes with the groups that may use them.

No device is needed: a folder stands for the host, and what is looked at are the words for the engine.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from trainyard.oci.runnable import RunnableImage
from trainyard.platforms import Platform
from trainyard.runner.base import Command, Confinement
from trainyard.runner.container import Container
from trainyard.runner.devices import EngineDevices, HostDevices, engine_devices, find_devices
from trainyard.smoke.profiles import HOSTILE, NORMAL

CUDA = (("NVIDIA_VISIBLE_DEVICES", "all"), ("PATH", "/bin"))
PLAIN = (("PATH", "/bin"),)
RENDER, VIDEO = 992, 44
DRIVER = "usr/lib/x86_64-linux-gnu/libcuda.so.1"


def host(folder: Path, *files: str) -> HostDevices:
    for name in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return find_devices(multiarch="x86_64-linux-gnu", host=folder)


def group_of(node: Path) -> int:
    """As udev gives them: render nodes and kfd to `render`, cards to `video`."""
    return VIDEO if node.name.startswith("card") else RENDER


def container(
    devices: EngineDevices, *, how: Confinement = NORMAL, env: Mapping[str, str | None] | None = None
) -> Container:
    image = RunnableImage(
        digest="sha256:" + "0" * 64,
        platform=Platform("linux", "amd64"),
        layers=(),
        entrypoint=(),
        cmd=(),
        env=PLAIN,
        user="1000:0",
        working_dir="/",
    )
    command = Command(argv=("it",), env=tuple((env or {}).items()))
    return Container(
        name="trainyard-x",
        image="sha256:1",
        runnable=image,
        command=command,
        confinement=how,
        devices=devices,
        cpus=8,
    )


def docker(devices: EngineDevices, **options: Any) -> dict[str, Any]:
    body: Any = container(devices, **options).docker()
    return dict(body["HostConfig"])


def podman(devices: EngineDevices, how: Confinement = NORMAL, **host: Any) -> list[str]:
    return list(container(devices, how=how).podman({}, **host))


def values(words: list[str], flag: str) -> Iterator[str]:
    return (value for name, value in itertools.pairwise(words) if name == flag)


@pytest.fixture
def nvidia(tmp_path: Path) -> HostDevices:
    return host(
        tmp_path, "dev/nvidia0", "dev/nvidiactl", "dev/nvidia-uvm", "dev/nvidia-caps/nvidia-cap1", DRIVER
    )


@pytest.fixture
def amd(tmp_path: Path) -> HostDevices:
    return host(tmp_path, "dev/kfd", "dev/dri/card0", "dev/dri/renderD128", "dev/dri/by-path/pci-0-render")


def test_nvidias_gpus_are_the_toolkits_to_give_and_no_node_is_named(nvidia: HostDevices) -> None:
    asked = engine_devices(CUDA, nvidia, toolkit=True, group_of=group_of)

    assert asked == EngineDevices(nvidia=True)
    assert docker(asked)["DeviceRequests"] == [{"Count": -1, "Capabilities": [["gpu"]]}]
    assert docker(asked)["Devices"] == []
    assert list(values(podman(asked), "--device")) == ["nvidia.com/gpu=all"]


def test_a_gpu_without_a_toolkit_is_asked_for_all_the_same_so_that_its_lack_is_an_error(
    nvidia: HostDevices,
) -> None:
    """A skip would say that there is no GPU."""
    assert engine_devices(CUDA, nvidia, toolkit=False, group_of=group_of).nvidia


def test_an_image_that_is_not_for_nvidia_is_given_none(nvidia: HostDevices) -> None:
    for env in (PLAIN, (("NVIDIA_VISIBLE_DEVICES", "void"),), (("NVIDIA_VISIBLE_DEVICES", ""),)):
        assert not engine_devices(env, nvidia, toolkit=True, group_of=group_of).nvidia


def test_a_toolkit_on_a_host_without_a_gpu_is_not_asked(tmp_path: Path) -> None:
    """Its hook would fail, and with it every check: a build farm has the toolkit in its base image."""
    assert not engine_devices(CUDA, host(tmp_path), toolkit=True).nvidia


def test_the_toolkit_of_an_engine_elsewhere_is_asked_since_nobody_can_look() -> None:
    assert engine_devices(CUDA, None, toolkit=True).nvidia
    assert not engine_devices(CUDA, None, toolkit=False).nvidia


def test_under_wsl_the_toolkit_finds_the_gpu_without_a_node_of_nvidias(tmp_path: Path) -> None:
    assert engine_devices(CUDA, host(tmp_path, "dev/dxg"), toolkit=True).nvidia
    assert not engine_devices(CUDA, host(tmp_path, "dev/dxg"), toolkit=False).nvidia


def test_rocm_gets_kfd_and_dri_and_the_groups_of_this_host_by_number(amd: HostDevices) -> None:
    asked = engine_devices(PLAIN, amd, toolkit=False, group_of=group_of)
    nodes = [str(node) for node in amd.nodes]

    assert sorted(Path(node).name for node in nodes) == ["card0", "kfd", "renderD128"]
    assert asked.groups == (VIDEO, RENDER)
    assert docker(asked)["GroupAdd"] == ["44", "992"]
    assert docker(asked)["Devices"] == [
        {"PathOnHost": node, "PathInContainer": node, "CgroupPermissions": "rwm"} for node in nodes
    ]
    assert list(values(podman(asked), "--device")) == nodes
    assert list(values(podman(asked), "--group-add")) == ["44", "992"]


def test_xpu_gets_dri_alone(tmp_path: Path) -> None:
    intel = host(tmp_path, "dev/dri/renderD128", "dev/dri/card0")
    asked = engine_devices(PLAIN, intel, toolkit=False, group_of=group_of)

    assert sorted(Path(node).name for node in asked.nodes) == ["card0", "renderD128"]
    assert asked.groups == (VIDEO, RENDER)


def test_a_node_of_root_s_group_adds_no_group(amd: HostDevices) -> None:
    assert engine_devices(PLAIN, amd, toolkit=False, group_of=lambda _node: 0).groups == ()


def test_a_podman_without_root_keeps_the_groups_of_its_user_since_it_can_add_none(amd: HostDevices) -> None:
    asked = engine_devices(PLAIN, amd, toolkit=False, group_of=group_of)

    assert list(values(podman(asked, rootless=True), "--group-add")) == ["keep-groups"]
    assert list(values(podman(EngineDevices(), rootless=True), "--group-add")) == []


def test_a_podman_without_a_controller_is_not_asked_for_its_limit() -> None:
    """Without root systemd delegates no cpuset, and podman ends where it cannot limit."""
    all_of_them = podman(EngineDevices(), HOSTILE)
    few = podman(EngineDevices(), HOSTILE, controllers=frozenset({"memory"}))

    assert list(values(all_of_them, "--cpuset-cpus")) == ["0-1"]
    assert list(values(all_of_them, "--pids-limit")) == ["512"]
    assert "--cpuset-cpus" not in few
    assert "--pids-limit" not in few


def test_the_devices_are_there_under_the_hostile_profile_too(amd: HostDevices) -> None:
    asked = engine_devices(PLAIN, amd, toolkit=False, group_of=group_of)
    config = docker(asked, how=HOSTILE)

    assert config["GroupAdd"] == ["44", "992"]
    assert len(config["Devices"]) == 3
    assert config["CapDrop"] == ["ALL"]
