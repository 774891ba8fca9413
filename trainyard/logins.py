"""User names and passwords for servers: from the URLs that the environment gives, and from netrc."""

from __future__ import annotations

import netrc
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

_DEFAULT_PORTS = {"http": 80, "https": 443}
Origin = tuple[str, str | None, int | None]


def origin(parts: SplitResult) -> Origin:
    """Scheme, host and port: what a password in a URL is for, and nothing beyond."""
    return parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme)


def basic_auth(parts: SplitResult) -> str:
    """`user:password` of a URL, decoded."""
    return f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"


class Logins:
    """Whom to be where: the logins of `urls` at their own origins, and netrc's machines by name.

    `environ` says which netrc: NETRC, else `.netrc` in HOME, as curl and uv have it. Its `default` entry is not
    used: it would send a password to every mirror.
    """

    def __init__(self, environ: Mapping[str, str], urls: Iterable[str] = ()) -> None:
        known = [parts for url in urls if (parts := urlsplit(url)).username]
        self._urls = {origin(parts): basic_auth(parts) for parts in known}
        self._machines = _machines(environ)

    def at(self, parts: SplitResult) -> str | None:
        """`user:password` for the server of that URL, if one is known."""
        return self._urls.get(origin(parts)) or self._machines.get(parts.hostname or "")


def _machines(environ: Mapping[str, str]) -> dict[str, str]:
    """Logins by host name; none when there is no netrc, or one that cannot be read, as with curl and uv."""
    path = environ.get("NETRC") or (f"{environ['HOME']}/.netrc" if environ.get("HOME") else "")
    if not path or not Path(path).is_file():
        return {}
    try:
        hosts = netrc.netrc(path).hosts
    except (OSError, UnicodeDecodeError, netrc.NetrcParseError):
        return {}
    return {host: f"{login}:{password}" for host, (login, _, password) in hosts.items() if host != "default"}
