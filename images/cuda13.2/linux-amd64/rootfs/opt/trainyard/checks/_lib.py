"""What checks share: skipping, holding against claims, devices, and ranks in processes of their own."""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

# torch's name of each accelerator's device type
DEVICE_TYPES = {"cuda": "cuda", "rocm": "cuda", "xpu": "xpu", "mps": "mps"}
BACKENDS = {"cuda": "nccl", "rocm": "nccl", "xpu": "xccl", "mps": "gloo"}


class Skip(Exception):  # noqa: N818
    """The check cannot run here; the text says what it needs."""


def fail(reason: str, **evidence: object) -> NoReturn:
    """End the check with a failure and what was seen."""
    error = AssertionError(reason)
    error.evidence = evidence  # type: ignore[attr-defined]
    raise error


def same(what: str, found: object, claimed: object) -> None:
    """Fail unless what was found is what was claimed."""
    if found != claimed:
        fail(f"{what} is {found!r}, not {claimed!r}")


def locked(claims: dict, name: str) -> str | None:
    """The locked version of a wheel, None if the image has none."""
    return claims["wheels"].get(name)


def need_torch(claims: dict, *, since: tuple[int, int] = (0, 0)):
    """The torch module; Skip where the image has none, or one older than the check is about."""
    if locked(claims, "torch") is None:
        raise Skip("needs torch among the image's wheels")
    import torch

    if release(torch.__version__)[:2] < since:
        raise Skip(f"needs torch {since[0]}.{since[1]} or newer, this is {torch.__version__}")
    return torch


def release(version: str) -> tuple[int, ...]:
    """`2.15.0+cu132` -> (2, 15, 0)."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


def need_device(claims: dict) -> str:
    """The device type of the claimed accelerator, usable here.

    Skip where there is none; a device that is here and does not work is a failure.
    """
    accelerator = claims["accelerator"]
    if accelerator not in DEVICE_TYPES:
        raise Skip(f"needs an accelerator, the image is for {accelerator}")
    present, needs = device_files(accelerator)
    if not present:
        raise Skip(f"needs {needs}")
    torch = need_torch(claims)
    kind = DEVICE_TYPES[accelerator]
    usable = torch.backends.mps.is_available() if kind == "mps" else getattr(torch, kind).is_available()
    if usable:
        return kind
    try:
        torch.zeros(1, device=kind)
    except Exception as error:
        fail(f"{', '.join(present)} is here, but torch cannot use it: {error}", devices=present)
    fail(f"{', '.join(present)} is here, and torch says that it is not available", devices=present)


def device_files(accelerator: str) -> tuple[list[str], str]:
    """The device nodes of that accelerator here, and in words what would have to be."""
    if accelerator == "cuda":
        nodes = sorted(str(node) for name in ("nvidia[0-9]*", "dxg") for node in Path("/dev").glob(name))
        return nodes, "an NVIDIA GPU: no /dev/nvidia0 in this container" + _driver()
    if accelerator == "rocm":
        return [
            node for node in ("/dev/kfd",) if Path(node).exists()
        ], "an AMD GPU: no /dev/kfd in this container"
    if accelerator == "xpu":
        cards = [
            path.parents[1] for path in Path("/sys/class/drm").glob("renderD*/device/vendor") if _intel(path)
        ]
        nodes = [f"/dev/dri/{card.name}" for card in cards if Path("/dev/dri", card.name).exists()]
        return sorted(nodes), "an Intel GPU: no render node of one in /dev/dri of this container"
    mac = sys.platform == "darwin"
    return ["Metal"] if mac else [], "macOS on Apple silicon: Metal never reaches a container"


def _driver() -> str:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ", and no libcuda.so.1 from its driver"
    return ""


def _intel(vendor: Path) -> bool:
    try:
        return vendor.read_text().strip() == "0x8086"
    except OSError:
        return False


def fresh_python(code: str, *, env: dict[str, str | None]) -> dict:
    """The JSON that a new interpreter prints last; `env` is laid over ours, None unsets a variable."""
    merged = {**os.environ, **env}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={name: value for name, value in merged.items() if value is not None},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        fail(f"a fresh Python ended with {done.returncode}", stderr=done.stderr[-3000:])
    return json.loads(done.stdout.strip().rpartition("\n")[2])


def run_ranks(world: int, *, backend: str, device: str, limit: float = 90) -> list[dict]:
    """`_ranks.py` once per rank, over a file store; each rank's evidence, in rank order.

    Ranks are fresh interpreters: a process that has touched an accelerator cannot fork.
    """
    script = Path(__file__).with_name("_ranks.py")
    # A hostname need not resolve; gloo would look for it.
    loopback = "lo0" if sys.platform == "darwin" else "lo"
    env = {"GLOO_SOCKET_IFNAME": loopback, **os.environ}
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            subprocess.Popen(
                [sys.executable, str(script), str(rank), str(world), backend, device, folder],
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(world)
        ]
        try:
            outputs = [process.communicate(timeout=limit) for process in processes]
        except subprocess.TimeoutExpired:
            fail(f"{world} ranks of {backend} did not end within {limit:g} s")
        finally:
            for process in processes:
                process.kill()
    errors = {rank: outputs[rank][1] for rank in range(world) if processes[rank].returncode}
    if errors:
        # When one rank finds a wrong value and ends, the others only see that it is gone.
        rank = min(errors, key=lambda rank: ("AssertionError" not in errors[rank], rank))
        last = (errors[rank].strip().splitlines() or ["no output"])[-1]
        fail(f"rank {rank} of {world} on {backend}: {last}", stderr=errors[rank][-3000:])
    return [json.loads(out.strip().rpartition("\n")[2]) for out, _ in outputs]
