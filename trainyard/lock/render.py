"""A wheel lock to its text: a requirements file with hashes that pip and uv install as it is."""

from __future__ import annotations

from trainyard.lock.model import FORMAT, WheelLock
from trainyard.paths import Project
from trainyard.templates import render


def render_wheel_lock(project: Project, lock: WheelLock) -> str:
    """The text of `lockfiles/<target>/<os>-<arch>.txt`; `parse_wheel_lock` reads it back."""
    return render(project, "wheel-lock.txt.j2", lock=lock, format=FORMAT)
