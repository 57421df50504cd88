"""A network of its own with a name server that rebinds. `test_dns_rebinding` runs it in namespaces of its own.

The resolver of this program is the name server below, which answers in turn with the public address of the attacker's
web server and with the address of an internal one. Prints, as JSON, what was requested of the internal server.
"""

import json
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

from tools_app.network.fetch import fetch
from tools_app.types import ToolError

PUBLIC, INTERNAL = "93.184.216.34", "127.0.0.1"
TRIES = 12
_A = 1


def own_network() -> None:
    for command in (["link", "set", "lo", "up"], ["addr", "add", f"{PUBLIC}/32", "dev", "lo"]):
        subprocess.run(["ip", *command], check=True)
    with tempfile.NamedTemporaryFile("w", suffix=".conf", delete=False) as config:
        config.write(f"nameserver {INTERNAL}\noptions timeout:1 attempts:1\n")
    subprocess.run(["mount", "--bind", config.name, "/etc/resolv.conf"], check=True)
    with tempfile.NamedTemporaryFile("w", suffix=".conf", delete=False) as switch:
        switch.write("hosts: dns\n")
    subprocess.run(["mount", "--bind", switch.name, "/etc/nsswitch.conf"], check=True)


def serve_dns() -> None:
    """Answer A queries: `turn.*` in turn public and internal, `both.*` with both; nothing else."""
    server, turns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), count()
    server.bind((INTERNAL, 53))
    while True:
        query, client = server.recvfrom(512)
        end = query.index(0, 12) + 1
        kind, first_label = struct.unpack("!H", query[end : end + 2])[0], query[13 : 13 + query[12]]
        addresses: list[str] = []
        if kind == _A and first_label == b"turn":
            addresses = [(PUBLIC, INTERNAL)[next(turns) % 2]]
        elif kind == _A and first_label == b"both":
            addresses = [PUBLIC, INTERNAL]
        header = query[:2] + struct.pack("!HHHHH", 0x8180, 1, len(addresses), 0, 0)
        answers = b"".join(
            b"\xc0\x0c" + struct.pack("!HHIH", _A, 1, 0, 4) + socket.inet_aton(address) for address in addresses
        )
        server.sendto(header + query[12 : end + 4] + answers, client)


def serve_web(address: str, requested: list[str]) -> None:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requested.append(self.path)
            is_attacker = address == PUBLIC and self.path == "/again"
            self.send_response(302 if is_attacker else 200)
            if is_attacker:
                self.send_header("Location", "http://turn.attacker.example/from-redirect")
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            self.wfile.write(address.encode())

        def log_message(self, *args: Any) -> None:
            pass

    threading.Thread(target=ThreadingHTTPServer((address, 80), Page).serve_forever, daemon=True).start()


def try_all(fetch_one: Any) -> list[str]:
    """Return the results of all tries: the address that answered, or the refusal."""
    urls = [f"http://{host}.attacker.example{path}" for host in ("turn", "both") for path in ("/", "/again")]
    return [fetch_one(url) for url in urls for _ in range(TRIES)]


def guarded(url: str) -> str:
    try:
        return fetch(url, seconds=5, allowed_private=()).body.decode()
    except ToolError as error:
        return str(error)


def unguarded(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as response:
        return str(response.read().decode())


def main() -> None:
    own_network()
    requested: dict[str, list[str]] = {PUBLIC: [], INTERNAL: []}
    threading.Thread(target=serve_dns, daemon=True).start()
    for address, paths in requested.items():
        serve_web(address, paths)
    answers = try_all(guarded)
    internal_guarded = len(requested[INTERNAL])
    try_all(unguarded)
    result = {
        "public_answers": answers.count(PUBLIC),
        "refused": sum("does not resolve to public addresses only" in answer for answer in answers),
        "tries": len(answers),
        "internal_requests": internal_guarded,
        "internal_requests_without_guard": len(requested[INTERNAL]) - internal_guarded,
    }
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
