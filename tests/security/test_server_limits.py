"""Clients that hold connections without sending, WebSockets of unknown paths, cookies of an installation with TLS."""

import json
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from channels.testing import WebsocketCommunicator

from komand import asgi
from tests.support.live_server import ROOT, LiveKomand, clean_environment
from tests.support.web_server import UPGRADE, Serving, request, start

pytestmark = pytest.mark.one_database

HEAD = b"GET /ping HTTP/1.1\r\nHost: x\r\n"
BODY = b"POST /ping HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with start(tmp_path_factory.mktemp("web"), KOMAND_HEADER_SECONDS="1", KOMAND_BODY_SECONDS="1") as serving:
        yield serving


def wait_until_cut(client: socket.socket, drip: bytes) -> bytes:
    """Send the bytes again and again, ten times a second, until the server closes. Return what it sent."""
    received = b""
    while True:
        readable, _, _ = select.select([client], [], [], 0.1)
        try:
            if readable:
                piece = client.recv(4096)
                if not piece:
                    return received
                received += piece
            client.sendall(drip)
        except ConnectionError:
            return received


@pytest.mark.parametrize(
    ("begun", "drip"),
    [(b"", b""), (b"G", b""), (HEAD, b""), (HEAD, b"X-A: b\r\n"), (BODY, b""), (BODY, b"x")],
    ids=["nothing", "a byte", "half the headers", "slow headers", "no body", "a slow body"],
)
def test_a_request_must_arrive_in_time(serving: Serving, begun: bytes, drip: bytes) -> None:
    with serving.connect() as client:
        client.sendall(begun)
        assert wait_until_cut(client, drip) == b""


def test_the_second_request_of_a_connection_must_arrive_in_time(serving: Serving) -> None:
    with serving.connect() as client:
        client.sendall(request("/ping") + HEAD)
        assert wait_until_cut(client, b"X-A: b\r\n").startswith(b"HTTP/1.1 200")


def test_the_limits_are_for_requests_alone(serving: Serving) -> None:
    """Keep connections open that wait for a request, for an answer, or are WebSockets, while another one is cut off."""
    with ExitStack() as stack:
        idle, waiting, live, slow = (stack.enter_context(serving.connect()) for _ in range(4))
        for client, sent in (
            (idle, request("/ping")),
            (waiting, request("/late")),
            (live, request("/quiet", *UPGRADE)),
        ):
            client.sendall(sent)
        assert live.recv(4096).endswith(b"\r\n\r\n")
        slow.sendall(HEAD)
        wait_until_cut(slow, b"")
        for _ in range(2):
            answer = b""
            while not answer.endswith(b"0\r\n\r\n"):
                piece = idle.recv(1 << 20)
                assert piece
                answer += piece
            idle.sendall(request("/ping"))
        assert not select.select([waiting, live], [], [], 0)[0]  # not closed


def test_many_half_open_connections_do_no_harm(serving: Serving) -> None:
    with ExitStack() as stack:
        held = [stack.enter_context(serving.connect()) for _ in range(150)]
        for client in held:
            client.sendall(HEAD)
        with serving.connect() as client:
            client.sendall(request("/ping", "Connection: close"))
            assert client.makefile("rb").read().startswith(b"HTTP/1.1 200")
        for client in held:
            assert wait_until_cut(client, b"") == b""


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("valkey")
async def test_a_websocket_of_an_unknown_path_is_closed() -> None:
    caller = WebsocketCommunicator(asgi.application, "/no/such/path", headers=[(b"host", b"localhost")])
    assert await caller.connect(timeout=60) == (True, None)
    assert await caller.receive_output(timeout=60) == {"type": "websocket.close", "code": asgi.NO_SUCH_PATH}
    await caller.wait()


def test_a_running_installation_closes_it_without_an_error(live_komand: LiveKomand) -> None:
    place = urlsplit(live_komand.url)
    for path in ("/no/such/path", "/ws/chat", "/hubs/chat/x", "/mcp"):
        with socket.create_connection((place.hostname, place.port), timeout=30) as client:
            client.sendall(request(path, *UPGRADE))
            with client.makefile("rb") as stream:
                assert stream.readline().startswith(b"HTTP/1.1 101")
                while stream.readline() != b"\r\n":
                    pass
                assert stream.read(4) == b"\x88\x02" + asgi.NO_SUCH_PATH.to_bytes(2)
    log = live_komand.log.read_text()
    assert "No route found" not in log and "Traceback" not in log


@pytest.mark.parametrize(
    ("url", "prefix", "secure"),
    [("https://komand.example.com", "__Host-", True), ("http://komand.example.com", "", False), ("", "", False)],
)
def test_cookies_of_an_installation_with_tls_are_bound_to_its_host(
    tmp_path: Path, url: str, prefix: str, secure: bool
) -> None:
    """Browsers refuse a `__Host-` cookie that is not Secure, has a Domain, or a path other than `/`."""
    code = (
        "from komand.settings import web as w; from django.conf import global_settings as g; import json;"
        "n = [f'{k}_COOKIE_{x}' for k in ('SESSION', 'CSRF') for x in ('NAME', 'SECURE', 'DOMAIN', 'PATH')];"
        "print(json.dumps([getattr(w, x, getattr(g, x)) for x in n]))"
    )
    environment = clean_environment(KOMAND_DATA_DIR=str(tmp_path), KOMAND_PUBLIC_URL=url)
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    values = json.loads(found.stdout)
    assert values == [f"{prefix}komand_session", secure, None, "/", f"{prefix}komand_csrf", secure, None, "/"]
