"""`invoke verify`: the same image again, from an empty layer cache, in another environment, in another folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainyard.build import read_golden
from trainyard.commands.display import Display
from trainyard.errors import ReproducibilityError
from trainyard.fetch import verify_input
from trainyard.lock.model import LockedDeb, LockedWheel
from trainyard.matrix.model import Target
from trainyard.oci.difference import explain_layer
from trainyard.plan import Plan
from trainyard.platforms import Platform
from trainyard.store import Store
from trainyard.workspace import Workspace

# Chosen to be wrong in every way that has changed somebody's bytes: see docs/adr/0004-verify-elsewhere.md.
OTHER_UMASK = 0o077
OTHER_ENVIRONMENT = {
    "TZ": "Pacific/Chatham",
    "LANG": "tr_TR.UTF-8",
    "LC_ALL": "C",
    "PYTHONHASHSEED": "4242",
    "SOURCE_DATE_EPOCH": "1",
    "PIP_NO_INDEX": "1",
    "TRAINYARD_WORKERS": "1",
}
OTHER_UID = 54321
_PROJECT = ("matrix.yaml", "tasks.py", "trainyard", "templates", "lockfiles", "images")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A second build: both manifest digests, what was different around it, and every difference in it."""

    target: str
    platform: str
    digest: str
    rebuilt: str | None
    layers: int
    environment: tuple[str, ...]
    differences: tuple[str, ...]
    seconds: float


def verify_all(
    workspace: Workspace, cells: Sequence[tuple[Target, Platform]], display: Display
) -> tuple[Verified, ...]:
    """Verify each image in turn."""
    return tuple(_verify(workspace, target, platform, display) for target, platform in cells)


def _verify(workspace: Workspace, target: Target, platform: Platform, display: Display) -> Verified:
    plan = workspace.plan(target, platform)
    golden = read_golden(workspace.project, workspace.project.golden(target.name, platform))
    if golden is None:
        raise ReproducibilityError(
            f"{target.name} {platform} was never recorded, so there is nothing to verify",
            hint=f"`invoke build --target {target.name} --platform {platform} --record`",
        )
    start = workspace.clock()
    with workspace.store.exclusive(), workspace.store.scratch() as folder:
        project = _copy_project(workspace.project.root, folder)
        other = Store(folder / "another cache")
        _link_inputs(workspace, plan, other)
        environment = _other_environment(workspace, folder, other)
        display.say(
            f"building {target.name} {platform} again in {project}, an empty cache, {', '.join(environment.said)}"
        )
        document, error = _rebuild(project, plan, environment)
        differences = _differences(workspace, plan, other, document, error, golden.manifest_digest)
    result = Verified(
        target=target.name,
        platform=str(platform),
        digest=golden.manifest_digest,
        rebuilt=_digest(document),
        layers=len(golden.layers),
        environment=environment.said,
        differences=differences,
        seconds=round(workspace.clock() - start, 1),
    )
    display.say(_verdict(result))
    return result


def _verdict(result: Verified) -> str:
    name = f"{result.target} {result.platform}"
    if result.differences:
        return "\n  ".join([f"{name}: NOT REPRODUCIBLE", *result.differences])
    return f"{name}: same again, {result.layers} layers, {result.digest}, {result.seconds} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Environment:
    prefix: tuple[str, ...]
    variables: dict[str, str]
    cwd: Path
    said: tuple[str, ...]


def _other_environment(workspace: Workspace, folder: Path, other: Store) -> _Environment:
    """Another user too, where the kernel lets us: files stay ours, and every process sees another uid."""
    temporary = folder / "another tmp"
    temporary.mkdir()
    variables = {**workspace.settings.environ, **OTHER_ENVIRONMENT}
    variables |= {"TMPDIR": str(temporary), "TRAINYARD_CACHE": str(other.root), "HOME": str(temporary)}
    prefix: tuple[str, ...] = ()
    user = "same user (no user namespaces here)"
    unshare = ("unshare", "--user", f"--map-user={OTHER_UID}", f"--map-group={OTHER_UID}")
    if (
        shutil.which("unshare")
        and subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode == 0
    ):
        prefix, user = unshare, f"uid {OTHER_UID}"
    said = (
        user,
        f"umask {OTHER_UMASK:03o}",
        *(f"{name}={value}" for name, value in OTHER_ENVIRONMENT.items()),
    )
    return _Environment(prefix=prefix, variables=variables, cwd=temporary, said=said)


def _rebuild(project: Path, plan: Plan, environment: _Environment) -> tuple[dict[str, object] | None, str]:
    """Run the copy's own `invoke build`; its JSON image document, and what it said if it failed."""
    command = [
        *environment.prefix,
        *(sys.executable, "-m", "invoke", "--search-root", str(project), "build"),
        *("--target", plan.target, "--platform", str(plan.platform), "--no-smoke", "--json"),
    ]
    done = subprocess.run(
        command,
        cwd=environment.cwd,
        env=environment.variables,
        umask=OTHER_UMASK,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        return None, done.stderr.strip() or f"the second build ended with exit code {done.returncode}"
    image: dict[str, object] = json.loads(done.stdout)["images"][0]
    return image, ""


def _differences(
    workspace: Workspace,
    plan: Plan,
    other: Store,
    document: dict[str, object] | None,
    error: str,
    digest: str,
) -> tuple[str, ...]:
    """What the second build said, and for each layer that both have, the members that differ."""
    if _digest(document) == digest:
        return ()
    found = error.splitlines() or [f"manifest {_digest(document)}, recorded {digest}"]
    for spec in plan.layers:
        ours, theirs = workspace.store.layer(f"{spec.key}-zstd"), other.layer(f"{spec.key}-zstd")
        if ours and theirs and ours.diff_id != theirs.diff_id:
            blobs = [
                store.blob(record.digest.removeprefix("sha256:"))
                for store, record in ((workspace.store, ours), (other, theirs))
            ]
            found += [f"{spec.title}: {line}" for line in explain_layer(*blobs)]
    return tuple(found)


def _digest(document: dict[str, object] | None) -> str | None:
    return None if document is None else str(document["digest"])


def _copy_project(root: Path, folder: Path) -> Path:
    """Another clone in another folder, of what a build reads."""
    copy = folder / "another project"
    copy.mkdir()
    for name in _PROJECT:
        source = root / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, copy / name)
    return copy


def _link_inputs(workspace: Workspace, plan: Plan, other: Store) -> None:
    """The inputs are hashed again and linked: the layers are what is made from nothing."""
    host_debs = workspace.host_debs(workspace.matrix.target(plan.target))
    items: list[LockedWheel | LockedDeb] = [*plan.wheels.wheels, *plan.debs.debs, *host_debs.debs]
    for item in {item.sha256: item for item in items}.values():
        source = workspace.store.input(item.sha256)
        if source.exists():
            verify_input(workspace.store, item)
            target = other.input(item.sha256)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(source, target)
