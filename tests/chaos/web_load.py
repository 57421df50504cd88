"""Clients of a proxy's kind: kept connections and new ones, reads, messages and calls that wait. None tries again."""

import http.client
import json
import random
import select
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

_SECONDS = 120  # until a client gives up
_LONGEST_PAUSE = 0.2
# The call waits for the end of the answer.
WAITING = "[[tokens=30 rate=10]]"
SHORT = "[[tokens=2]]"

Send = Callable[[http.client.HTTPConnection], http.client.HTTPResponse]


@dataclass
class Outcome:
    """answers: how often each kind got which status; cuts: requests without an answer; slowest: seconds, by kind."""

    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    cuts: list[str] = field(default_factory=list)
    slowest: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        times = ", ".join(f"{kind} {seconds:.1f} s" for kind, seconds in sorted(self.slowest.items()))
        return f"{sum(self.answers.values())} answers {dict(self.answers)}, {len(self.cuts)} cut; slowest: {times}"


class Load:
    """The clients of one server. token: of a user who may send for others."""

    def __init__(self, port: int, token: str) -> None:
        self.outcome = Outcome()
        self._port = port
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._stopping = threading.Event()
        kinds: list[tuple[str, Send, bool]] = [
            *[("read", self._read, True)] * 2,
            ("read, new", self._read, False),
            *[("message", self._message, True)] * 2,
            *[("message, new", self._message, False)] * 2,
            *[("waiting", self._wait, True)] * 2,
            ("waiting, new", self._wait, False),
        ]
        self._threads = [threading.Thread(target=self._work, args=kind, daemon=True) for kind in kinds]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(2 * _SECONDS)

    def _work(self, kind: str, send: Send, keeps: bool) -> None:
        connection = self._connect()
        while not self._stopping.is_set():
            if not keeps or _is_closed(connection):
                connection.close()
                connection = self._connect()
            begun = time.monotonic()
            try:
                answer = send(connection)
                answer.read()
                self.outcome.answers[kind, answer.status] += 1
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                self.outcome.cuts.append(f"{kind} after {time.monotonic() - begun:.2f} s: {error!r}")
            slowest = max(self.outcome.slowest.get(kind, 0), time.monotonic() - begun)
            self.outcome.slowest[kind] = slowest
            self._stopping.wait(random.uniform(0, _LONGEST_PAUSE))
        connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=_SECONDS)

    def _read(self, connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
        connection.request("GET", "/api/sessions?limit=1", headers=self._headers)
        return connection.getresponse()

    def _message(self, connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
        return self._post(connection, SHORT, {"Prefer": "respond-async"})

    def _wait(self, connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
        return self._post(connection, WAITING, {})

    def _post(
        self, connection: http.client.HTTPConnection, text: str, more: dict[str, str]
    ) -> http.client.HTTPResponse:
        body: dict[str, Any] = {"senderId": "admin", "accountId": uuid4().hex[:12], "text": text}
        headers = {**self._headers, "Idempotency-Key": uuid4().hex, **more}
        connection.request("POST", "/api/webchat/message", json.dumps(body), headers)
        return connection.getresponse()


def _is_closed(connection: http.client.HTTPConnection) -> bool:
    """Return whether the server has closed a kept connection, as a proxy looks before it uses one again."""
    sock: Any = connection.sock
    return sock is not None and bool(select.select([sock], [], [], 0)[0])
