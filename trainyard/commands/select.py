"""Which (target, platform) pairs a command is about, from what was typed."""

from __future__ import annotations

from collections.abc import Sequence

from trainyard.errors import UsageError, near
from trainyard.matrix.model import Matrix, Target
from trainyard.platforms import Platform


def select_targets(matrix: Matrix, names: Sequence[str], *, every: bool = False) -> tuple[Target, ...]:
    """The named targets in the order given; without names the default one, or all of them with `every`."""
    chosen = list(dict.fromkeys(names)) or (sorted(matrix.targets) if every else [matrix.defaults.target])
    unknown = [name for name in chosen if name not in matrix.targets]
    if unknown:
        known = ", ".join(sorted(matrix.targets))
        raise UsageError(
            "\n".join(f"unknown target {name!r}{near(name, matrix.targets)}" for name in unknown),
            hint=f"`invoke list` shows them: {known}",
        )
    return tuple(matrix.target(name) for name in chosen)


def select_platforms(target: Target, text: str, host: Platform | None) -> tuple[Platform, ...]:
    """The platforms that `text` means for a target: one by name, `all`, or empty for the host's own.

    Empty means the host's architecture if the target has it, else its only platform.
    """
    if text == "all":
        return target.platforms
    if text:
        match = [platform for platform in target.platforms if str(platform) == text]
        if not match:
            known = [str(platform) for platform in target.platforms]
            raise UsageError(
                f"{target.name} has no platform {text!r}{near(text, known)}",
                hint=f"it has {', '.join(known)}, or `all`",
            )
        return tuple(match)
    fitting = [platform for platform in target.platforms if host and platform.arch == host.arch]
    if fitting:
        return (fitting[0],)
    if len(target.platforms) == 1:
        return target.platforms
    raise UsageError(
        f"{target.name} has no platform for this host and more than one other",
        hint=f"say which: --platform {target.platforms[0]}",
    )
