"""A target's companions from the target's own index and from nowhere else, whoever asks for them.

uv holds only a package that is named directly to an explicit index: what torch itself depends on would be looked
up on the default one, and neither constraints nor overrides can carry an index (tried with 0.13.9). So uv asks a
loopback index of ours first, for every name. A companion it sends on to the own index, or, when that has none,
says that no version exists: uv looks no further. Every other name does not exist here, and is the default
index's.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from packaging.utils import canonicalize_name

from trainyard.connection import shown
from trainyard.download import Downloader
from trainyard.errors import FetchError, GoneError, InputError
from trainyard.matrix.model import Target
from trainyard.settings import Settings, index_variable

# A page lists every file of a package; torch's on a crowded index is below one megabyte.
_LARGEST_PAGE = 64 << 20
_ATTEMPTS = 2
_NO_VERSION = b"<!DOCTYPE html><html><body></body></html>"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnIndex:
    """An index beside the default one, and the packages that come from it; `url` may hold a password."""

    name: str
    url: str = field(repr=False)
    dated: bool
    companions: frozenset[str]
    logins: tuple[str, ...] = field(default=(), repr=False)


@dataclass(slots=True, kw_only=True)
class Route:
    """The loopback index while it stands: where it is, and what it could not find or reach."""

    url: str
    missing: set[str] = field(default_factory=set)
    failure: FetchError | InputError | None = None


def own_index(target: Target, settings: Settings) -> OwnIndex | None:
    """The index that a target names, at its mirror if the environment names one; None for most targets."""
    if target.index is None or target.index_name is None:
        return None
    return OwnIndex(
        name=target.index_name,
        url=settings.indexes.get(index_variable(target.index_name), target.index.url),
        dated=target.index.dated,
        companions=frozenset(target.companions),
        logins=settings.logins,
    )


@contextmanager
def routed(own: OwnIndex, environ: Mapping[str, str]) -> Iterator[Route]:
    """Serve the loopback index until the block ends.

    Its path cannot be guessed: what it answers may hold a password, and every user of this host can reach it.
    """
    downloader = Downloader(environ, logins=own.logins, attempts=_ATTEMPTS)
    secret = secrets.token_urlsafe(16)
    route = Route(url="")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            before, _, name = self.path.strip("/").rpartition("/")
            if before != secret or canonicalize_name(name) not in own.companions:
                self.send_error(404)
                return
            page = f"{own.url.rstrip('/')}/{name}/"
            if _exists(page, own, route, downloader):
                self.send_response_only(302)
                self.send_header("Location", page)
                self.end_headers()
                return
            self.send_response_only(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(_NO_VERSION)))
            self.end_headers()
            self.wfile.write(_NO_VERSION)

        def log_message(self, format: str, *arguments: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        route.url = f"http://127.0.0.1:{server.server_port}/{secret}"
        try:
            yield route
        finally:
            server.shutdown()
            thread.join()


def _exists(page: str, own: OwnIndex, route: Route, downloader: Downloader) -> bool:
    """Whether the own index has that page; what it lacks, and why it cannot be reached, is noted in `route`."""
    if route.failure is not None:
        return False
    try:
        downloader.read(page, limit=_LARGEST_PAGE)
    except GoneError:
        route.missing.add(page.rstrip("/").rpartition("/")[2])
        return False
    except (FetchError, InputError) as error:
        route.failure = type(error)(
            f"index {own.name} ({shown(own.url)}) cannot be used: {error.message}", hint=_reach_hint(own)
        )
        return False
    return True


def _reach_hint(own: OwnIndex) -> str:
    return (
        f"a mirror of it: {index_variable(own.name)}=URL invoke ...; user and password in that URL or in netrc; "
        "http_proxy, https_proxy, no_proxy and SSL_CERT_FILE are obeyed"
    )
