"""`web_fetch` against real servers: what it reads, and what hostile ones cannot make it do."""

import gzip
import socket
import ssl
import time
import zlib
from uuid import uuid4

import pytest

from tests.integration.tools_app.web_servers import Authority, answer, redirect, web_server
from tools_app.builtin.web_fetch import WebFetch
from tools_app.remote import transport
from tools_app.remote.fetching import MAX_BYTES
from tools_app.types import ToolContext, ToolError

HTML = {"content_type": "text/html; charset=utf-8"}


@pytest.fixture
def serve(settings):
    """Starts a server that may be reached unless `allowed` says no."""
    open_servers = []

    def start(answers, *, allowed=True, tls=None):
        manager = web_server(answers, tls)
        server = manager.__enter__()
        open_servers.append(manager)
        if allowed:
            settings.KOMAND_FETCH_ALLOW_PRIVATE = [*settings.KOMAND_FETCH_ALLOW_PRIVATE, server.pair]
        return server

    yield start
    for manager in open_servers:
        manager.__exit__(None, None, None)


def fetch(url, *, seconds=10, **arguments):
    context = ToolContext(
        execution_id=uuid4(), run_id=uuid4(), session_id=uuid4(), agent_id="default", actor="user:1",
        effect_key="key", timeout_seconds=seconds,
    )  # fmt: skip
    return WebFetch().run({"url": url, **arguments}, context)


def test_a_page_is_read(serve):
    body = "<title>Shop</title><h1>Öffnungszeiten</h1><p>Mo <a href='/b'>more</a></p>".encode()
    server = serve({"/a": answer(body, **HTML)})
    result = fetch(f"http://{server.pair}/a")
    assert result == {
        "url": f"http://{server.pair}/a", "status": 200, "title": "Shop",
        "text": f"# Öffnungszeiten\n\nMo [more](http://{server.pair}/b)", "truncated": False, "bytes": len(body),
    }  # fmt: skip


def test_a_long_text_is_cut_where_the_call_says(serve):
    server = serve({"/": answer("word " * 1000, content_type="text/plain")})
    result = fetch(f"http://{server.pair}/", max_characters=100)
    assert (len(result["text"]), result["truncated"], result["bytes"]) == (100, True, 5000)


def test_an_error_page_is_an_answer(serve):
    server = serve({"/": answer("gone", status="404 Not Found", content_type="text/plain")})
    result = fetch(f"http://{server.pair}/")
    assert (result["status"], result["text"]) == (404, "gone")


def test_neither_proxy_nor_netrc_of_the_environment_is_used(serve, monkeypatch, tmp_path):
    server = serve({"/": answer("ok", content_type="text/plain")})
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    assert fetch(f"http://{server.pair}/")["text"] == "ok"
    assert "authorization" not in server.requests[0][1]


def test_redirects_are_followed_and_the_last_url_is_told(serve):
    server = serve({"/a": redirect("/b"), "/b": redirect("c", "308 Permanent Redirect"), "/c": answer("here", **HTML)})
    assert fetch(f"http://{server.pair}/a")["url"] == f"http://{server.pair}/c"


def test_a_fourth_redirect_is_not_followed(serve):
    server = serve({"/loop": redirect("/loop")})
    with pytest.raises(ToolError, match="more than 3 times"):
        fetch(f"http://{server.pair}/loop")
    assert len(server.requests) == 4


def test_a_redirect_inside_is_refused_before_a_packet_is_sent(serve):
    inside = serve({"/": answer("secret")}, allowed=False)
    server = serve({"/a": redirect(f"http://{inside.pair}/", "307 Temporary Redirect")})
    with pytest.raises(ToolError, match="not a public address"):
        fetch(f"http://{server.pair}/a")
    assert inside.connections == 0


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "http://[::1]/",
        "//169.254.169.254/",
        "http://u:p@1.1.1.1/",
        "http://[",
    ],
)
def test_a_redirect_to_what_may_not_be_fetched_is_refused(serve, location):
    server = serve({"/": redirect(location)})
    with pytest.raises(ToolError):
        fetch(f"http://{server.pair}/")


def test_a_private_url_is_refused_before_a_packet_is_sent(serve):
    inside = serve({"/": answer("secret")}, allowed=False)
    with pytest.raises(ToolError, match="not a public address"):
        fetch(f"http://{inside.pair}/")
    assert inside.connections == 0


@pytest.fixture
def dns(monkeypatch):
    """Every name leads to loopback; returns what was looked up."""
    asked = []
    real = socket.getaddrinfo

    def getaddrinfo(host, port, *args, **kwargs):
        if host[0].isdigit():
            return real(host, port, *args, **kwargs)
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return asked


def test_a_public_name_that_leads_inside_is_refused_before_a_packet_is_sent(serve, dns, monkeypatch):
    inside = serve({"/": answer("secret")}, allowed=False)
    monkeypatch.setattr("tools_app.remote.netguard._PORTS", {"http": inside.port})
    with pytest.raises(ToolError, match="does not lead to public addresses"):
        fetch(f"http://rebind.example:{inside.port}/")
    assert inside.connections == 0


def test_a_name_is_looked_up_once_and_kept_as_host(serve, dns, settings):
    server = serve({"/": answer("ok", **HTML)})
    settings.KOMAND_FETCH_ALLOW_PRIVATE = [f"wiki.corp:{server.port}"]
    assert fetch(f"http://Wiki.Corp:{server.port}/")["text"] == "ok"
    assert dns == ["wiki.corp"]
    assert server.requests[0][1]["host"] == f"wiki.corp:{server.port}"


@pytest.fixture
def authority(tmp_path, monkeypatch):
    authority = Authority(tmp_path)
    trusting = ssl.create_default_context(cafile=authority.file)
    monkeypatch.setattr(transport, "_ssl_context", lambda: trusting)
    return authority


def test_tls_proves_the_name_although_an_address_is_connected_to(serve, dns, settings, authority):
    server = serve({"/": answer("ok", **HTML)}, tls=authority.server_context("shop.test"))
    settings.KOMAND_FETCH_ALLOW_PRIVATE = [f"shop.test:{server.port}", f"bank.test:{server.port}"]
    assert fetch(f"https://shop.test:{server.port}/")["text"] == "ok"
    with pytest.raises(ToolError, match="certificate"):
        fetch(f"https://bank.test:{server.port}/")


def test_a_redirect_from_https_to_http_is_refused(serve, dns, settings, authority):
    plain = serve({"/": answer("ok", **HTML)})
    server = serve({"/": redirect(f"http://{plain.pair}/")}, tls=authority.server_context("shop.test"))
    settings.KOMAND_FETCH_ALLOW_PRIVATE = [plain.pair, f"shop.test:{server.port}"]
    with pytest.raises(ToolError, match="https to http"):
        fetch(f"https://shop.test:{server.port}/")
    assert plain.connections == 0


def drip(head, pause=0.02):
    def send(connection, path, headers):
        connection.sendall(head)
        while True:
            connection.sendall(b"a")
            time.sleep(pause)

    return send


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 OK\r\nx: ", b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 99999\r\n\r\n"]
)
def test_a_server_that_drips_is_left_in_time(serve, head):
    server = serve({"/": drip(head)})
    started = time.monotonic()
    with pytest.raises(ToolError, match="in time|within"):
        fetch(f"http://{server.pair}/", seconds=1)
    assert time.monotonic() - started < 2


def test_a_server_that_says_nothing_is_left_in_time(serve):
    server = serve({"/": lambda connection, path, headers: time.sleep(3)})
    with pytest.raises(ToolError, match="in time|within"):
        fetch(f"http://{server.pair}/", seconds=1)


def test_of_a_huge_body_the_beginning_is_taken(serve):
    server = serve({"/": answer(b"a" * (MAX_BYTES + 3_000_000), content_type="text/plain")})
    result = fetch(f"http://{server.pair}/")
    assert (result["truncated"], result["bytes"]) == (True, MAX_BYTES)


@pytest.mark.parametrize("layers", [1, 2])
def test_a_compression_bomb_is_cut_not_unpacked(serve, layers):
    body, encoding = b"a" * 300_000_000, ", ".join(["gzip"] * layers)
    for _ in range(layers):
        body = gzip.compress(body, 1)
    server = serve({"/": answer(body, content_type="text/plain", content_encoding=encoding)})
    started = time.monotonic()
    result = fetch(f"http://{server.pair}/")
    assert (result["truncated"], result["bytes"]) == (True, MAX_BYTES)
    assert time.monotonic() - started < 2


def test_a_body_that_unpacks_to_nothing_for_ever_is_left(serve):
    nothing = zlib.compress(b"") + b"x" * (MAX_BYTES + 2_000_000)
    server = serve({"/": answer(nothing, content_type="text/plain", content_encoding="deflate")})
    with pytest.raises(ToolError, match="more than can be taken"):
        fetch(f"http://{server.pair}/")


@pytest.mark.parametrize(
    ("charset", "body", "text"),
    [
        ("utf-8", "café".encode("latin-1"), "café"),
        ("iso-8859-1", "„café“".encode("cp1252"), "„café“"),
        ("no-such", "café".encode(), "café"),
        ("punycode", "café".encode(), "café"),
    ],
)
def test_a_wrong_charset_does_not_spoil_the_text(serve, charset, body, text):
    server = serve({"/": answer(body, content_type=f"text/plain; charset={charset}")})
    assert fetch(f"http://{server.pair}/")["text"] == text


@pytest.mark.parametrize(
    ("headers", "body", "reason"),
    [
        ({"content_type": "image/png"}, b"\x89PNG", "leads to image/png, not to text"),
        ({"content_type": "text/html", "content_encoding": "br"}, b"xx", "compressed in a way"),
        ({"content_type": "text/html", "content_encoding": "gzip"}, b"not gzip", "cannot be read"),
        ({"content_type": "text/html", "x": "y" * 200_000}, b"", "cannot be read"),
        ({"content_type": "text/html", "content_length": "99"}, b"short", "cannot be read"),
    ],
)
def test_an_answer_that_is_no_text_is_refused_with_the_reason(serve, headers, body, reason):
    server = serve({"/": answer(body, **headers)})
    with pytest.raises(ToolError, match=reason):
        fetch(f"http://{server.pair}/")


@pytest.mark.parametrize(
    "act", [lambda connection, path, headers: None, lambda connection, path, headers: connection.send(b"SSH-2.0\r\n")]
)
def test_a_server_that_does_not_speak_http_is_a_readable_error(serve, act):
    server = serve({"/": act})
    with pytest.raises(ToolError, match="cannot be"):
        fetch(f"http://{server.pair}/")


def test_a_closed_port_is_a_readable_error(serve, settings):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    settings.KOMAND_FETCH_ALLOW_PRIVATE = [f"127.0.0.1:{port}"]
    with pytest.raises(ToolError, match="cannot be reached"):
        fetch(f"http://127.0.0.1:{port}/")
