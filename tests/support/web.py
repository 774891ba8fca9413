"""A loopback HTTP server that answers as a test says, well or badly, and remembers what it was asked."""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a client asked for: the request target as sent, and the headers under lower-case names."""

    path: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer; `cut` closes the connection after that many bytes, `says_length` sends Content-Length."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None
    says_length: bool = True


Respond = Callable[[Request], Reply]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server: its URL without a trailing slash, and all requests so far."""

    url: str
    requests: list[Request]


@contextmanager
def serve(respond: Respond, *, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Serve on a free loopback port until the block ends."""
    requests: list[Request] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(path=self.path, headers=headers)
            requests.append(request)
            reply = respond(request)
            self.send_response_only(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if reply.says_length:
                self.send_header("Content-Length", str(len(reply.body)))
            if reply.cut is not None or not reply.says_length:
                self.send_header("Connection", "close")
                self.close_connection = True
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(reply.body[: reply.cut])

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """A client that hangs up is part of the tests."""

    httpd = Quiet(("127.0.0.1", 0), Handler)
    if tls is not None:
        httpd.socket = tls.wrap_socket(httpd.socket, server_side=True)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        scheme = "http" if tls is None else "https"
        yield Server(url=f"{scheme}://127.0.0.1:{httpd.server_port}", requests=requests)
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


def file_reply(data: bytes, request: Request) -> Reply:
    """What a good server says of a file: 200, or 206 for `Range: bytes=N-`."""
    match = re.fullmatch(r"bytes=(\d+)-", request.headers.get("range", ""))
    if match is None:
        return Reply(body=data)
    start = int(match[1])
    if start >= len(data):
        return Reply(status=416)
    content_range = f"bytes {start}-{len(data) - 1}/{len(data)}"
    return Reply(status=206, body=data[start:], headers={"Content-Range": content_range})


def folder(root: Path) -> Respond:
    """Serves the files below `root`; 404 for everything else."""

    def respond(request: Request) -> Reply:
        path = root / unquote(request.path).lstrip("/")
        return file_reply(path.read_bytes(), request) if path.is_file() else Reply(status=404)

    return respond


def in_turn(*replies: Reply | Respond) -> Respond:
    """Those answers one after the other, the last of them for ever."""
    left = list(replies)

    def respond(request: Request) -> Reply:
        reply = left.pop(0) if len(left) > 1 else left[0]
        return reply if isinstance(reply, Reply) else reply(request)

    return respond
