"""A whole machine: operating system, Pythons, what runs containers, limits, RDMA, and its accelerators."""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from trainyard.errors import RunnerError
from trainyard.inventory.accelerators import accelerators, loaded_modules
from trainyard.inventory.facts import Host, Nccl, PythonEnvironment, RdmaPort, Way
from trainyard.inventory.machine import Machine
from trainyard.inventory.parse import os_release, rdma_port, release, sw_vers
from trainyard.lock.honest import is_of_a_toolkit
from trainyard.platforms import Platform
from trainyard.runner.native import why_not_native
from trainyard.runner.podman_cli import Podman

SWITCH = "TORCH_DIST_USE_NCCL2"
_FAMILIES = ("NCCL_", "RCCL_", "CCL_", "GLOO_", "TORCH_NCCL_", "TORCH_DIST_", "TORCH_FR_", "UCX_")
# Others that a training job's result hangs on, beside torch and the accelerator's libraries.
_ALSO = ("numpy", "pip", "uv")
_OTHERS = ("apptainer", "singularity", "enroot", "nerdctl")
_CDI = ("etc/cdi/nvidia.yaml", "var/run/cdi/nvidia.yaml")
# A DataLoader's workers hand batches over in /dev/shm; engines give 64 MB unless told otherwise.
LITTLE_SHM = 1 << 30
_ASK_PYTHON = """
import sys
sys.path[:] = [entry for entry in sys.path if entry]  # not this folder's modules
import importlib.metadata as m, json, platform
print(json.dumps([platform.python_version(), {d.metadata["Name"] or "": d.version for d in m.distributions()}]))
"""


def look_at(machine: Machine, versions: Sequence[str] = ()) -> Host:
    """Everything about a machine. Nothing that is missing is an error; what is asked changes nothing.

    `versions` are Pythons, such as `3.13`, that a target without an image of its own would be installed with.
    """
    ours = Platform.of_machine(machine.system, machine.machine)
    mac = machine.system == "Darwin"
    devices, drivers = accelerators(machine, apple=mac and machine.machine == "arm64")
    macos = sw_vers(machine.run("sw_vers").out) if mac else ""
    named = os_release(machine.text("etc/os-release"))
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK) if hasattr(resource, "RLIMIT_MEMLOCK") else (0, 0)
    unlimited = soft == resource.RLIM_INFINITY
    shm, rdma = shm_size(machine.root / "dev/shm"), tuple(rdma_ports(machine))
    return Host(
        platform=str(ours or f"{machine.system}/{machine.machine}".lower()),
        os=f"macOS {macos}" if mac else named.get("PRETTY_NAME", "Linux"),
        kernel=release(machine.kernel),
        glibc="" if mac else _glibc(),
        macos=macos,
        pythons=tuple(pythons(machine, versions if mac else ())),
        ways=(*native(machine), docker(machine), podman(machine), *others(machine)),
        modules=loaded_modules(machine),
        drivers=drivers,
        accelerators=devices,
        shm=shm,
        memlock=None if unlimited else soft,
        memlock_unlimited=unlimited,
        rdma=rdma,
        nccl=nccl(machine.environ),
        notes=tuple(_notes(shm, rdma, None if unlimited else soft)),
    )


def _notes(shm: int | None, rdma: tuple[RdmaPort, ...], memlock: int | None) -> Iterator[str]:
    if shm is not None and shm < LITTLE_SHM:
        yield (
            f"shared memory (/dev/shm) has {shm / 1e6:.0f} MB: a DataLoader with workers needs more "
            "(docker run --shm-size=8g)"
        )
    if rdma and memlock is not None:
        yield f"RDMA registers memory, and {memlock / 1e6:.1f} MB may be locked (--ulimit memlock=-1)"
    if down := [f"{port.device}/{port.port}" for port in rdma if port.state != "ACTIVE"]:
        yield f"RDMA ports that are not active: {', '.join(down)}"


def _glibc() -> str:
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (ValueError, OSError, AttributeError):
        return ""
    return version if name == "glibc" else ""


def shm_size(folder: Path) -> int | None:
    """Bytes of the file system of shared memory; None where there is none."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_blocks * found.f_frsize


def rdma_ports(machine: Machine) -> Iterator[RdmaPort]:
    """Ports of /sys/class/infiniband."""
    for port in machine.paths("sys/class/infiniband/*/ports/*"):
        below = port.relative_to(machine.root)
        state, rate = rdma_port(machine.text(f"{below}/state"), machine.text(f"{below}/rate"))
        yield RdmaPort(
            device=port.parents[1].name,
            port=int(port.name) if port.name.isdecimal() else 0,
            layer=machine.text(f"{below}/link_layer"),
            state=state,
            rate=rate,
        )


def nccl(environ: Mapping[str, str]) -> Nccl:
    """How an environment settles torch's collectives: names only, a value may be an address or a path."""
    return Nccl(
        backend="legacy" if environ.get(SWITCH) == "0" else "rewritten",
        variables=tuple(sorted(name for name in environ if name.startswith(_FAMILIES))),
    )


def pythons(machine: Machine, versions: Sequence[str] = ()) -> Iterator[PythonEnvironment]:
    """The one that runs trainyard, the one that a person's `python3` is, and those of `versions` that are here."""
    named = [(f"{name} on PATH", name) for name in ("python3", *(f"python{one}" for one in versions))]
    for whose, program in (("trainyard's", sys.executable), *named):
        said = machine.run(program, "-c", _ASK_PYTHON)
        try:
            version, wheels = json.loads(said.out)
        except ValueError:
            continue
        yield PythonEnvironment(whose=whose, version=version, wheels=telling(wheels))


def telling(wheels: Mapping[str, str]) -> dict[str, str]:
    """Those wheels that have to do with torch, by normalised name."""
    named = {name.lower().replace("_", "-").replace(".", "-"): version for name, version in wheels.items()}
    return {name: named[name] for name in sorted(named) if is_of_a_toolkit(name) or name in _ALSO}


def native(machine: Machine) -> tuple[Way, ...]:
    """Our own runner, where there are Linux's namespaces."""
    return (Way(name="native", gpus=True, problem=why_not_native()),) if machine.system == "Linux" else ()


def docker(machine: Machine) -> Way:
    """The engine that `docker` would reach; its address is nobody's business."""
    # The SDK takes most of a second to import.
    from trainyard.runner.engine import connect

    try:
        engine = connect(machine.environ)
    except RunnerError:
        here = machine.run("docker", "--version").rc == 0
        return Way(
            name="docker", problem="the CLI is here, and no engine answers" if here else "no engine answers"
        )
    toolkit = engine.nvidia or (engine.local and any(machine.has(path) for path in _CDI))
    return Way(name="docker", version=engine.version, gpus=toolkit)


def podman(machine: Machine) -> Way:
    """podman, as root or not."""
    try:
        found = Podman.find(machine.environ)
    except RunnerError as error:
        return Way(
            name="podman", problem=error.message if "older" in error.message else "not here, or not working"
        )
    return Way(name="podman", version=found.version, gpus=any(machine.has(path) for path in _CDI))


def others(machine: Machine) -> Iterator[Way]:
    """Programs that run our images and that trainyard does not drive itself."""
    for name in _OTHERS:
        said = machine.run(name, "version" if name == "enroot" else "--version")
        if said.rc == 0:
            words = [release(word.lstrip("v")) for word in said.out.split()]
            yield Way(name=name, version=next(filter(None, words), ""), gpus=True)
