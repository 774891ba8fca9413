"""Platforms and their many names."""

from __future__ import annotations

import pytest

from trainyard.platforms import Platform


@pytest.mark.parametrize("text", ["linux/amd64", "linux/arm64", "darwin/arm64"])
def test_a_platform_prints_as_it_was_parsed(text: str) -> None:
    assert str(Platform.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "linux", "linux/", "linux/x86_64", "windows/amd64", "linux/amd64/v3", "../x"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="unknown platform"):
        Platform.parse(text)


@pytest.mark.parametrize(
    ("system", "machine", "expected"),
    [
        ("Linux", "x86_64", "linux/amd64"),
        ("Linux", "aarch64", "linux/arm64"),
        ("Darwin", "arm64", "darwin/arm64"),
        ("Linux", "AMD64", "linux/amd64"),
    ],
)
def test_a_host_is_recognised(system: str, machine: str, expected: str) -> None:
    assert str(Platform.of_machine(system, machine)) == expected


@pytest.mark.parametrize(("system", "machine"), [("Windows", "AMD64"), ("Linux", "riscv64"), ("", "")])
def test_a_host_that_is_not_ours_has_no_platform(system: str, machine: str) -> None:
    assert Platform.of_machine(system, machine) is None


def test_debian_and_the_kernel_call_it_differently() -> None:
    arm = Platform.parse("linux/arm64")

    assert (arm.arch, arm.machine, arm.multiarch, arm.slug) == (
        "arm64",
        "aarch64",
        "aarch64-linux-gnu",
        "linux-arm64",
    )
