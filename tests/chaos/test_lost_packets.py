"""A whole installation whose PostgreSQL is away, or behind a network that loses all packets: clients do not wait."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import httpx2
import pytest

from tests.chaos.live_faults_support import Installation, open_installation
from tests.fakes.model_server import ModelServer
from tests.support.live_server import wait_for
from tests.support.postgres import find_install, open_postgres
from tests.support.tcp_gate import TcpGate

pytestmark = [
    pytest.mark.whole,
    pytest.mark.timeout(300),
    pytest.mark.skipif(find_install() is None, reason="no PostgreSQL for this platform"),
]

_AT_ONCE = 12  # more than the threads that the web process has for the database
_LATER = 20
_ANSWER = "[[tokens=60 rate=10]]"


def test_posts_are_refused_at_once_while_packets_to_postgresql_vanish(
    tmp_path: Path, model_server: ModelServer
) -> None:
    with open_postgres(synchronous_commit="on") as server, TcpGate(urlsplit(server.url).port or 0) as gate:
        port = urlsplit(server.url).port
        behind_gate = server.url.replace(f":{port}/", f":{gate.port}/")
        with (
            open_installation(tmp_path, model_server, server.url, DATABASE_URL=behind_gate) as host,
            closing(Client(host)) as client,
        ):
            running = [host.send(_ANSWER) for _ in range(3)]
            for sent in running:
                host.wait_text(sent.run_id)
            gate.close_way()
            later = client.post_many()
            gate.open_way()
            client.post_until_accepted()
            client.check_all_are_answered_once()
            assert [host.wait_ended(sent.run_id)["status"] for sent in running] == ["completed"] * 3
            host.check_invariants()
            assert sorted(later)[_LATER // 2] <= 1


def test_posts_are_refused_at_once_while_postgresql_is_away(tmp_path: Path, model_server: ModelServer) -> None:
    """No request waits for the pool, whose connections are broken, and the pool does not wait to connect again."""
    with (
        open_postgres(synchronous_commit="on") as server,
        open_installation(tmp_path, model_server, server.url) as host,
        closing(Client(host)) as client,
    ):
        server.stop()
        later = client.post_many()
        server.start()
        client.post_until_accepted()
        client.check_all_are_answered_once()
        host.check_invariants()
        assert sorted(later)[_LATER // 2] <= 1


class Client:
    """Sends messages without trying again, notes the key of each, and repeats those that were refused at the end."""

    def __init__(self, host: Installation) -> None:
        self._host = host
        self._keys: list[str] = []
        token = host.program._bearer()
        self._http = httpx2.Client(base_url=host.komand.url, timeout=60, headers={"Authorization": f"Bearer {token}"})

    def close(self) -> None:
        self._http.close()

    def post_many(self) -> list[float]:
        """Send some at once, then one after the other. Return the seconds of the latter."""
        with ThreadPoolExecutor(_AT_ONCE) as senders:
            first = list(senders.map(lambda _: self.post(), range(_AT_ONCE)))
        later = [self.post() for _ in range(_LATER)]
        sys.stdout.write(f"\nfirst answers {_spread(first)}, later ones {_spread(later)}\n")
        return later

    def post(self) -> float:
        """Send a message that must be refused, and return the seconds until it was."""
        self._keys.append(uuid4().hex)
        begun = time.monotonic()
        answer = self._send(self._keys[-1])
        assert (answer.status_code, answer.headers.get("Retry-After")) == (503, "1"), answer.text
        return time.monotonic() - begun

    def post_until_accepted(self) -> None:
        self._keys.append(uuid4().hex)
        begun = time.monotonic()
        wait_for(lambda: self._send(self._keys[-1]).status_code < 300, 60, "a message that is accepted")
        sys.stdout.write(f"accepted again after {time.monotonic() - begun:.1f} s\n")

    def check_all_are_answered_once(self) -> None:
        """Repeat every message, as a client does, and wait for its run."""
        for key in self._keys:
            sent = self._host.send("[[tokens=3]]", account=key[:12], key=key)
            assert self._host.wait_ended(sent.run_id)["status"] == "completed"
            turns = self._host.rows(f"SELECT 1 FROM komand_turn WHERE session_id = '{sent.session_id}'")
            assert len(turns) == 2, "a message and its answer"

    def _send(self, key: str) -> "httpx2.Response":
        body = {"senderId": "admin", "accountId": key[:12], "text": "[[tokens=3]]", "agentId": "default"}
        headers = {"Idempotency-Key": key, "Prefer": "respond-async"}
        return self._http.post("/api/webchat/message", json=body, headers=headers)


def _spread(seconds: list[float]) -> str:
    return f"{min(seconds):.2f} to {max(seconds):.2f} s"
