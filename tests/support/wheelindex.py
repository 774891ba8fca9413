"""Package indexes of wheels on loopback, as JSON with upload times (PEP 691, PEP 700) or as bare pages (PEP 503).

with served_index({build_wheel(folder, name="a"): "2026-11-01T00:00:00Z"}) as url:
    ...  # UV_DEFAULT_INDEX=url
with served_pages([build_wheel(folder, name="torch")], hashes=False) as server:
    ...  # TRAINYARD_INDEX_CU134=f"{server.url}/whl"
"""

from __future__ import annotations

import base64
import hashlib
import json
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, unquote

from packaging.utils import parse_wheel_filename

from tests.support.web import Reply, Request, Server, file_reply, serve

_JSON = "application/vnd.pypi.simple.v1+json"


@contextmanager
def served_index(wheels: Mapping[Path, str]) -> Iterator[str]:
    """Serve these wheels, each with its upload time; later additions to the mapping are seen too."""

    def respond(request: Request) -> Reply:
        _, kind, name, *_ = [*request.path.split("/"), "", ""]
        if kind == "simple":
            found = {path: at for path, at in wheels.items() if _project(path) == name}
            return _listing(name, found) if found else Reply(status=404)
        for path in wheels:
            if name == path.name:
                return file_reply(path.read_bytes(), request)
            if name == f"{path.name}.metadata":
                return Reply(body=_metadata(path))
        return Reply(status=404)

    with serve(respond) as server:
        yield f"{server.url}/simple"


def _project(path: Path) -> str:
    return str(parse_wheel_filename(path.name)[0])


def _listing(name: str, wheels: Mapping[Path, str]) -> Reply:
    files = [
        {
            "filename": path.name,
            "url": f"/files/{path.name}",
            "hashes": {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()},
            "size": path.stat().st_size,
            "upload-time": at,
            "core-metadata": {"sha256": hashlib.sha256(_metadata(path)).hexdigest()},
        }
        for path, at in wheels.items()
    ]
    versions = sorted({str(parse_wheel_filename(path.name)[1]) for path in wheels})
    document = {"meta": {"api-version": "1.1"}, "name": name, "files": files, "versions": versions}
    return Reply(body=json.dumps(document).encode(), headers={"Content-Type": _JSON})


def _metadata(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return archive.read(name)


@contextmanager
def served_pages(
    wheels: Collection[Path],
    *,
    hashes: bool = True,
    wrong: Mapping[str, str] | None = None,
    yanked: Collection[str] = (),
    login: str = "",
) -> Iterator[Server]:
    """Serve these wheels as an index that says no upload time, at `<url>/whl`.

    `wrong` are hashes to claim, `yanked` files to withdraw (PEP 592), both by file name; `login` is a `user:password`
    that every request needs. Later additions to a mutable `wheels` are seen too.
    """
    wanted = f"Basic {base64.b64encode(login.encode()).decode()}"

    def respond(request: Request) -> Reply:
        if login and request.headers.get("authorization") != wanted:
            return Reply(status=401, headers={"WWW-Authenticate": 'Basic realm="wheels"'})
        kind, _, name = unquote(request.path).strip("/").partition("/")
        if kind == "whl":
            found = [path for path in wheels if _project(path) == name]
            return _page(found, hashes, wrong or {}, yanked) if found else Reply(status=404)
        for path in wheels:
            if (kind, name) == ("files", path.name):
                return file_reply(path.read_bytes(), request)
        return Reply(status=404)

    with serve(respond) as server:
        yield server


def _page(wheels: Collection[Path], hashes: bool, wrong: Mapping[str, str], yanked: Collection[str]) -> Reply:
    links = []
    for path in wheels:
        sha256 = wrong.get(path.name) or hashlib.sha256(path.read_bytes()).hexdigest()
        fragment = f"#sha256={sha256}" if hashes else ""
        withdrawn = ' data-yanked="broken"' if path.name in yanked else ""
        links.append(f'<a href="/files/{quote(path.name)}{fragment}"{withdrawn}>{path.name}</a><br>')
    body = f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>"
    return Reply(body=body.encode(), headers={"Content-Type": "text/html"})
