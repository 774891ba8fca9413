"""One HTTP GET by the rules of one environment: proxies, CAs, credentials that stay at their host."""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # not in typeshed

import urllib3
from urllib3 import exceptions as http

from trainyard.errors import FetchError, GoneError
from trainyard.logins import Logins, basic_auth, origin

REDIRECTS = 5
TIMEOUT = urllib3.Timeout(connect=20, read=60)
_SCHEMES = ("http", "https")


class PassingError(Exception):
    """A failure that may pass: what happened, and how many seconds the server asked us to wait."""

    def __init__(self, cause: str, *, wait: float = 0) -> None:
        super().__init__(cause)
        self.wait = wait


def shown(url: str) -> str:
    """A URL as messages may show it: without user, password, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


@contextmanager
def passing_errors(url: str) -> Iterator[None]:
    """Turns urllib3's errors into PassingError, or into FetchError where trying again cannot help."""
    host = _http_parts(url).hostname
    try:
        yield
    except http.NameResolutionError:
        raise PassingError(f"the name {host} (or its proxy's) cannot be resolved") from None
    except http.ProxyError:
        raise PassingError(f"the proxy for {host} cannot be reached") from None
    except http.NewConnectionError:
        raise PassingError(f"{host} refused the connection") from None
    except http.TimeoutError:
        raise PassingError(f"{host} did not answer in time") from None
    except http.SSLError as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise FetchError(
                f"the certificate of {host} is not signed by a known authority",
                hint="behind an intercepting proxy, name its CA: SSL_CERT_FILE=FILE invoke ...",
            ) from None
        raise PassingError(f"no TLS connection to {host}") from None
    except http.LocationValueError:
        raise FetchError(f"{shown(url)} names no host") from None
    except http.HTTPError:
        raise PassingError("the connection was cut") from None


class Connections:
    """Pools of connections, directly and through proxies; safe to use from several threads.

    `environ`: http_proxy, https_proxy, all_proxy, no_proxy (either case), SSL_CERT_FILE, SSL_CERT_DIR, NETRC.
    `logins` are URLs whose user and password are good for all of their origin.
    """

    def __init__(self, environ: Mapping[str, str], *, logins: Iterable[str] = ()) -> None:
        self._environ = environ
        self._logins = Logins(environ, logins)
        self._pools: dict[str, urllib3.PoolManager] = {}
        self._guard = threading.Lock()

    @contextmanager
    def get(self, url: str, *, offset: int = 0) -> Iterator[urllib3.BaseHTTPResponse]:
        """A 200 or 206 answer, its body unread, from byte `offset` on if the server can.

        GoneError for 404 and 410, FetchError for other refusals, PassingError for what may pass.
        """
        with passing_errors(url):
            response = self._follow(url, offset)
        try:
            _check(response, url, offset)
            yield response
        except BaseException:
            response.close()
            raise
        response.release_conn()

    def _follow(self, url: str, offset: int) -> urllib3.BaseHTTPResponse:
        """The answer after redirects; credentials in `url` go to its own origin and to no other."""
        first = current = _http_parts(url)
        for _ in range(REDIRECTS + 1):
            headers = {"User-Agent": "trainyard", "Accept-Encoding": "identity"}
            if offset:
                headers["Range"] = f"bytes={offset}-"
            if login := self._login(current, first):
                headers |= urllib3.make_headers(basic_auth=login)
            bare = _without_user(current)
            response = self._pool(bare).request(
                "GET",
                bare,
                headers=headers,
                redirect=False,
                retries=False,
                preload_content=False,
                timeout=TIMEOUT,
            )
            location = response.get_redirect_location()
            if not location:
                return response
            response.close()
            current = _http_parts(location, base=bare, what=f"where {shown(url)} redirects to")
        raise FetchError(f"{shown(url)} redirects more than {REDIRECTS} times")

    def _login(self, current: SplitResult, first: SplitResult) -> str | None:
        if first.username and origin(current) == origin(first):
            return basic_auth(first)
        return self._logins.at(current)

    def _pool(self, url: str) -> urllib3.PoolManager:
        """The pool of the proxy that this URL goes through, or of none."""
        proxy = self._proxy(url)
        with self._guard:
            if proxy not in self._pools:
                self._pools[proxy] = self._new_pool(proxy)
            return self._pools[proxy]

    def _new_pool(self, proxy: str) -> urllib3.PoolManager:
        options: dict[str, Any] = {"maxsize": 16, "ssl_context": self._tls()}
        if not proxy:
            return urllib3.PoolManager(**options)
        parts = urlsplit(proxy)
        credentials = urllib3.make_headers(proxy_basic_auth=basic_auth(parts)) if parts.username else None
        return urllib3.ProxyManager(_without_user(parts), proxy_headers=credentials, **options)

    def _proxy(self, url: str) -> str:
        parts = urlsplit(url)
        bypass = self._variable("no_proxy")
        if bypass and proxy_bypass_environment(parts.netloc, {"no": bypass}):
            return ""
        proxy = self._variable(f"{parts.scheme}_proxy") or self._variable("all_proxy")
        return proxy if not proxy or "://" in proxy else f"http://{proxy}"

    def _variable(self, name: str) -> str:
        return self._environ.get(name) or self._environ.get(name.upper()) or ""

    def _tls(self) -> ssl.SSLContext:
        """The system's CAs, or those of SSL_CERT_FILE and SSL_CERT_DIR."""
        file, folder = self._environ.get("SSL_CERT_FILE") or None, self._environ.get("SSL_CERT_DIR") or None
        try:
            return ssl.create_default_context(cafile=file, capath=folder)
        except OSError as error:
            raise FetchError(
                f"SSL_CERT_FILE={file} cannot be used: {error.strerror}", hint="unset it, or name a PEM file"
            ) from None


def _check(response: urllib3.BaseHTTPResponse, url: str, offset: int) -> None:
    """Raise unless the answer is the body from 0 or from `offset` on."""
    status = response.status
    if status == 200:
        return
    if status == 206:
        start = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
        if start is None or int(start[1]) != offset:
            raise PassingError("the server sent another range than the one asked for")
        return
    if status in (404, 410):
        raise GoneError(f"{shown(url)} does not exist there (HTTP {status})")
    if status == 429 or status >= 500:
        raise PassingError(f"the server answered HTTP {status}", wait=_retry_after(response))
    hint = (
        "put user and password into netrc, or into the URL: https://USER:PASSWORD@HOST/..."
        if status in (401, 403, 407)
        else ""
    )
    raise FetchError(f"{shown(url)}: the server refuses with HTTP {status}", hint=hint)


def _retry_after(response: urllib3.BaseHTTPResponse) -> float:
    """Seconds of a Retry-After header (RFC 9110, 10.2.3); a date counts from the server's own Date."""
    text = response.headers.get("Retry-After", "")
    if text.isdecimal():
        return float(text)
    try:
        until, now = parsedate_to_datetime(text), parsedate_to_datetime(response.headers.get("Date", ""))
        return max(0.0, (until - now).total_seconds())
    except (ValueError, TypeError):
        return 0


def _http_parts(url: str, *, base: str = "", what: str = "the URL") -> SplitResult:
    """The parts of an http or https URL; FetchError for everything else, without showing what it was."""
    try:
        parts = urlsplit(urljoin(base, url))
        is_http = parts.scheme in _SCHEMES and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_http = False
    if not is_http:
        raise FetchError(f"{what} is not an http or https URL")
    return parts


def _without_user(parts: SplitResult) -> str:
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment=""))
