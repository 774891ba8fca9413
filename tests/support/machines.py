"""Machines that are not here, for inventories: files below a folder, and programs with what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from trainyard.inventory.machine import Machine, Said

Programs = Mapping[str, Said | str]


def machine(
    root: Path,
    *,
    files: Mapping[str, str] | None = None,
    programs: Programs | None = None,
    environ: Mapping[str, str] | None = None,
    system: str = "Linux",
    arch: str = "x86_64",
    kernel: str = "6.8.0-48-generic",
) -> Machine:
    """A machine with these files; a program is found by the first words of its command line."""
    for path, text in (files or {}).items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            target.symlink_to(text.removeprefix("-> "))
        else:
            target.write_text(text)
    known = programs or {}

    def ask(argv: Sequence[str], _environ: Mapping[str, str]) -> Said:
        line = " ".join(argv)
        for words, said in known.items():
            if line.startswith(words):
                return Said(rc=0, out=said) if isinstance(said, str) else said
        return Said(rc=None)

    # Nowhere, so that no engine of the machine that runs the tests answers.
    nowhere = {"PATH": str(root / "bin"), "DOCKER_HOST": "unix:///nonexistent/docker.sock"}
    return Machine(
        environ={**nowhere, **(environ or {})}, root=root, system=system, machine=arch, kernel=kernel, ask=ask
    )


def pci(address: str, *, vendor: str, code: str = "0x030200", driver: str = "") -> dict[str, str]:
    """A PCI device of sysfs."""
    folder = f"sys/bus/pci/devices/0000:{address}"
    files = {
        f"{folder}/vendor": f"{vendor}\n",
        f"{folder}/class": f"{code}\n",
        f"{folder}/device": "0x2330\n",
    }
    return {**files, **({f"{folder}/driver": f"-> ../../../bus/pci/drivers/{driver}"} if driver else {})}
