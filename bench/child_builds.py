"""Child images of the real one: `python -m bench.child_builds [--only NAME ...] [--image REF] [--out FILE]`.

For each package a Dockerfile that starts FROM the image, installs it with pip, then another with uv, and goes on as
docs/derived.md says: `trainyard-verify`, then an import as the image's user. Exit 1 if a package does not come as far
as in bench/child_builds.json, which `--out bench/child_builds.json` writes anew. Needs a Docker Engine with BuildKit,
a network and an index; TLS through the bundle that SSL_CERT_FILE names, which is a build secret and in no layer.
Gives the builder's disk back as it goes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.support.project import workspace_of
from trainyard.buildx import Docker
from trainyard.debian.mirror import read_apt_sources
from trainyard.platforms import Platform
from trainyard.runner.archive import find_loadable
from trainyard.runner.engine import connect

ROOT = Path(__file__).parents[1]
PATIENCE = 540.0  # seconds for an install; pip tries older and older versions
RECORD = Path(__file__).with_suffix(".json")
MARK = "trainyard-child-build"
STAGES = ("installed", "verified", "imported")
INSTALLERS = {
    "pip": "pip install --no-cache-dir --progress-bar=off --no-input",
    "uv": "uv pip install --no-cache --no-progress",
}
# What to ask for, and what to import of it; popular with training jobs, and such as are known for their pins.
PACKAGES = {
    "transformers": "transformers",
    "accelerate": "accelerate",
    "datasets": "datasets",
    "peft": "peft",
    "trl": "trl",
    "sentence-transformers": "sentence_transformers",
    "diffusers": "diffusers",
    "timm": "timm",
    "open-clip-torch": "open_clip",
    "lightning": "lightning",
    "torchmetrics": "torchmetrics",
    "torch-geometric": "torch_geometric",
    "einops": "einops",
    "deepspeed": "deepspeed",
    "bitsandbytes": "bitsandbytes",
    "torchaudio": "torchaudio",
    "torchdata": "torchdata",
    "xformers": "xformers",
    "flash-attn": "flash_attn",
    "vllm": "vllm",
    # An installer that may choose walks back to releases that said nothing of torch; with a floor it must say no.
    "vllm>=0.11": "vllm",
    "scikit-learn": "sklearn",
    "opencv-python-headless": "cv2",
    "jupyterlab": "jupyterlab",
    "tensorboard": "tensorboard",
    "wandb": "wandb",
    "mlflow": "mlflow",
    "ray[train]": "ray.train",
    "optuna": "optuna",
    "jax[cuda13]": "jax",
    "onnxruntime-gpu": "onnxruntime",
    "cupy-cuda13x": "cupy",
    "tensorflow": "tensorflow",
    "tensorflow[and-cuda]": "tensorflow",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How far a child build came (`installed`, `verified`, `imported`, empty for not at all), and what stopped it."""

    package: str
    installer: str
    stage: str
    reason: str
    version: str
    seconds: float

    @property
    def word(self) -> str:
        """For the table."""
        return {"imported": "keeps torch", "verified": "keeps torch; its own import fails"}.get(
            self.stage, "**trainyard-verify says no**" if self.stage == "installed" else "refused"
        )


def main() -> None:
    """Build them all; a line for each on stderr, the table on stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="cuda13.2")
    parser.add_argument(
        "--image", default="", help="a name that the engine knows; default: the image of dist/"
    )
    parser.add_argument("--only", action="append", default=[], help="this package; may repeat")
    parser.add_argument("--installer", choices=sorted(INSTALLERS), action="append", default=[])
    parser.add_argument("--out", type=Path, help="outcomes as JSON; those that are there already stand")
    options = parser.parse_args()
    space = workspace_of(
        ROOT,
        cache=Path.home() / ".cache" / "trainyard",
        environ=os.environ,
        host=Platform.of_machine(platform.system(), platform.machine()) or Platform("linux", "amd64"),
        apt_sources=read_apt_sources,
    )
    docker = Docker.find(space.settings.environ)
    docker.check()
    image = options.image or load(space.project.dist(options.target, Platform("linux", "amd64")), docker)
    outcomes = read(options.out)
    done = {(one.package, one.installer) for one in outcomes}
    for package in options.only or PACKAGES:
        for installer in options.installer or INSTALLERS:
            if (package, installer) in done:
                continue
            outcomes.append(one := child(docker, image, package, installer))
            print(f"{package} by {installer}: {one.word}, {one.seconds:.0f} s {one.reason}", file=sys.stderr)
            if options.out:
                options.out.write_text(json.dumps([asdict(each) for each in outcomes], indent=1) + "\n")
    print("\n".join(table(outcomes)))
    before = {(one.package, one.installer): one for one in read(RECORD)}
    worse = [one for one in outcomes if worse_than(before.get((one.package, one.installer)), one)]
    for one in worse:
        print(f"{one.package} by {one.installer} came further before: {one.reason}", file=sys.stderr)
    sys.exit(1 if worse else 0)


def worse_than(before: Outcome | None, now: Outcome) -> bool:
    """Whether a build stops earlier than it did; STAGES are in order, and none of them comes before them all."""
    order = ("", *STAGES)
    return before is not None and order.index(now.stage) < order.index(before.stage)


def load(layout: Path, docker: Docker) -> str:
    """The built image's name in the engine."""
    engine = connect(docker.environ)
    loadable = find_loadable(layout, Platform("linux", "amd64"), repository="cuda13.2", zstd=True)
    engine.load(loadable)
    engine.client.close()
    return loadable.name


def read(path: Path | None) -> list[Outcome]:
    """Outcomes of an earlier run."""
    return [Outcome(**one) for one in json.loads(path.read_text())] if path and path.is_file() else []


def child(docker: Docker, image: str, package: str, installer: str) -> Outcome:
    """One child image, stage by stage until one fails."""
    start, reached, reason, version = time.monotonic(), "", "", ""
    with tempfile.TemporaryDirectory() as name:
        Path(name, "Dockerfile").write_text(dockerfile(image, package, installer))
        for stage in STAGES:
            said, failed = build(docker, Path(name), stage)
            if failed:
                reason = failed if said is None else why(said, stage)
                break
            reached, version = stage, version or installed_version(said or [], package)
    prune(docker)
    return Outcome(
        package=package,
        installer=installer,
        stage=reached,
        reason=reason,
        version=version,
        seconds=round(time.monotonic() - start, 1),
    )


def dockerfile(image: str, package: str, installer: str) -> str:
    """As docs/derived.md says; each command carries a mark by which the builder's cache is found again."""
    module = PACKAGES.get(package, package)
    trust = (
        "if [ -f /run/secrets/ca ]; then export SSL_CERT_FILE=/run/secrets/ca PIP_CERT=/run/secrets/ca; fi"
    )
    name = re.split(r"[\[=<>]", package)[0]
    show = f'import importlib.metadata as m; print(\\"VERSION\\", m.version(\\"{name}\\"))'
    return f"""\
FROM {image} AS installed
USER 0
RUN --mount=type=secret,id=ca,target=/run/secrets/ca : {MARK}; {trust}; \\
    {INSTALLERS[installer]} '{package}' && python -c "{show}"
FROM installed AS verified
RUN : {MARK}; trainyard-verify
FROM verified AS imported
USER 1000:0
RUN : {MARK}; python -c "import torch, {module}; assert torch.ones(2).sum() == 2, torch"
"""


def build(docker: Docker, folder: Path, stage: str) -> tuple[list[str] | None, str]:
    """What the step printed, and whether it failed; None and the reason when it did not end."""
    bundle = docker.environ.get("SSL_CERT_FILE", "")
    secret = ["--secret", f"id=ca,src={bundle}"] if bundle else []
    command = [docker.program, "buildx", "build", "--progress=plain", "--network=host", "--provenance=false"]
    command += [*secret, "--target", stage, "--output=type=cacheonly", str(folder)]
    try:
        done = subprocess.run(
            command, env=dict(docker.environ), capture_output=True, text=True, check=False, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        return None, f"did not end within {PATIENCE / 60:.0f} minutes"
    if done.returncode and not re.search(r"^#\d+ \d+\.\d+ ", done.stderr, re.MULTILINE):
        return None, f"no build at all: {(done.stderr.strip().splitlines() or ['no word'])[-1][:300]}"
    lines = [line for _, line in re.findall(r"^#\d+ (\d+\.\d+) (.*)$", done.stderr, re.MULTILINE)]
    return lines, "failed" if done.returncode else ""


def installed_version(lines: Sequence[str], package: str) -> str:
    """The version that came of it."""
    return next((line.split()[1] for line in lines if line.startswith("VERSION ")), "")


def why(lines: Sequence[str], stage: str) -> str:
    """The sentence that a person would look for in what an installer, the guard or an import printed."""
    text = "\n".join(lines)
    if stage == "verified":
        return next((line for line in lines if not line.startswith("note: ")), "")[:300]
    if cause := re.search(r"cause: (Because .*?)(?=\n\s*hint|\Z)", text, re.DOTALL):
        return " ".join(cause[1].split())[:400]
    if conflict := re.search(r"The conflict is caused by:\n(.*?)\n\s*\n", text, re.DOTALL):
        return " ".join(conflict[1].split())[:400]
    raised = [line.strip() for line in lines if re.match(r"\s*[A-Z]\w*Error: ", line)]
    errors = raised or [line.strip() for line in lines if re.match(r"\s*(ERROR|error)\b", line)]
    return (errors[-1] if errors else lines[-1] if lines else "no word")[:300]


def prune(docker: Docker) -> None:
    """Take the child's layers out of the builder's cache, and nobody else's: the newest first."""
    for _ in range(len(STAGES) + 1):
        listed = subprocess.run(
            [docker.program, "buildx", "du", "--verbose"],
            env=dict(docker.environ),
            capture_output=True,
            text=True,
        ).stdout
        for record in marked(listed):
            command = [docker.program, "buildx", "prune", "--all", "--force", "--filter", f"id={record}"]
            subprocess.run(command, env=dict(docker.environ), capture_output=True, check=False)


def marked(listed: str) -> Iterator[str]:
    """Ids of the records whose command carries the mark."""
    for block in listed.split("\n\n"):
        found = re.search(r"^ID:\s+(\S+)$", block, re.MULTILINE)
        if found and MARK in block:
            yield found[1]


def table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The committed table of docs/figures.md."""
    yield "| package | pip | uv |"
    yield "|---|---|---|"
    for package in dict.fromkeys([*PACKAGES, *(one.package for one in outcomes)]):
        cells = {one.installer: one for one in outcomes if one.package == package}
        if not cells:
            continue
        shown = [cell(cells[name]) if name in cells else "" for name in INSTALLERS]
        yield f"| {package} | {shown[0]} | {shown[1]} |"


def cell(one: Outcome) -> str:
    """One outcome in a table."""
    reason = f": {textwrap.shorten(one.reason, 150, placeholder=' ...')}" if one.reason else ""
    return f"{one.word}{f' ({one.version})' if one.version else ''}{reason}".replace("|", "\\|")


if __name__ == "__main__":
    main()
