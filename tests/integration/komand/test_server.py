"""The web server on real sockets: slow readers, large bodies, a stop in time."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from komand.server import most_bytes, too_large
from tests.integration.komand.flood_app import LARGE_PIECES, PIECE
from tests.support.live_server import wait_for
from tests.support.web_server import STALL_SECONDS, UPGRADE, Serving, request, start

pytestmark = [pytest.mark.one_database, pytest.mark.whole]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with start(tmp_path_factory.mktemp("web")) as serving:
        yield serving


@pytest.mark.parametrize("headers", [(), UPGRADE], ids=["http", "websocket"])
def test_clients_that_never_read_cost_no_memory_and_are_cut_off(serving: Serving, headers: tuple[str, ...]) -> None:
    before = serving.memory
    with ExitStack() as stack:
        clients = [stack.enter_context(serving.connect(receive_buffer=4096)) for _ in range(5)]
        for client in clients:
            client.sendall(request("/flood", *headers))
        time.sleep(STALL_SECONDS)  # the time in which the buffers would grow
        assert serving.memory - before < 12_000_000
        wait_for(lambda: all(is_cut(client) for client in clients), 60, "the cut")


def is_cut(client: socket.socket) -> bool:
    try:
        client.sendall(b"\0")
    except OSError:
        return True
    return False


def test_a_reader_gets_everything(serving: Serving) -> None:
    received = 0
    with serving.connect() as client:
        client.sendall(request("/flood", "Connection: close"))
        while piece := client.recv(1 << 20):
            received += len(piece)
    assert received > 40_000_000


def test_a_message_longer_than_clients_may_send_arrives_in_one_frame(serving: Serving) -> None:
    with serving.connect() as client:
        client.sendall(request("/large", *UPGRADE))
        received = b""
        while len(received.partition(b"\r\n\r\n")[2]) < 10 + LARGE_PIECES * len(PIECE):
            received += client.recv(1 << 20)
    frame = received.partition(b"\r\n\r\n")[2]
    assert frame[:2] == b"\x82\x7f" and int.from_bytes(frame[2:10]) == len(frame) - 10
    assert set(frame[10:]) == set(PIECE)


def test_an_announced_body_over_the_cap_is_refused_before_it_is_sent(serving: Serving) -> None:
    with serving.connect() as client:
        client.sendall(b"POST /ping HTTP/1.1\r\nHost: x\r\nContent-Length: 99000000\r\n\r\n")
        assert client.makefile("rb").read() == too_large(b"/ping")


@pytest.mark.parametrize(
    ("target", "shape"),
    [
        (b"/api/sessions", {"success", "data", "error", "meta"}),
        (b"/api/v1/agents?a=b", {"message", "code", "status"}),
        (b"/v1/chat/completions", {"error"}),
        (b"/v1/threads/\xff/messages", {"detail", "code", "request_id"}),
        (b"/chat", {"success", "data", "error", "meta"}),
    ],
)
def test_a_refusal_has_the_shape_of_the_surface(target: bytes, shape: set[str]) -> None:
    head, _, body = too_large(target).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 413") and json.loads(body).keys() == shape


@pytest.mark.parametrize(
    ("target", "takes_files"),
    [
        (b"/api/v1/artifact-blobs/token/a.txt", True),
        (b"/api/sessions/WebChat%3Adefault%3A1/artifacts?path=a", True),
        (b"/api/sessions/1/artifacts", True),
        (b"/api/sessions/1/artifacts/2", False),
        (b"/api/webchat/message?x=/api/v1/artifact-blobs/", False),
    ],
)
def test_a_body_that_is_a_file_may_be_as_long_as_a_file(settings: Any, target: bytes, takes_files: bool) -> None:
    settings.KOMAND_MAX_BODY_BYTES, settings.KOMAND_ARTIFACT_MAX_BYTES = 1, 2
    assert most_bytes(target) == 1 + takes_files


def test_a_file_over_the_cap_of_other_bodies_arrives(serving: Serving) -> None:
    with serving.connect() as client:
        client.sendall(b"PUT /api/v1/artifact-blobs/t/a HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n")
        client.sendall(b"x" * 3_000_000)
        assert client.recv(100).startswith(b"HTTP/1.1 200")


def test_a_body_of_unknown_length_is_cut_at_the_cap(serving: Serving) -> None:
    with serving.connect() as client:
        client.sendall(b"POST /ping HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        answer = b""
        for _ in range(40):
            try:
                client.sendall(chunk)
            except OSError:
                break
        answer = client.recv(100)
    assert answer.startswith(b"HTTP/1.1 413")


def test_a_form_without_parts_reaches_the_application(serving: Serving) -> None:
    with serving.connect() as client:
        head = "Content-Type: multipart/form-data; boundary=x", "Content-Length: 7", "Connection: close"
        client.sendall(request("/ping", *head).replace(b"GET", b"POST") + b"--x--\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200")


def test_it_stops_soon_and_closes_sockets_with_the_code_to_reconnect(tmp_path: Path) -> None:
    with start(tmp_path) as serving, serving.connect() as client:
        client.sendall(request("/wait", *UPGRADE))
        assert b"101" in client.recv(1000)
        serving.process.terminate()
        frame = client.recv(100)
        assert frame[0] == 0x88 and int.from_bytes(frame[2:4]) == 4000
        assert serving.process.wait(60) == 0


def test_a_request_on_a_connection_that_was_just_accepted_is_answered_before_it_stops(tmp_path: Path) -> None:
    with start(tmp_path) as serving, serving.connect() as late:
        with serving.connect() as client:
            client.sendall(request("/ping", "Connection: close"))
            assert client.recv(100).startswith(b"HTTP/1.1 200")  # so the connection before is accepted, too
        serving.process.terminate()
        time.sleep(0.5)  # in which it would have ended
        late.sendall(request("/ping", "Connection: close"))
        assert late.recv(100).startswith(b"HTTP/1.1 200")
        assert serving.process.wait(60) == 0


def test_requests_on_a_kept_connection_are_answered_until_a_response_closes_it(tmp_path: Path) -> None:
    with start(tmp_path) as serving, serving.connect() as kept, kept.makefile("rb") as answers:
        kept.sendall(request("/ping"))
        assert b"connection: close" not in read_answer(answers)
        serving.process.terminate()

        def is_closing() -> bool:
            kept.sendall(request("/ping"))
            return b"connection: close" in read_answer(answers)

        wait_for(is_closing, 60, "the response that closes the connection")
        assert answers.read() == b""
        assert serving.process.wait(60) == 0


def read_answer(answers: BinaryIO) -> bytes:
    """Read one chunked response. Return its head in small letters."""
    head = b"".join(iter(answers.readline, b"\r\n")).lower()
    assert head.startswith(b"http/1.1 200")
    while size := int(answers.readline(), 16):
        answers.read(size + 2)
    answers.readline()
    return head
