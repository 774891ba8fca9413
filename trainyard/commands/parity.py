"""`invoke parity`: the file tree that Docker built against the one that the assembler built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainyard.commands.display import Display
from trainyard.commands.images import built_image
from trainyard.matrix.model import Target
from trainyard.oci.flatten import flatten
from trainyard.parity import compare_images, contents_needed
from trainyard.platforms import Platform
from trainyard.workspace import Workspace

_SHOWN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two images: their digests, how many paths were held against each other, and what came of it."""

    target: str
    platform: str
    digest: str
    docker_digest: str
    compared: int
    known: tuple[tuple[str, int], ...]
    differences: tuple[str, ...]
    seconds: float

    def document(self) -> dict[str, object]:
        """The image's part of `invoke parity --json`."""
        return {
            "target": self.target,
            "platform": self.platform,
            "digest": self.digest,
            "docker_digest": self.docker_digest,
            "compared": self.compared,
            "explained": [{"reason": reason, "count": count} for reason, count in self.known],
            "unexplained": list(self.differences),
            "seconds": self.seconds,
        }


def compare_engines(
    workspace: Workspace, cells: Sequence[tuple[Target, Platform]], display: Display
) -> tuple[Compared, ...]:
    """Compare the two built images of each cell."""
    return tuple(_compare(workspace, target, platform, display) for target, platform in cells)


def _compare(workspace: Workspace, target: Target, platform: Platform, display: Display) -> Compared:
    plan = workspace.plan(target, platform)
    named = f"--target {target.name} --platform {platform}"
    ours, theirs = (
        built_image(workspace.project.dist(target.name, platform, engine=engine), plan.tag, command)
        for engine, command in (
            ("oci", f"invoke build {named} --no-smoke"),
            ("docker", f"invoke build {named} --engine docker"),
        )
    )
    start = workspace.clock()
    trees = [
        flatten(image, keep=contents_needed, workers=workspace.settings.workers) for image in (ours, theirs)
    ]
    parity = compare_images(*trees, our_config=ours.config, their_config=theirs.config)
    result = Compared(
        target=target.name,
        platform=str(platform),
        digest=ours.digest,
        docker_digest=theirs.digest,
        compared=parity.compared,
        known=parity.known,
        differences=parity.differences,
        seconds=round(workspace.clock() - start, 1),
    )
    for line in _lines(result):
        display.say(line)
    return result


def _lines(result: Compared) -> list[str]:
    found = len(result.differences)
    verdict = f"{found or 'no'} unexplained differences"
    return [
        f"{result.target} {result.platform}: {result.compared} paths compared in {result.seconds} s, {verdict}",
        *(f"  {count} explained: {reason}" for reason, count in result.known),
        *(f"  {line}" for line in result.differences[:_SHOWN]),
        *((f"  and {found - _SHOWN} more",) if found > _SHOWN else ()),
    ]
