"""An inventory says what a machine has, from tools or from the kernel, and nothing that is private."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import recorded
from tests.support.machines import machine, pci
from trainyard.commands.inventory import document, host_lines, schema_text
from trainyard.inventory.facts import Host, Inventory
from trainyard.inventory.host import look_at, nccl, telling
from trainyard.inventory.machine import Said, this_machine

ROOT = Path(__file__).parents[1]
QUERY = "nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap"
OLD_QUERY = "nvidia-smi --query-gpu=name,driver_version,memory.total --format"


def test_an_nvidia_machine_is_what_its_own_tool_says(tmp_path: Path) -> None:
    host = look_at(machine(tmp_path, programs={QUERY: recorded.NVIDIA_SMI}))

    assert [device.architecture for device in host.accelerators] == ["9.0", "9.0"]
    driver = host.driver("cuda")
    assert driver is not None
    assert (driver.version, driver.source, driver.problem) == ("580.105.08", "nvidia-smi", "")


def test_a_driver_that_does_not_know_the_column_is_asked_without_it(tmp_path: Path) -> None:
    refuses = Said(rc=2, out=recorded.NVIDIA_SMI_NO_COLUMN)
    host = look_at(machine(tmp_path, programs={OLD_QUERY: "Tesla T4, 470.182.03, 15360\n", QUERY: refuses}))

    assert [device.name for device in host.accelerators] == ["Tesla T4"]


def test_without_the_tool_the_kernel_says_what_drives_what_is_on_the_bus(tmp_path: Path) -> None:
    files = {
        "proc/driver/nvidia/version": recorded.NVIDIA_PROC_OPEN,
        "sys/module/nvidia/version": "565.77\n",
        **pci("17:00.0", vendor="0x10de", driver="nvidia"),
    }
    host = look_at(machine(tmp_path, files=files))

    assert [device.name for device in host.accelerators] == ["NVIDIA device 0x2330"]
    driver = host.driver("cuda")
    assert driver is not None
    assert (driver.version, driver.source) == ("565.77", "/proc/driver/nvidia/version")
    assert host.modules == ("nvidia",)


@pytest.mark.parametrize(
    ("driver", "problem"),
    [("nouveau", "the module nouveau has the device"), ("", "the module nvidia is not loaded")],
)
def test_a_gpu_without_its_driver_is_a_device_and_a_problem(
    tmp_path: Path, driver: str, problem: str
) -> None:
    host = look_at(machine(tmp_path, files=pci("17:00.0", vendor="0x10de", driver=driver)))

    found = host.driver("cuda")
    assert found is not None
    assert (found.version, found.problem) == ("", problem)
    assert len(host.accelerators) == 1


def test_an_upgraded_driver_that_was_not_rebooted_is_told_as_that(tmp_path: Path) -> None:
    files = {"proc/driver/nvidia/version": recorded.NVIDIA_PROC_CLOSED}
    said = Said(rc=18, out=recorded.NVIDIA_SMI_MISMATCH)
    found = look_at(machine(tmp_path, files=files, programs={"nvidia-smi": said})).driver("cuda")

    assert found is not None
    assert (found.version, found.problem) == (
        "510.54",
        "the driver was upgraded and its kernel module was not: reboot",
    )


def test_amds_devices_have_the_family_that_the_kernel_gives_them(tmp_path: Path) -> None:
    files = {
        "sys/class/kfd/kfd/topology/nodes/0/properties": recorded.KFD_CPU,
        "sys/class/kfd/kfd/topology/nodes/1/properties": recorded.KFD_GPU.format(version=90010),
        "sys/module/amdgpu/version": "6.12.12\n",
        "dev/kfd": "",
    }
    tool = look_at(machine(tmp_path / "a", files=files, programs={"rocm-smi": recorded.ROCM_SMI}))
    kernel = look_at(machine(tmp_path / "b", files=files))

    assert [(one.name[:12], one.architecture) for one in tool.accelerators] == [("AMD INSTINCT", "gfx90a")]
    assert [(one.name, one.architecture) for one in kernel.accelerators] == [("AMD GPU", "gfx90a")]
    assert kernel.driver("rocm") == tool.driver("rocm")
    assert [(one.name, one.version, one.problem) for one in kernel.drivers] == [("amdgpu", "6.12.12", "")]


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({}, "the module amdgpu is not loaded"),
        ({"sys/module/amdgpu/x": ""}, "there is no /dev/kfd: amdgpu has no compute driver"),
    ],
)
def test_what_an_amd_gpu_lacks_is_named(tmp_path: Path, files: dict[str, str], problem: str) -> None:
    host = look_at(machine(tmp_path, files={**pci("03:00.0", vendor="0x1002", code="0x120000"), **files}))

    found = host.driver("rocm")
    assert found is not None
    assert found.problem.startswith(problem)


def test_intels_devices_need_a_module_and_a_render_node(tmp_path: Path) -> None:
    bus = pci("29:00.0", vendor="0x8086", code="0x038000")
    nothing = look_at(machine(tmp_path / "a", files=bus)).driver("xpu")
    module = look_at(machine(tmp_path / "b", files={**bus, "sys/module/i915/x": ""})).driver("xpu")
    card = {
        "sys/class/drm/renderD128/device/vendor": "0x8086\n",
        "dev/dri/renderD128": "",
        "sys/module/xe/x": "",
    }
    whole = look_at(machine(tmp_path / "c", files={**bus, **card}, programs={"xpu-smi": recorded.XPU_SMI}))

    assert nothing is not None
    assert module is not None
    assert nothing.problem == "neither of the modules xe and i915 is loaded"
    assert (module.name, module.problem) == ("i915", "there is no render node of it in /dev/dri")
    assert [(one.name, one.problem) for one in whole.drivers] == [("xe", "")]
    assert whole.accelerators[0].memory == 48 << 30


def test_a_mac_is_macos_with_metal(tmp_path: Path) -> None:
    programs = {
        "sw_vers": recorded.SW_VERS,
        "sysctl -n machdep.cpu.brand_string": "Apple M4 Max\n",
        "python3.13 -c": '["3.13.5", {"torch": "2.15.0", "six": "1"}]',
    }
    host = look_at(
        machine(tmp_path, programs=programs, system="Darwin", arch="arm64", kernel="24.6.0"), ["3.13"]
    )

    assert (host.platform, host.os, host.macos, host.glibc) == ("darwin/arm64", "macOS 15.6.1", "15.6.1", "")
    assert [(one.kind, one.name) for one in host.accelerators] == [("mps", "Apple M4 Max")]
    assert [(one.whose, one.version, dict(one.wheels)) for one in host.pythons] == [
        ("python3.13 on PATH", "3.13.5", {"torch": "2.15.0"})
    ]
    assert "native" not in [way.name for way in host.ways]


def test_a_machine_of_no_platform_of_ours_is_still_described(tmp_path: Path) -> None:
    host = look_at(machine(tmp_path, arch="riscv64", files={"etc/os-release": recorded.OS_RELEASE}))

    assert (host.platform, host.os, host.kernel) == ("linux/riscv64", "Ubuntu 24.04.3 LTS", "6.8.0")


def test_rdma_ports_are_listed_and_a_small_memlock_is_a_note(tmp_path: Path) -> None:
    port = "sys/class/infiniband/mlx5_0/ports/1"
    files = {
        f"{port}/state": "4: ACTIVE\n",
        f"{port}/rate": "400 Gb/sec (4X NDR)\n",
        f"{port}/link_layer": "InfiniBand\n",
        "sys/class/infiniband/mlx5_1/ports/1/state": "1: DOWN\n",
    }
    host = look_at(machine(tmp_path, files=files))

    assert [(one.device, one.layer, one.state, one.rate) for one in host.rdma] == [
        ("mlx5_0", "InfiniBand", "ACTIVE", "400 Gb/sec"),
        ("mlx5_1", "", "DOWN", ""),
    ]
    assert "RDMA ports that are not active: mlx5_1/1" in host.notes
    assert host.memlock_unlimited or any(note.startswith("RDMA registers memory") for note in host.notes)


def test_the_switch_to_the_legacy_nccl_is_seen_and_values_are_not() -> None:
    found = nccl({"TORCH_DIST_USE_NCCL2": "0", "NCCL_SOCKET_IFNAME": "secret0", "AWS_SECRET": "x"})

    assert (found.backend, found.variables) == ("legacy", ("NCCL_SOCKET_IFNAME", "TORCH_DIST_USE_NCCL2"))
    assert nccl({}).backend == "rewritten"


def test_of_all_wheels_those_that_have_to_do_with_torch_are_told() -> None:
    assert telling(
        {"Torch": "2.15.0", "nvidia_nccl.cu13": "2.30", "company-secret": "1", "numpy": "2.5"}
    ) == {
        "numpy": "2.5",
        "nvidia-nccl-cu13": "2.30",
        "torch": "2.15.0",
    }


def test_nothing_private_is_in_the_document_or_on_the_screen(tmp_path: Path) -> None:
    """Names of people and hosts, addresses, serial numbers, values of the environment."""
    private = {
        "HOME": "/home/gerda.secret",
        "HOSTNAME": "node17.secret",
        "HF_TOKEN": "hf_secret",
        "NCCL_SOCKET_IFNAME": "secret0",
        "https_proxy": "http://user:secret@proxy:1",
        "DOCKER_HOST": "unix:///home/gerda.secret/docker.sock",
    }
    programs = {
        QUERY: recorded.NVIDIA_SMI,
        "xpu-smi": recorded.XPU_SMI,
        "docker --version": "Docker version 28.2.2, build secret\n",
    }
    host = look_at(machine(tmp_path, programs=programs, environ=private))
    told = json.dumps(document(Inventory(host=host, verdicts=()))) + "\n".join(host_lines(host))

    for word in ("secret", "gerda", "node17", "0000:29", "00000000-0000", str(tmp_path)):
        assert word not in told


def test_this_very_machine_gives_a_document_that_its_schema_describes() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(schema_text())
    found = document(Inventory(host=look_at(this_machine({"PATH": "/usr/bin:/bin"})), verdicts=()))

    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(found)


def test_the_committed_schema_is_the_commands() -> None:
    committed = (ROOT / "docs/inventory.schema.json").read_text("utf-8")

    assert committed == schema_text(), "python -m trainyard.commands.inventory > docs/inventory.schema.json"


def test_a_person_reads_what_is_there(tmp_path: Path) -> None:
    lines = host_lines(look_at(machine(tmp_path, programs={QUERY: recorded.NVIDIA_SMI})))

    assert "driver     nvidia 580.105.08" in lines
    assert "device     NVIDIA H100 80GB HBM3, 9.0, 80 GiB" in lines


def test_a_host_without_anything_is_described_too() -> None:
    assert "device     no accelerator" in host_lines(Host(platform="linux/amd64", os="Linux"))
