"""Whom a download is: a password goes to the server that it is for, and to no other."""

from __future__ import annotations

import base64
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.web import Reply, serve
from trainyard.download import Downloader
from trainyard.logins import Logins


def netrc(folder: Path, text: str) -> dict[str, str]:
    path = folder / "my-netrc"
    path.write_text(text)
    return {"NETRC": str(path)}


def at(logins: Logins, url: str) -> str | None:
    return logins.at(urlsplit(url))


def test_a_machine_of_netrc_is_known_by_its_name(tmp_path: Path) -> None:
    logins = Logins(netrc(tmp_path, "machine a.example.com login me password hunter2\n"))

    assert at(logins, "https://a.example.com/x") == "me:hunter2"
    assert at(logins, "https://b.example.com/x") is None


def test_without_netrc_the_one_in_the_home_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text("machine a.example.com login me password hunter2\n")

    assert at(Logins({"HOME": str(tmp_path)}), "https://a.example.com/") == "me:hunter2"


def test_the_default_entry_of_netrc_is_sent_to_nobody(tmp_path: Path) -> None:
    assert (
        at(Logins(netrc(tmp_path, "default login me password hunter2\n")), "https://a.example.com/") is None
    )


@pytest.mark.parametrize("text", ["machine", "nonsense here\n", "\xff\x00"])
def test_a_netrc_that_is_none_is_as_good_as_no_netrc(tmp_path: Path, text: str) -> None:
    assert at(Logins(netrc(tmp_path, text)), "https://a.example.com/") is None


def test_the_login_of_a_url_is_for_its_scheme_host_and_port_only() -> None:
    logins = Logins({}, ["https://me:s%40y@a.example.com:8443/simple"])

    assert at(logins, "https://a.example.com:8443/files/x.whl") == "me:s@y"
    assert at(logins, "http://a.example.com:8443/") is None
    assert at(logins, "https://a.example.com/") is None


def test_a_download_is_whom_netrc_says(tmp_path: Path) -> None:
    with serve(lambda _request: Reply(body=b"x")) as server:
        environ = netrc(tmp_path, "machine 127.0.0.1 login me password hunter2\n")
        Downloader(environ).read(f"{server.url}/x", limit=10)

    assert server.requests[0].headers["authorization"] == f"Basic {base64.b64encode(b'me:hunter2').decode()}"


def test_a_download_is_whom_the_url_of_its_index_says() -> None:
    with serve(lambda _request: Reply(body=b"x")) as server:
        index = server.url.replace("//", "//me:hunter2@")
        Downloader({}, logins=[f"{index}/simple"]).read(f"{server.url}/files/x", limit=10)

    assert server.requests[0].headers["authorization"] == f"Basic {base64.b64encode(b'me:hunter2').decode()}"
