"""What tools print is read as it is meant, in the shapes that they are known to print."""

from __future__ import annotations

import pytest

from tests.support import recorded
from trainyard.inventory import parse
from trainyard.inventory.facts import Accelerator


def test_nvidia_smi_gives_driver_devices_architecture_and_memory() -> None:
    version, devices = parse.nvidia_smi(recorded.NVIDIA_SMI)

    assert version == "580.105.08"
    assert (
        devices
        == (Accelerator(kind="cuda", name="NVIDIA H100 80GB HBM3", architecture="9.0", memory=81559 << 20),)
        * 2
    )


def test_an_older_nvidia_smi_is_read_without_the_column_that_it_lacks() -> None:
    version, devices = parse.nvidia_smi("Tesla T4, 470.182.03, 15360\n", parse.NVIDIA_COLUMNS[:-1])

    assert (version, devices[0].architecture, devices[0].memory) == ("470.182.03", "", 15360 << 20)


def test_memory_that_is_the_machines_is_not_a_number() -> None:
    _, devices = parse.nvidia_smi(recorded.NVIDIA_SMI_GB10)

    assert (devices[0].memory, devices[0].architecture) == (None, "12.1")


@pytest.mark.parametrize(
    "text",
    ["", "No devices were found\n", recorded.NVIDIA_SMI_NO_DRIVER, recorded.NVIDIA_SMI_MISMATCH],
)
def test_what_nvidia_smi_says_instead_of_devices_is_no_device(text: str) -> None:
    assert parse.nvidia_smi(text) == ("", ())


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        (recorded.NVIDIA_SMI_MISMATCH, "the driver was upgraded and its kernel module was not: reboot"),
        (recorded.NVIDIA_SMI_NO_DRIVER, "nvidia-smi is here, and the kernel module is not loaded"),
        ("something new", ""),
    ],
)
def test_a_failure_of_nvidia_smi_is_told_in_words_of_ours(text: str, meaning: str) -> None:
    """Its own may hold a path or a host."""
    assert parse.nvidia_failure(text) == meaning


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (recorded.NVIDIA_PROC_OPEN, "565.77"),
        (recorded.NVIDIA_PROC_CLOSED, "510.54"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  Release Build", "580.95.05"),
        ("", ""),
    ],
)
def test_the_kernel_module_says_its_version(text: str, version: str) -> None:
    assert parse.nvidia_module(text) == version


def test_rocm_smi_gives_driver_devices_and_memory() -> None:
    version, devices = parse.rocm_smi(recorded.ROCM_SMI)

    assert version == "6.3.6"
    assert devices == (
        Accelerator(
            kind="rocm",
            name="AMD INSTINCT MI200 (MCM) OAM LC MBA HPE C2",
            architecture="gfx9010",
            memory=68702699520,
        ),
    )


def test_an_older_rocm_smi_writes_other_keys_after_a_warning_and_sorts_by_letters() -> None:
    version, devices = parse.rocm_smi(recorded.ROCM_SMI_5)

    assert version == "4.18.0-348.12.2.el8_5.x86_64"
    assert [device.name for device in devices] == ["Arcturus GL-XL [AMD Instinct MI100]"] * 2


@pytest.mark.parametrize("text", ["", "Driver not initialized", "{", "[]", '{"card0": 7, "cardx": {"a": 1}}'])
def test_what_is_no_answer_of_rocm_smi_is_nothing(text: str) -> None:
    assert parse.rocm_smi(text) == ("", ())


@pytest.mark.parametrize(
    ("number", "name"),
    [("90402", "gfx942"), ("90010", "gfx90a"), ("110000", "gfx1100"), ("120001", "gfx1201"), ("0", "")],
)
def test_kfds_number_is_rocms_name(number: str, name: str) -> None:
    assert parse.kfd_node(recorded.KFD_GPU.format(version=number)) == name


def test_xpu_smi_lists_devices_and_not_their_virtual_functions() -> None:
    assert parse.xpu_smi(recorded.XPU_SMI) == (
        Accelerator(kind="xpu", name="Intel(R) Data Center GPU Max 1100", memory=48 << 30),
    )


@pytest.mark.parametrize("text", ["", recorded.XPU_SMI_ERROR, '{"device_list": 3}', '{"device_list": [3]}'])
def test_what_is_no_list_of_xpu_smi_has_no_named_device(text: str) -> None:
    assert not [device for device in parse.xpu_smi(text) if device.name != "Intel GPU"]


def test_macos_says_its_version_and_linux_its_name() -> None:
    assert parse.sw_vers(recorded.SW_VERS) == "15.6.1"
    assert parse.sw_vers("") == ""
    assert parse.os_release(recorded.OS_RELEASE)["PRETTY_NAME"] == "Ubuntu 24.04.3 LTS"


def test_a_release_is_the_numbers_before_what_a_builder_adds() -> None:
    assert [parse.release(text) for text in ("6.8.0-48-generic", "6.18.44-fc-v857", "v3", "")] == [
        "6.8.0",
        "6.18.44",
        "",
        "",
    ]


@pytest.mark.parametrize(
    ("vendor", "code", "kind"),
    [
        ("0x10de", "0x030200", "cuda"),
        ("0x10de", "0x040300", None),
        ("0x1002", "0x120000", "rocm"),
        ("0x8086", "0x038000", "xpu"),
        ("0x1234", "0x030000", None),
    ],
)
def test_a_gpu_is_known_by_its_vendor_and_class_and_its_sound_device_is_none(
    vendor: str, code: str, kind: str | None
) -> None:
    assert parse.pci_gpu(vendor, code) == kind


def test_a_ports_state_and_rate_are_without_the_kernels_numbers() -> None:
    assert parse.rdma_port("4: ACTIVE", "100 Gb/sec (4X EDR)") == ("ACTIVE", "100 Gb/sec")
    assert parse.rdma_port("", "") == ("", "")
