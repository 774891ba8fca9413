"""Downloads against a server that cuts, lies and stumbles: whole and verified, or an error that says what."""

from __future__ import annotations

import hashlib
import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.web import Reply, Request, Respond, file_reply, in_turn, serve
from trainyard.connection import shown
from trainyard.download import ATTEMPTS, Downloader
from trainyard.errors import FetchError, GoneError, InputError

DATA = bytes(range(256)) * 4000  # 1 MB: more than one chunk
SHA256 = hashlib.sha256(DATA).hexdigest()
good: Respond = partial(file_reply, DATA)


def downloader(environ: dict[str, str] | None = None, **options: Callable[..., object]) -> Downloader:
    return Downloader(environ or {}, backoff=0.001, **options)  # type: ignore[arg-type]


def fetch(
    url: str, target: Path, *, by: Downloader | None = None, sha256: str = SHA256, size: int = len(DATA)
) -> None:
    (by or downloader()).fetch(url, target, sha256=sha256, size=size)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "inputs" / "file"


def part_of(target: Path) -> Path:
    return target.with_name("file.part")


def test_a_file_arrives_whole_read_only_and_without_its_part(target: Path) -> None:
    with serve(good) as server:
        fetch(f"{server.url}/f", target)

    assert target.read_bytes() == DATA
    assert target.stat().st_mode & 0o777 == 0o444
    assert not part_of(target).exists()


def test_a_cut_connection_is_resumed_from_the_byte_that_arrived_last(target: Path) -> None:
    with serve(in_turn(Reply(body=DATA, cut=300_000), good)) as server:
        fetch(f"{server.url}/f", target)

    assert target.read_bytes() == DATA
    assert [request.headers.get("range") for request in server.requests] == [None, "bytes=300000-"]


def test_several_cuts_are_survived(target: Path) -> None:
    def stingy(request: Request) -> Reply:
        whole = file_reply(DATA, request)
        return Reply(status=whole.status, body=whole.body, headers=whole.headers, cut=400_000)

    with serve(stingy) as server:
        fetch(f"{server.url}/f", target)

    assert target.read_bytes() == DATA
    assert len(server.requests) == 3


def test_a_server_without_ranges_is_asked_for_the_whole_file_again(target: Path) -> None:
    with serve(in_turn(Reply(body=DATA, cut=300_000), Reply(body=DATA))) as server:
        fetch(f"{server.url}/f", target)

    assert target.read_bytes() == DATA


def test_a_body_of_unsaid_length_that_stops_early_is_a_cut(target: Path) -> None:
    with serve(in_turn(Reply(body=DATA[:1000], says_length=False), good)) as server:
        fetch(f"{server.url}/f", target)

    assert target.read_bytes() == DATA
    assert server.requests[1].headers["range"] == "bytes=1000-"


def test_another_range_than_the_one_asked_for_is_not_appended(target: Path) -> None:
    wrong = Reply(
        status=206, body=DATA[7:], headers={"Content-Range": f"bytes 7-{len(DATA) - 1}/{len(DATA)}"}
    )
    with serve(in_turn(Reply(body=DATA, cut=300_000), wrong, good)) as server:
        fetch(f"{server.url}/f", target)

    assert target.read_bytes() == DATA


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_server_in_trouble_is_asked_again(target: Path, status: int) -> None:
    with serve(in_turn(Reply(status=status), Reply(status=status), good)) as server:
        fetch(f"{server.url}/f", target)

    assert len(server.requests) == 3


def test_retry_after_in_seconds_is_waited_for(target: Path) -> None:
    with serve(in_turn(Reply(status=503, headers={"Retry-After": "1"}), good)) as server:
        start = time.monotonic()
        fetch(f"{server.url}/f", target)

    assert time.monotonic() - start >= 1


def test_retry_after_as_a_date_counts_from_the_servers_own_clock(target: Path) -> None:
    headers = {"Date": "Tue, 01 Jan 2030 00:00:00 GMT", "Retry-After": "Tue, 01 Jan 2030 00:00:01 GMT"}
    with serve(in_turn(Reply(status=503, headers=headers), good)) as server:
        start = time.monotonic()
        fetch(f"{server.url}/f", target)

    assert 1 <= time.monotonic() - start < 10


@pytest.mark.parametrize("text", ["soon", "-1", ""])
def test_a_senseless_retry_after_is_ignored(target: Path, text: str) -> None:
    with serve(in_turn(Reply(status=503, headers={"Retry-After": text}), good)) as server:
        fetch(f"{server.url}/f", target)

    assert target.exists()


def test_attempts_are_bounded_and_the_part_stays_for_the_next_run(target: Path) -> None:
    with (
        serve(in_turn(Reply(body=DATA, cut=300_000), Reply(status=500))) as server,
        pytest.raises(FetchError, match=f"HTTP 500 .{ATTEMPTS} attempts; 300000 of 1024000 bytes") as caught,
    ):
        fetch(f"{server.url}/f", target)

    assert len(server.requests) == ATTEMPTS
    assert part_of(target).stat().st_size == 300_000
    assert "same command again" in caught.value.hint
    assert not target.exists()


def test_the_next_run_goes_on_from_the_part(target: Path) -> None:
    target.parent.mkdir()
    part_of(target).write_bytes(DATA[:5000])
    with serve(good) as server:
        fetch(f"{server.url}/f", target)

    assert target.read_bytes() == DATA
    assert [request.headers.get("range") for request in server.requests] == ["bytes=5000-"]


@pytest.mark.parametrize("left", [b"\0" * 5000, b"\0" * len(DATA), DATA + b"x"])
def test_a_damaged_part_is_thrown_away_and_the_file_fetched_anew(target: Path, left: bytes) -> None:
    target.parent.mkdir()
    part_of(target).write_bytes(left)
    with serve(good) as server:
        fetch(f"{server.url}/f", target)

    assert target.read_bytes() == DATA


def test_a_part_that_is_already_whole_needs_no_network(target: Path) -> None:
    target.parent.mkdir()
    part_of(target).write_bytes(DATA)

    fetch("http://127.0.0.1:9/f", target)

    assert target.read_bytes() == DATA


def test_wrong_bytes_are_refused_at_once_and_leave_nothing(target: Path) -> None:
    with (
        serve(lambda _request: Reply(body=DATA[:-1] + b"?")) as server,
        pytest.raises(InputError, match=f"it must have 1024000 bytes with {SHA256}"),
    ):
        fetch(f"{server.url}/f", target)

    assert len(server.requests) == 1
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize("body", [DATA + b"more", DATA * 2])
def test_more_bytes_than_the_size_are_refused_and_leave_nothing(target: Path, body: bytes) -> None:
    with (
        serve(lambda _request: Reply(body=body)) as server,
        pytest.raises(InputError, match="larger than the 1024000 bytes"),
    ):
        fetch(f"{server.url}/f", target)

    assert list(target.parent.iterdir()) == []


def test_an_endless_body_is_refused_once_it_is_too_long(target: Path) -> None:
    with (
        serve(lambda _request: Reply(body=DATA + b"x", says_length=False)) as server,
        pytest.raises(InputError, match="larger"),
    ):
        fetch(f"{server.url}/f", target)


def test_a_shorter_file_that_the_server_calls_whole_is_wrong_not_cut(target: Path) -> None:
    with (
        serve(lambda _request: Reply(body=DATA[:-1])) as server,
        pytest.raises(InputError, match="has 1023999 bytes"),
    ):
        fetch(f"{server.url}/f", target)

    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [404, 410])
def test_a_file_that_is_gone_is_its_own_error_and_asked_for_once(target: Path, status: int) -> None:
    with (
        serve(lambda _request: Reply(status=status)) as server,
        pytest.raises(GoneError, match=f"{server.url}/f does not exist there"),
    ):
        fetch(f"{server.url}/f", target)

    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 418])
def test_a_refusal_is_final(target: Path, status: int) -> None:
    with (
        serve(lambda _request: Reply(status=status)) as server,
        pytest.raises(FetchError, match=f"HTTP {status}"),
    ):
        fetch(f"{server.url}/f", target)

    assert len(server.requests) == 1


def test_nobody_listening_is_said_with_host_and_url(target: Path) -> None:
    with serve(good) as server:
        url = f"{server.url}/f"

    with pytest.raises(FetchError, match=rf"could not fetch {url}: 127\.0\.0\.1 refused the connection"):
        fetch(url, target)


def test_an_unknown_name_is_said(target: Path) -> None:
    with pytest.raises(FetchError, match=r"the name nowhere\.invalid .* cannot be resolved"):
        fetch("http://nowhere.invalid/f", target)


def test_read_returns_a_small_document() -> None:
    with serve(in_turn(Reply(status=503), Reply(body=b"text"))) as server:
        assert downloader().read(f"{server.url}/d", limit=4) == b"text"


def test_read_refuses_a_document_above_its_limit() -> None:
    with (
        serve(lambda _request: Reply(body=b"texts")) as server,
        pytest.raises(InputError, match="larger than the 4 bytes"),
    ):
        downloader().read(f"{server.url}/d", limit=4)


def test_read_does_not_join_the_halves_of_two_attempts() -> None:
    with serve(in_turn(Reply(body=b"first", cut=3), Reply(body=b"again"))) as server:
        assert downloader().read(f"{server.url}/d", limit=9) == b"again"


def test_compressed_transfer_is_not_asked_for() -> None:
    with serve(lambda _request: Reply(body=b"x")) as server:
        downloader().read(f"{server.url}/d", limit=4)

    assert server.requests[0].headers["accept-encoding"] == "identity"


def test_every_byte_is_counted(target: Path) -> None:
    seen: list[int] = []
    with serve(in_turn(Reply(body=DATA, cut=300_000), good)) as server:
        fetch(f"{server.url}/f", target, by=downloader(on_bytes=seen.append))

    assert sum(seen) == len(DATA)


def test_a_stop_ends_the_waiting(target: Path) -> None:
    with serve(lambda _request: Reply(status=503, headers={"Retry-After": "50"})) as server:
        asked: list[int] = []

        def stop() -> bool:
            asked.append(1)
            return len(asked) > 2

        start = time.monotonic()
        with pytest.raises(FetchError, match="stopped while fetching"):
            fetch(f"{server.url}/f", target, by=downloader(stop=stop))

    assert time.monotonic() - start < 10


def with_user(url: str) -> str:
    return url.replace("http://", "http://us%40er:s3cret@")


def test_credentials_in_a_url_are_sent_to_its_host() -> None:
    with serve(lambda _request: Reply(body=b"x")) as server:
        downloader().read(with_user(f"{server.url}/d"), limit=9)

    assert server.requests[0].headers["authorization"] == "Basic dXNAZXI6czNjcmV0"


def test_a_redirect_to_another_host_does_not_get_the_credentials() -> None:
    with serve(lambda _request: Reply(body=b"x")) as other:
        elsewhere = Reply(status=302, headers={"Location": f"{other.url}/there"})
        with serve(lambda _request: elsewhere) as server:
            assert downloader().read(with_user(f"{server.url}/d"), limit=9) == b"x"

    assert "authorization" in server.requests[0].headers
    assert "authorization" not in other.requests[0].headers


def test_a_redirect_within_a_host_keeps_the_credentials() -> None:
    with serve(in_turn(Reply(status=307, headers={"Location": "/there"}), Reply(body=b"x"))) as server:
        downloader().read(with_user(f"{server.url}/d"), limit=9)

    assert [request.path for request in server.requests] == ["/d", "/there"]
    assert server.requests[1].headers["authorization"] == server.requests[0].headers["authorization"]


@pytest.mark.parametrize("status", [302, 401, 404, 500])
def test_no_message_shows_credentials_or_a_query(target: Path, status: int) -> None:
    reply = Reply(status=status, headers={"Location": "ftp://us%40er:s3cret@127.0.0.1/"})
    with serve(lambda _request: reply) as server, pytest.raises(FetchError) as caught:
        fetch(with_user(f"{server.url}/f?token=t0ken"), target)

    text = f"{caught.value.message} {caught.value.hint}"
    assert "s3cret" not in text
    assert "t0ken" not in text
    assert f"{server.url}/f" in text


def test_shown_keeps_host_port_and_path_only() -> None:
    assert shown("https://u:p@h.example:8443/a/b?c#d") == "https://h.example:8443/a/b"


def test_redirects_in_a_circle_end() -> None:
    with (
        serve(lambda _request: Reply(status=302, headers={"Location": "/d"})) as server,
        pytest.raises(FetchError, match="redirects more than 5 times"),
    ):
        downloader().read(f"{server.url}/d", limit=9)

    assert len(server.requests) == 6


def test_a_redirect_to_a_local_file_is_not_followed() -> None:
    with (
        serve(lambda _request: Reply(status=302, headers={"Location": "file:///etc/passwd"})) as server,
        pytest.raises(FetchError, match="not an http or https URL"),
    ):
        downloader().read(f"{server.url}/d", limit=9)


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "all_proxy"])
def test_the_proxy_of_the_environment_is_used(name: str) -> None:
    with serve(lambda _request: Reply(body=b"by proxy")) as proxy:
        environ = {name: proxy.url.replace("http://", "http://me:pw@")}
        assert downloader(environ).read("http://nowhere.invalid/d", limit=9) == b"by proxy"

    assert proxy.requests[0].path == "http://nowhere.invalid/d"
    assert proxy.requests[0].headers["proxy-authorization"] == "Basic bWU6cHc="


def test_a_proxy_without_a_scheme_is_an_http_proxy() -> None:
    with serve(lambda _request: Reply(body=b"by proxy")) as proxy:
        environ = {"http_proxy": proxy.url.removeprefix("http://")}
        assert downloader(environ).read("http://nowhere.invalid/d", limit=9) == b"by proxy"


def test_no_proxy_goes_past_the_proxy() -> None:
    with serve(lambda _request: Reply(body=b"direct")) as server:
        environ = {"http_proxy": "http://127.0.0.1:9", "no_proxy": "localhost,127.0.0.1"}
        assert downloader(environ).read(f"{server.url}/d", limit=9) == b"direct"


def test_a_dead_proxy_is_named_as_the_cause() -> None:
    with pytest.raises(FetchError, match="the proxy for") as caught:
        downloader({"http_proxy": "http://me:pw@127.0.0.1:9"}).read("http://nowhere.invalid/d", limit=9)

    assert "pw" not in caught.value.message


def self_signed(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """A server's TLS context for 127.0.0.1, and the file of the certificate that vouches for it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "loopback")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = folder / "cert.pem", folder / "key.pem"
    cert_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert_file, key_file)
    return context, cert_file


def test_a_certificate_of_an_unknown_authority_is_final_and_says_what_to_set(tmp_path: Path) -> None:
    context, _ = self_signed(tmp_path)
    with (
        serve(lambda _request: Reply(body=b"x"), tls=context) as server,
        pytest.raises(FetchError, match="not signed by a known authority") as caught,
    ):
        downloader().read(f"{server.url}/d", limit=9)

    assert "SSL_CERT_FILE" in caught.value.hint
    assert server.requests == []


def test_ssl_cert_file_adds_the_authority(tmp_path: Path) -> None:
    context, certificate = self_signed(tmp_path)
    with serve(lambda _request: Reply(body=b"x"), tls=context) as server:
        by = downloader({"SSL_CERT_FILE": str(certificate)})
        assert by.read(f"{server.url}/d", limit=9) == b"x"


def test_an_ssl_cert_file_that_is_not_there_is_named() -> None:
    with pytest.raises(FetchError, match="SSL_CERT_FILE=/no/such/file"):
        downloader({"SSL_CERT_FILE": "/no/such/file"}).read("http://127.0.0.1:9/d", limit=9)


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/x", "nonsense", "http://", "http://[x/", "http://h:99999/"])
def test_what_is_not_a_url_is_an_expected_error(url: str) -> None:
    with pytest.raises(FetchError):
        downloader().read(url, limit=9)
