"""How a bad wheel is reported: one error that names it, every problem, and the way out."""

from __future__ import annotations

from collections.abc import Sequence

from trainyard.errors import InputError
from trainyard.lock.model import LockedWheel

_SHOWN = 20


def refusal(wheel: LockedWheel, problems: Sequence[str], *, damaged: bool = False) -> InputError:
    """The error for a wheel that cannot be installed.

    `damaged` says that the file at hand is not the locked one; otherwise the published wheel is broken.
    """
    lines = list(problems[:_SHOWN])
    if len(problems) > _SHOWN:
        lines.append(f"and {len(problems) - _SHOWN} more")
    text = lines[0] if len(lines) == 1 else "".join(f"\n  {line}" for line in lines)
    hint = (
        "`invoke clean --inputs`, then `invoke build` fetches it again"
        if damaged
        else f"the wheel was published like this: ask for another version of {wheel.name} in matrix.yaml, "
        f"then `invoke lock --package {wheel.name}`"
    )
    return InputError(f"{wheel.filename}: {text}", hint=hint)
