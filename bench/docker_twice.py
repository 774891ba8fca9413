"""One image from two builds without a cache: `python -m bench.docker_twice [--target T] [--platform P] [--prune]`.

The first is typed as the Dockerfile's header says, in a folder with a copy of images/ and the two build contexts and
nothing else; the second is trainyard's own. Needs an engine, and about 50 GB on its disk; `--prune` gives back after
each build what it left in the builder's cache, and 25 GB do.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import Console

from tests.support.dockerfiles import header_command
from tests.support.project import workspace_of
from trainyard.buildx import Docker, ImageBuild
from trainyard.commands.contexts import Contexts, write_all_contexts
from trainyard.commands.display import Display
from trainyard.debian.mirror import read_apt_sources
from trainyard.dockerfile import epoch
from trainyard.oci.layout import read_layout
from trainyard.platforms import Platform

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Build twice and print one JSON document; exit 1 if the digests differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="cuda13.2")
    parser.add_argument("--platform", default="linux/amd64")
    parser.add_argument("--prune", action="store_true", help="empty the builder's cache after each build")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "trainyard")
    options = parser.parse_args()
    found = measure(options)
    print(json.dumps(found, indent=1))
    sys.exit(0 if found["equal"] else 1)


def measure(options: argparse.Namespace) -> dict[str, object]:
    """Digest and seconds of both builds; their layouts are gone afterwards."""
    space = workspace_of(
        ROOT,
        cache=options.cache,
        environ=os.environ,
        host=Platform.of_machine(platform.system(), platform.machine()) or Platform("linux", "amd64"),
        apt_sources=read_apt_sources,
    )
    docker = Docker.find(space.settings.environ)
    builder = docker.check()
    display = Display(Console(stderr=True))
    cell = (space.matrix.target(options.target), Platform.parse(options.platform))
    with tempfile.TemporaryDirectory(dir=options.cache) as name:
        folder = Path(name)
        contexts = write_all_contexts(space, [cell], folder / "contexts", display)[0]
        shutil.copytree(ROOT / "images", folder / "images")
        by_hand = timed(docker, options, folder / "by-hand", partial(type_by_hand, docker, folder, contexts))
        ours = timed(docker, options, folder / "trainyard", partial(build, docker, display, contexts))
    return {
        "target": options.target,
        "platform": options.platform,
        "builder": builder,
        "by_hand": by_hand,
        "trainyard": ours,
        "equal": by_hand["digest"] == ours["digest"],
    }


def timed(
    docker: Docker, options: argparse.Namespace, layout: Path, run: Callable[[Path], object]
) -> dict[str, object]:
    """Run one build into `layout`, and look at what came of it before it is deleted."""
    start = time.monotonic()
    run(layout)
    seconds = time.monotonic() - start
    image = read_layout(layout).images[0]
    found = {
        "digest": image.digest,
        "seconds": round(seconds, 1),
        "layers": len(image.layers),
        "mb": round(sum(layer.size for layer in image.layers) / 1e6, 1),
    }
    shutil.rmtree(layout)
    if options.prune:
        prune = [docker.program, "buildx", "prune", "--all", "--force"]
        subprocess.run(prune, env=dict(docker.environ), stdout=subprocess.DEVNULL, check=True)
    return found


def type_by_hand(docker: Docker, folder: Path, contexts: Contexts, layout: Path) -> None:
    """The header's command in a folder where there is no trainyard."""
    dockerfile = folder / "images" / contexts.plan.target / contexts.plan.platform.slug / "Dockerfile"
    extra = "--no-cache --progress=plain"
    command = header_command(dockerfile, contexts="contexts", layout=layout.name, extra=extra)
    subprocess.run(["sh", "-c", command], cwd=folder, env=dict(docker.environ), check=True)


def build(docker: Docker, display: Display, contexts: Contexts, layout: Path) -> None:
    """What `invoke build --engine docker --no-cache` does with the contexts."""
    plan = contexts.plan
    request = ImageBuild(
        context=ROOT / "images" / plan.target / plan.platform.slug,
        platform=str(plan.platform),
        base=f"{contexts.base_name}@{contexts.base_digest}",
        base_layout=contexts.base,
        base_digest=contexts.base_digest,
        wheels=contexts.wheels,
        created=epoch(plan),
        layout=layout,
        use_cache=False,
    )
    docker.build(request, say=display.say)


if __name__ == "__main__":
    main()
