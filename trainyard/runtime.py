"""What our own top layer and the image's environment hold; pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta

from trainyard.layers import ImageFile
from trainyard.lock.honest import is_of_a_toolkit
from trainyard.lock.model import DebLock, LockedWheel, WheelLock
from trainyard.matrix.model import Base, Target
from trainyard.platforms import Platform

VENV = "opt/venv"
CONSTRAINTS = "etc/trainyard/constraints.txt"
PIP_CONFIG = f"{VENV}/pip.conf"
UV_CONFIG = "etc/uv/uv.toml"
CLAIMS = "opt/trainyard/claims.json"
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"
# Only here does the accelerator decide an environment variable; the container toolkits read these.
_ACCELERATOR_ENV = {
    "cuda": {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"},
}


def image_environment(target: Target) -> tuple[tuple[str, str], ...]:
    """The image's ENV, sorted; what matrix.yaml sets for the target wins."""
    env = {
        "PATH": f"/{VENV}/bin:{_SYSTEM_PATH}",
        "VIRTUAL_ENV": f"/{VENV}",
        "LANG": "C.UTF-8",
        # Any uid of group 0 can write here; an engine that meets an unknown uid would say `/`.
        "HOME": "/home/trainyard",
        # apt-get install in a child asks nothing, with a terminal or without.
        "DEBIAN_FRONTEND": "noninteractive",
        # In force in every later RUN of a child image, for pip and for uv: neither may swap torch, nor build an
        # extension against another one.
        "PIP_CONSTRAINT": f"/{CONSTRAINTS}",
        "PIP_BUILD_CONSTRAINT": f"/{CONSTRAINTS}",
        "UV_CONSTRAINT": f"/{CONSTRAINTS}",
        "UV_BUILD_CONSTRAINT": f"/{CONSTRAINTS}",
        "UV_PYTHON_DOWNLOADS": "never",
        **_ACCELERATOR_ENV.get(target.accelerator, {}),
        **dict(target.env),
    }
    return tuple(sorted(env.items()))


def apt_sources(base: Base, snapshot: str) -> str:
    """deb822 sources (sources.list(5)) of the lock's time, so that a child gets the versions that fit its base.

    A snapshot archive answers with its last import before the time asked for, and imports a Release hours after
    its date: so the day after is asked for, or the packages would be older than the ones installed.
    """
    stamp = f"{datetime.fromisoformat(snapshot) + timedelta(days=1):%Y%m%dT%H%M%SZ}"
    keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
    stanzas = [
        f"Types: deb\nURIs: {base.snapshot}/{archive}/{stamp}\nSuites: {suites}\n"
        f"Components: main\nSigned-By: {keyring}\nCheck-Valid-Until: no\n"
        for archive, suites in (
            ("debian", f"{base.suite} {base.suite}-updates"),
            ("debian-security", f"{base.suite}-security"),
        )
    ]
    return "\n".join(stanzas)


def guarded_wheels(wheels: WheelLock) -> tuple[LockedWheel, ...]:
    """What a child image may not swap: torch, what is built against it, and the accelerator's libraries.

    Not the rest of the lock: torch bears another numpy or fsspec, and many packages ask for one.
    """
    return tuple(wheel for wheel in wheels.wheels if is_of_a_toolkit(wheel.name))


def runtime_files(
    target: Target, platform: Platform, *, wheels: WheelLock, debs: DebLock, payload: Mapping[str, bytes]
) -> tuple[ImageFile, ...]:
    """The top layer: the venv's own files, constraints, claims, and the payload, sorted by path."""
    python = target.python
    shipped = [
        ImageFile(path=path, data=data, mode=0o755 if "/bin/" in path else 0o644)
        for path, data in payload.items()
    ]
    links = {"python": f"/usr/bin/python{python}", "python3": "python", f"python{python}": "python"}
    files = [
        *shipped,
        *(ImageFile(path=f"{VENV}/bin/{name}", link=link) for name, link in links.items()),
        ImageFile(path=f"{VENV}/pyvenv.cfg", data=_pyvenv(debs, python), mode=0o664),
        ImageFile(path=CONSTRAINTS, data=_constraints(wheels)),
        ImageFile(path=PIP_CONFIG, data=_pip_config(), mode=0o664),
        ImageFile(path=UV_CONFIG, data=_uv_config(wheels)),
        ImageFile(path=CLAIMS, data=_claims(target, platform, wheels, debs)),
    ]
    return tuple(sorted(files, key=lambda file: file.path))


def _pyvenv(debs: DebLock, python: str) -> bytes:
    """pyvenv.cfg (PEP 405); the version is Debian's upstream one."""
    deb = debs.deb(f"python{python}")
    version = deb.version.partition("-")[0] if deb else python
    return f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {version}\n".encode()


def _constraints(wheels: WheelLock) -> bytes:
    return "".join(f"{wheel.requirement}\n" for wheel in guarded_wheels(wheels)).encode()


def _pip_config() -> bytes:
    """The same hold where the environment is lost: sudo, a login shell, `env -i`."""
    return f"[global]\nconstraint = /{CONSTRAINTS}\nbuild-constraint = /{CONSTRAINTS}\n".encode()


def _uv_config(wheels: WheelLock) -> bytes:
    """The same again; and `uv pip install -c FILE` takes its file in place of UV_CONSTRAINT's."""
    pins = json.dumps([wheel.requirement for wheel in guarded_wheels(wheels)], indent=4)
    return f"constraint-dependencies = {pins}\nbuild-constraint-dependencies = {pins}\n".encode()


def _claims(target: Target, platform: Platform, wheels: WheelLock, debs: DebLock) -> bytes:
    """What the image says of itself, for the checks to hold against what it is."""
    claims = {
        "schema": 1,
        "target": target.name,
        "accelerator": target.accelerator,
        "toolkit": target.toolkit,
        "platform": str(platform),
        "python": target.python,
        "env": dict(image_environment(target)),
        "wheels": {wheel.name: wheel.version for wheel in wheels.wheels},
        "guarded": [wheel.name for wheel in guarded_wheels(wheels)],
        "debs": {deb.name: deb.version for deb in debs.debs},
        "requires": target.requires.model_dump(exclude_none=True),
    }
    return (json.dumps(claims, indent=1, sort_keys=True) + "\n").encode()
