"""Which mirror is asked, in which order, and what happens when a package has left it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.support.web import Reply, Request, folder, serve
from trainyard.debian.mirror import fetch_deb, mirror_parent, mirror_url, read_apt_sources, snapshot_urls
from trainyard.download import Downloader
from trainyard.errors import FetchError, LockError, VanishedError
from trainyard.lock.model import LockedDeb

DATA = b"the package"
DEB = LockedDeb(
    name="tini",
    version="0.19.0-3+b3",
    sha256=hashlib.sha256(DATA).hexdigest(),
    size=len(DATA),
    path="debian/pool/main/t/tini/tini_0.19.0-3+b3_amd64.deb",
)
TIME = "2026-11-29T00:53:14Z"
SOURCES = """\
# a comment
Types: deb
URIs: http://mirror.example/pub/debian
Suites: trixie
 trixie-updates
Components: main

Types: deb deb-src
URIs: http://mirror.example/pub/debian-security/
Suites: trixie-security
"""


def of_host(**texts: str) -> str:
    sources = {name.replace("_", "."): text for name, text in texts.items()}
    return mirror_parent(matrix=None, setting=None, apt_sources=sources)


def test_matrix_comes_before_the_setting_and_the_setting_before_the_host() -> None:
    host = {"a.sources": SOURCES}

    assert mirror_parent(matrix="http://m/", setting="http://s/", apt_sources=host) == "http://m/"
    assert mirror_parent(matrix=None, setting="http://s/", apt_sources=host) == "http://s/"
    assert mirror_parent(matrix=None, setting=None, apt_sources=host) == "http://mirror.example/pub/"


@pytest.mark.parametrize("url", ["http://m/x", "http://m/x/", "http://m/x/debian", "http://m/x/debian/"])
def test_the_parent_and_the_mirror_itself_are_both_understood(url: str) -> None:
    assert mirror_parent(matrix=url, setting=None, apt_sources={}) == "http://m/x/"


@pytest.mark.parametrize("url", ["file:///srv/debian", "mirror.example", "ftp://m/debian"])
def test_a_mirror_that_is_not_http_is_refused_with_its_origin(url: str) -> None:
    with pytest.raises(LockError, match="TRAINYARD_DEBIAN_MIRROR: the Debian mirror"):
        mirror_parent(matrix=None, setting=url, apt_sources={})


def test_deb822_sources_are_read() -> None:
    assert of_host(debian_sources=SOURCES) == "http://mirror.example/pub/"


@pytest.mark.parametrize(
    "line",
    [
        "deb http://mirror.example/debian trixie main",
        "deb [arch=amd64 signed-by=/usr/share/keyrings/x.gpg] http://mirror.example/debian/ trixie main",
        "  deb\thttp://mirror.example/debian trixie main",
    ],
)
def test_one_line_lists_are_read(line: str) -> None:
    assert (
        of_host(sources_list=f"# deb http://old.example/debian sid main\n{line}\n")
        == "http://mirror.example/"
    )


def test_a_mirror_that_has_security_beside_it_is_preferred() -> None:
    lists = (
        "deb http://fast.example/debian trixie main\n"
        "deb http://whole.example/debian trixie main\n"
        "deb http://whole.example/debian-security trixie-security main\n"
    )

    assert of_host(sources_list=lists) == "http://whole.example/"


def test_a_mirror_alone_is_better_than_nothing() -> None:
    lists = (
        "deb http://fast.example/debian trixie main\n"
        "deb http://sec.example/debian-security trixie-security main\n"
    )

    assert of_host(sources_list=lists) == "http://fast.example/"


@pytest.mark.parametrize(
    "text",
    [
        SOURCES.replace("Suites:", "Enabled: no\nSuites:"),
        SOURCES.replace("Types: deb\n", "Types: deb-src\n").replace("Types: deb deb-src", "Types: deb-src"),
        SOURCES.replace("http://", "mirror+file:/"),
        SOURCES.replace("/debian", "/ubuntu"),
        "",
    ],
)
def test_sources_that_are_off_or_not_debian_name_no_mirror(text: str) -> None:
    with pytest.raises(LockError, match="no Debian mirror is known") as caught:
        of_host(a_sources=text)

    assert "TRAINYARD_DEBIAN_MIRROR=URL" in caught.value.hint


def test_the_answer_does_not_depend_on_the_order_of_the_files() -> None:
    one, two = SOURCES, SOURCES.replace("mirror.example", "other.example")

    assert (
        of_host(b_sources=one, a_sources=two)
        == of_host(a_sources=two, b_sources=one)
        == "http://other.example/pub/"
    )


def test_apts_folder_is_read_as_apt_reads_it(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    for name in (
        "sources.list",
        "sources.list.d/a.sources",
        "sources.list.d/b.list",
        "sources.list.d/c.list.off",
    ):
        (tmp_path / name).write_text(name)

    found = read_apt_sources(tmp_path)

    assert sorted(found.values()) == ["sources.list", "sources.list.d/a.sources", "sources.list.d/b.list"]
    assert all(Path(name).name == Path(text).name for name, text in found.items())


def test_a_host_without_apt_has_no_sources(tmp_path: Path) -> None:
    assert read_apt_sources(tmp_path / "nowhere") == {}


def test_a_mirror_url_is_parent_and_path() -> None:
    assert mirror_url("http://m/x/", DEB) == f"http://m/x/{DEB.path}"


def test_the_snapshot_is_asked_at_the_locks_instant_and_a_day_later() -> None:
    """The import that holds a Release comes some hours after the Release's own date."""
    assert snapshot_urls("https://s.example/archive/", DEB, time=TIME) == (
        "https://s.example/archive/debian/20261129T005314Z/pool/main/t/tini/tini_0.19.0-3+b3_amd64.deb",
        "https://s.example/archive/debian/20261130T005314Z/pool/main/t/tini/tini_0.19.0-3+b3_amd64.deb",
    )


def put(root: Path, path: str, data: bytes = DATA) -> None:
    target = root / path
    target.parent.mkdir(parents=True)
    target.write_bytes(data)


def fetch(url: str, target: Path) -> None:
    downloader = Downloader({}, backoff=0.001)
    fetch_deb(downloader, DEB, target, mirror=f"{url}/", snapshot=f"{url}/archive", time=TIME)


def test_a_package_that_the_mirror_has_comes_from_there(tmp_path: Path) -> None:
    put(tmp_path / "www", DEB.path)
    with serve(folder(tmp_path / "www")) as server:
        fetch(server.url, tmp_path / "deb")

    assert (tmp_path / "deb").read_bytes() == DATA
    assert [request.path for request in server.requests] == [f"/{DEB.path}"]


@pytest.mark.parametrize("stamp", ["20261129T005314Z", "20261130T005314Z"])
def test_a_package_that_left_the_mirror_comes_from_the_snapshot(tmp_path: Path, stamp: str) -> None:
    put(tmp_path / "www", f"archive/debian/{stamp}/{DEB.path.removeprefix('debian/')}")
    with serve(folder(tmp_path / "www")) as server:
        fetch(server.url, tmp_path / "deb")

    assert (tmp_path / "deb").read_bytes() == DATA


def test_a_package_that_nobody_has_is_named_as_vanished(tmp_path: Path) -> None:
    with (
        serve(folder(tmp_path)) as server,
        pytest.raises(VanishedError, match=r"tini 0\.19\.0-3\+b3 is no longer on the mirror") as caught,
    ):
        fetch(server.url, tmp_path / "deb")

    assert len(server.requests) == 3
    assert "invoke lock" in caught.value.hint


def test_a_mirror_in_trouble_is_no_vanished_package(tmp_path: Path) -> None:
    def respond(request: Request) -> Reply:
        return Reply(status=500 if request.path.startswith("/debian") else 404)

    with serve(respond) as server, pytest.raises(FetchError, match="HTTP 500"):
        fetch(server.url, tmp_path / "deb")


def test_a_package_off_the_mirror_is_vanished_also_where_the_snapshot_cannot_be_reached(
    tmp_path: Path,
) -> None:
    """A farm without the internet must be told to lock anew, not to look at its network."""

    def respond(request: Request) -> Reply:
        return Reply(status=404 if request.path.startswith("/debian") else 500)

    with serve(respond) as server, pytest.raises(VanishedError, match=r"cannot be asked: .*500"):
        fetch(server.url, tmp_path / "deb")
