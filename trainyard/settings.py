"""What the environment may change, read in one place; none of it reaches a byte of an image or a lock."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from trainyard.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The environment's say: where the cache is, which mirror, how many threads, whether this is CI.

    `environ` is the cleaned environment for child processes: without PIP_*, UV_*, PYTHON* and
    SOURCE_DATE_EPOCH, and of DOCKER_* only with what says how to reach an engine: a developer's
    machine cannot change a result. `indexes` are the URLs of TRAINYARD_INDEX_<NAME>, by that variable: a
    mirror of an index of matrix.yaml. They may hold a password, and nothing shows them.
    """

    cache: Path
    debian_mirror: str | None
    workers: int
    ci: bool
    environ: Mapping[str, str]
    indexes: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def logins(self) -> tuple[str, ...]:
        """URLs whose user and password are good for their server."""
        return (*self.indexes.values(), self.environ.get("UV_DEFAULT_INDEX", ""))


def index_variable(name: str) -> str:
    """The variable that names a mirror of an index: `TRAINYARD_INDEX_ROCM10_0` for `rocm10.0`."""
    return f"{_INDEX}{re.sub(r'[^A-Z0-9]', '_', name.upper())}"


_INDEX = "TRAINYARD_INDEX_"
_SCRUBBED = ("PIP_", "UV_", "PYTHON", "DOCKER_", "TRAINYARD_")
# Of those, the ones that say how to reach an index or an engine, not what to choose from it.
_KEPT = (
    *("UV_DEFAULT_INDEX", "UV_NATIVE_TLS", "UV_SYSTEM_CERTS", "UV_HTTP_TIMEOUT", "UV_OFFLINE"),
    *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"),
)


def settings_from(environ: Mapping[str, str], *, home: Path, cores: int) -> Settings:
    """Settings from the process environment, the caller's home folder and the core count."""
    default_cache = Path(environ.get("XDG_CACHE_HOME") or home / ".cache") / "trainyard"
    clean = {
        name: value
        for name, value in environ.items()
        if name in _KEPT or (not name.startswith(_SCRUBBED) and name != "SOURCE_DATE_EPOCH")
    }
    return Settings(
        cache=Path(environ.get("TRAINYARD_CACHE") or default_cache),
        debian_mirror=environ.get("TRAINYARD_DEBIAN_MIRROR") or None,
        workers=_workers(environ.get("TRAINYARD_WORKERS") or str(max(2, min(cores, 8)))),
        ci=environ.get("CI", "").lower() in ("1", "true"),
        environ=clean,
        indexes={
            name: _index_url(name, value)
            for name, value in environ.items()
            if name.startswith(_INDEX) and value
        },
    )


def _workers(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) == 0:
        raise UsageError(f"TRAINYARD_WORKERS is {text!r}", hint="a number of threads: TRAINYARD_WORKERS=4")
    return int(text)


def _index_url(name: str, text: str) -> str:
    """The URL of an index; UsageError, which does not show it, when it is none."""
    try:
        parts = urlsplit(text)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fits = False
    if not fits:
        raise UsageError(f"{name} is no http:// or https:// URL", hint=f"{name}=https://HOST/simple")
    return text
