"""A package index of wheels on loopback, as JSON with upload times (PEP 691, PEP 700).

with served_index({build_wheel(folder, name="a"): "2026-11-01T00:00:00Z"}) as url:
    ...  # UV_DEFAULT_INDEX=url
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from packaging.utils import parse_wheel_filename

from tests.support.web import Reply, Request, file_reply, serve

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
