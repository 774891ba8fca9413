"""How an image is locked up while its checks run."""

from __future__ import annotations

from trainyard.errors import UsageError, near
from trainyard.runner.base import Confinement

# What `docker run` does, without a network.
NORMAL = Confinement()
# What a cluster with a strict policy does: an uid that the image does not know, and nothing to lean on.
HOSTILE = Confinement(
    name="hostile",
    user="987654:0",
    read_only=True,
    no_new_privileges=True,
    drop_capabilities=True,
    processes=512,
    cpus=2,
)
# Variables of the image that the container is started without; an engine may then set its own.
_UNSET = {HOSTILE.name: ("HOME",)}
PROFILES = {profile.name: profile for profile in (NORMAL, HOSTILE)}


def environment(confinement: Confinement) -> tuple[tuple[str, None], ...]:
    """What a profile takes out of the image's environment, as a Command wants it."""
    return tuple((name, None) for name in _UNSET.get(confinement.name, ()))


def profile_named(name: str) -> Confinement:
    """`normal` or `hostile`; UsageError otherwise."""
    if name not in PROFILES:
        raise UsageError(
            f"unknown profile {name!r}{near(name, PROFILES)}", hint=f"--profile is {' or '.join(PROFILES)}"
        )
    return PROFILES[name]
