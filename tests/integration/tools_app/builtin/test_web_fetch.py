"""`web_fetch` on real servers: results, and resistance to hostile ones."""

import gzip
import socket
import ssl
import threading
import time
import zlib
from uuid import uuid4

import httpcore2
import pytest
import redis

from tests.integration.tools_app.web_servers import Authority, answer, redirect, web_server
from tools_app.builtin.web_fetch import WebFetch
from tools_app.network import transport
from tools_app.network.fetch import MAX_BYTES
from tools_app.types import ToolContext, ToolError

pytestmark = pytest.mark.one_database

HTML = {"content_type": "text/html; charset=utf-8"}


@pytest.fixture
def serve(settings):
    """Start a server that may be reached unless `allowed` is false."""
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


@pytest.fixture(autouse=True)
def _nothing_is_kept(settings):
    settings.KOMAND_FETCH_CACHE_SECONDS = 0


def fetch(url, *, seconds=10, agent_id="default", **arguments):
    context = ToolContext(
        execution_id=uuid4(),
        run_id=uuid4(),
        session_id=uuid4(),
        agent_id=agent_id,
        actor="user:1",
        effect_key="key",
        timeout_seconds=seconds,
    )
    return WebFetch().run({"url": url, **arguments}, context)


def test_a_page_is_read(serve):
    body = "<title>Shop</title><h1>Öffnungszeiten</h1><p>Mo <a href='/b'>more</a></p>".encode()
    server = serve({"/a": answer(body, **HTML)})
    result = fetch(f"http://{server.pair}/a")
    text = f"# Öffnungszeiten\n\nMo [more](http://{server.pair}/b)"
    assert result == {
        "url": f"http://{server.pair}/a",
        "status": 200,
        "title": "Shop",
        "text": text,
        "offset": 0,
        "next_offset": None,
        "characters": len(text),
        "truncated": False,
        "bytes": len(body),
        "sources": [{"uri": f"http://{server.pair}/a", "title": "Shop", "quote": text, "offset": 0}],
    }


def test_a_long_text_is_truncated_at_the_requested_length(serve):
    server = serve({"/": answer("word " * 1000, content_type="text/plain")})
    result = fetch(f"http://{server.pair}/", max_characters=100)
    assert (len(result["text"]), result["truncated"], result["bytes"]) == (100, True, 5000)
    assert result["next_offset"] == 100


def test_a_long_text_is_read_on_where_it_was_cut(serve):
    text = " ".join(map(str, range(400)))
    server = serve({"/": answer(text, content_type="text/plain")})
    pieces, offset = [], 0
    while offset is not None:
        result = fetch(f"http://{server.pair}/", max_characters=500, offset=offset)
        assert result["sources"][0]["offset"] == offset
        pieces.append(result["text"])
        offset = result["next_offset"]
    assert ("".join(pieces), result["characters"], result["truncated"]) == (text, len(text), False)
    assert fetch(f"http://{server.pair}/", offset=10**6)["text"] == ""


def test_links_are_listed_on_request(serve):
    body = "<p><a href='/b'>More <b>here</b></a> <a href='/b'>again</a> <a href='javascript:x()'>no</a></p>"
    server = serve({"/": answer(body, **HTML)})
    assert "links" not in fetch(f"http://{server.pair}/")
    links = fetch(f"http://{server.pair}/", links=True)["links"]
    assert links == [{"text": "More here", "url": f"http://{server.pair}/b"}]


def test_it_identifies_itself_and_sends_nothing_private(serve):
    server = serve({"/": answer("ok", content_type="text/plain")})
    fetch(f"http://{server.pair}/")
    _, headers = server.requests[0]
    assert "Komand" in headers["user-agent"]
    assert set(headers) <= {"host", "user-agent", "accept", "accept-encoding", "connection"}


def test_a_page_is_kept_a_moment_for_the_same_agent_alone(serve, settings, valkey):
    settings.KOMAND_FETCH_CACHE_SECONDS = 60
    server = serve({"/": answer("<title>T</title><a href='/b'>x</a>", **HTML)})
    url = f"http://{server.pair}/"
    first = fetch(url, links=True)
    assert fetch(url, links=True) == first and len(server.requests) == 1
    fetch(url, agent_id="other")
    assert len(server.requests) == 2
    assert all(0 < valkey.ttl(key) <= 60 for key in valkey.keys("*fetched:*"))


def test_the_cache_has_a_bound_and_mixes_nothing_up(serve, settings, valkey):
    settings.KOMAND_FETCH_CACHE_SECONDS = 60
    pages = {f"/{number}": answer(f"page {number}", content_type="text/plain") for number in range(40)}
    server = serve(pages)
    for _ in range(2):
        assert [fetch(f"http://{server.pair}{path}")["text"] for path in pages] == [f"page {n}" for n in range(40)]
    assert len(valkey.keys("*fetched:*")) <= 32


def test_an_error_page_is_not_kept_and_a_cache_that_is_away_is_none(serve, settings, monkeypatch, valkey):
    settings.KOMAND_FETCH_CACHE_SECONDS = 60
    server = serve({"/": answer("gone", status="404 Not Found", content_type="text/plain")})
    fetch(f"http://{server.pair}/")
    assert valkey.keys("*fetched:*") == []
    monkeypatch.setattr(
        "tools_app.network.page_cache.valkey.sync_client", lambda: redis.Redis(unix_socket_path="/nowhere")
    )
    assert fetch(f"http://{server.pair}/")["status"] == 404


def test_what_was_kept_is_no_way_around_the_guard(serve, settings, valkey):
    settings.KOMAND_FETCH_CACHE_SECONDS = 60
    server = serve({"/": answer("secret", content_type="text/plain")})
    fetch(f"http://{server.pair}/")
    settings.KOMAND_FETCH_ALLOW_PRIVATE = []
    with pytest.raises(ToolError, match="not a public address"):
        fetch(f"http://{server.pair}/")


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


def test_redirects_are_followed_and_the_last_url_is_returned(serve):
    server = serve({"/a": redirect("/b"), "/b": redirect("c", "308 Permanent Redirect"), "/c": answer("here", **HTML)})
    assert fetch(f"http://{server.pair}/a")["url"] == f"http://{server.pair}/c"


def test_a_redirect_to_another_host_is_returned_and_not_followed(serve, dns, settings):
    other = serve({"/": answer("there", **HTML)})
    server = serve({"/a": redirect(f"http://other.test:{other.port}/"), "/w": redirect("http://www.here.test/")})
    pairs = [f"{host}:{port}" for host in ("here.test", "other.test") for port in (server.port, other.port)]
    settings.KOMAND_FETCH_ALLOW_PRIVATE = pairs
    url = f"http://here.test:{server.port}/a"
    assert fetch(url) == {"url": url, "status": 302, "redirect": f"http://other.test:{other.port}/"}
    assert other.connections == 0


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
    """Resolve every name to loopback; return the names that were resolved."""
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
    monkeypatch.setattr("tools_app.network.ssrf_guard._PORTS", {"http": inside.port})
    with pytest.raises(ToolError, match="does not resolve to public addresses"):
        fetch(f"http://rebind.example:{inside.port}/")
    assert inside.connections == 0


def test_a_name_that_changes_its_address_after_the_check_changes_nothing(serve, settings, monkeypatch):
    """DNS rebinding: the first address is public, the others are not."""
    inside = serve({"/": answer("secret")}, allowed=False)
    answers = iter([["8.8.8.8"], ["127.0.0.1"], ["127.0.0.1"]])
    connected = []

    def getaddrinfo(host, port, *args, **kwargs):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in next(answers)]

    def connect(self, address, port, timeout=None, **kwargs):
        connected.append(address)
        raise httpcore2.ConnectError("not in a test")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(httpcore2.SyncBackend, "connect_tcp", connect)
    with pytest.raises(ToolError, match="cannot be reached"):
        fetch("http://rebind.example/")
    with pytest.raises(ToolError, match="does not resolve to public addresses"):
        fetch("http://rebind.example/")
    assert (connected, inside.connections) == (["8.8.8.8"], 0)


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
    monkeypatch.setattr(transport, "ssl_context", lambda: trusting)
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
            time.sleep(pause)  # a server that is slow for ever

    return send


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 OK\r\nx: ", b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 99999\r\n\r\n"]
)
def test_a_server_that_drips_is_left_in_time(serve, head):
    server = serve({"/": drip(head)})
    started = time.monotonic()
    with pytest.raises(ToolError, match="in time|within"):
        fetch(f"http://{server.pair}/", seconds=1)
    assert time.monotonic() - started < 60  # it would drip for ever


def test_a_silent_server_is_given_up_in_time(serve):
    given_up = threading.Event()
    server = serve({"/": lambda connection, path, headers: given_up.wait(60)})
    try:
        with pytest.raises(ToolError, match="in time|within"):
            fetch(f"http://{server.pair}/", seconds=1)
    finally:
        given_up.set()


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
    started = time.thread_time()
    result = fetch(f"http://{server.pair}/")
    assert (result["truncated"], result["bytes"]) == (True, MAX_BYTES)
    assert time.thread_time() - started < 2


def test_a_body_that_unpacks_to_nothing_for_ever_is_left(serve):
    nothing = zlib.compress(b"") + b"x" * (MAX_BYTES + 2_000_000)
    server = serve({"/": answer(nothing, content_type="text/plain", content_encoding="deflate")})
    with pytest.raises(ToolError, match="more data than is allowed"):
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
        ({"content_type": "image/png"}, b"\x89PNG", "refers to image/png, not to text"),
        ({"content_type": "text/html", "content_encoding": "br"}, b"xx", "compressed in an unsupported way"),
        ({"content_type": "text/html", "content_encoding": "gzip"}, b"not gzip", "is malformed"),
        ({"content_type": "text/html", "x": "y" * 200_000}, b"", "is malformed"),
        ({"content_type": "text/html", "content_length": "99"}, b"short", "is malformed"),
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
    with pytest.raises(ToolError, match="is malformed|cannot be"):
        fetch(f"http://{server.pair}/")


def test_a_closed_port_is_a_readable_error(serve, settings):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    settings.KOMAND_FETCH_ALLOW_PRIVATE = [f"127.0.0.1:{port}"]
    with pytest.raises(ToolError, match="cannot be reached"):
        fetch(f"http://127.0.0.1:{port}/")
