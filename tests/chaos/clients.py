"""Clients of an installation with faults: programs, browsers, pages that watch, senders on Telegram.

Each retries when its connection breaks, under the same idempotency key.
"""

import html
import json
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from uuid import UUID

import httpx2
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import connect
from websockets.typing import Origin

from tests.fakes.telegram import group_update, private_update
from tests.integration.sessions_app.surfaces.chat.page_model import MissingTextError, PageModel
from tests.support.live_server import LiveKomand

AGAIN_SECONDS = 0.2
_BUSY = (429, 500, 502, 503)


class NotServed(AssertionError):
    """The installation did not answer within the time limit."""


def run_until_stored(ask: Callable[[], "httpx2.Response"], seconds: float, what: str) -> "httpx2.Response":
    """Retry until an answer is no temporary error, and return it. Raises NotServed after the time limit."""
    deadline = time.monotonic() + seconds
    while True:
        with suppress(httpx2.HTTPError):
            answer = ask()
            if answer.status_code < 400:
                return answer
            assert answer.status_code in _BUSY, f"{what}: {answer.status_code} {answer.text[:500]}"
        if time.monotonic() > deadline:
            raise NotServed(f"{what} was not served within {seconds:g} s")
        time.sleep(AGAIN_SECONDS)


class Program:
    """A program that uses the REST surface as admin."""

    def __init__(self, komand: LiveKomand) -> None:
        self._komand = komand
        self._client = httpx2.Client(base_url=komand.url, timeout=10)
        self._token = ""
        self._lock = threading.Lock()

    def close(self) -> None:
        self._client.close()

    def __call__(self, method: str, path: str, seconds: float = 30, **options: Any) -> Any:
        """Return the `data` of the answer. options: of httpx2."""
        given = options.pop("headers", {})

        def ask() -> "httpx2.Response":
            headers = {**given, "Authorization": f"Bearer {self._bearer()}"}
            return self._client.request(method, path, headers=headers, **options)

        return run_until_stored(ask, seconds, f"{method} {path}").json()["data"]

    def _bearer(self) -> str:
        with self._lock:
            if not self._token:
                body = {"email": "admin@localhost", "password": self._komand.password}
                answer = self._client.post("/api/auth/login", json=body)
                answer.raise_for_status()
                self._token = answer.json()["data"]["token"]
            return self._token


class Browser:
    """A browser with admin's login, in which every click is a double click."""

    def __init__(self, komand: LiveKomand, seconds: float = 60) -> None:
        self._client = httpx2.Client(base_url=komand.url, timeout=10, headers={"Referer": komand.url})
        run_until_stored(lambda: self._client.get("/login"), seconds, "the login page")
        [self._csrf] = dict(self._client.cookies)
        form = {"username": "admin", "password": komand.password}
        run_until_stored(lambda: self._post("/login", form), seconds, "logging in")

    def close(self) -> None:
        self._client.close()

    @property
    def cookie(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in dict(self._client.cookies).items())

    def send(self, session_id: UUID | None, text: str, key: UUID, seconds: float = 60) -> UUID:
        """Send a message to the session, or as the first of a new one. Return the session's id."""
        path = f"/chat/{session_id}/messages" if session_id else "/chat/start"
        form = {"text": text, "key": str(key)}

        def click(_: int) -> str:
            return run_until_stored(lambda: self._post(path, form), seconds, f"POST {path}").headers["location"]

        with ThreadPoolExecutor(2) as fingers:
            places = set(fingers.map(click, range(2)))
        assert len(places) == 1, f"two clicks led to {places}"
        return UUID(places.pop().rpartition("/")[2])

    def _post(self, path: str, form: dict[str, str]) -> "httpx2.Response":
        return self._client.post(path, data={**form, "csrfmiddlewaretoken": self._client.cookies[self._csrf]})


class Telegram:
    """Telegram, which sends an update again until it is accepted, and sometimes once more.

    chat: negative for a group, positive for a private chat
    """

    def __init__(self, komand: LiveKomand, secret: str, chat: int) -> None:
        self._client = httpx2.Client(base_url=komand.url, timeout=10)
        self._headers = {"x-telegram-bot-api-secret-token": secret}
        self.chat = chat
        self._count = 0

    def close(self) -> None:
        self._client.close()

    def bring(self, text: str, *, times: int = 1, seconds: float = 60) -> None:
        """Send the update of a new message in the chat `times` times, concurrently."""
        self._count += 1
        number = abs(self.chat) * 10_000 + self._count
        update = (
            group_update(number, text, chat=self.chat)
            if self.chat < 0
            else private_update(number, text, user=self.chat)
        )

        def ask() -> "httpx2.Response":
            return self._client.post("/channels/telegram/main/webhook", json=update, headers=self._headers)

        with ThreadPoolExecutor(times) as connections:
            list(connections.map(lambda _: run_until_stored(ask, seconds, "the webhook"), range(times)))


class Watching:
    """A page that watches one session and resumes with its cursor when the connection breaks.

    answers: by run, the text of the answer as the page ends up having it; lengths: by run whose words the page saw come
    live, how long the text of each step was when the answer came; gaps: words that did not follow what was shown;
    drops: connections so far; seen: called with each act as it comes.
    """

    def __init__(
        self,
        komand: LiveKomand,
        session_id: UUID,
        cookie: str,
        seen: Callable[[dict[str, Any]], None] = lambda act: None,
    ) -> None:
        self.session_id = session_id
        self.answers: dict[str, str] = {}
        self.lengths: dict[str, dict[int, int]] = {}
        self.gaps: list[str] = []
        self.drops = 0
        self._komand = komand
        self._cookie = cookie
        self._seen = seen
        self._page = PageModel()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._socket: Any = None

    def start(self) -> "Watching":
        self._thread.start()
        return self

    def drop(self) -> None:
        """Break the connection."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.socket.shutdown(2)

    def stop(self) -> None:
        self._stopping.set()
        self.drop()
        self._thread.join(10)

    def _watch(self) -> None:
        while not self._stopping.is_set():
            try:
                self._watch_once()
            except MissingTextError as gap:
                self.gaps.append(str(gap))
            except (OSError, ConnectionClosed, InvalidHandshake, TimeoutError):
                pass
            self.drops += 1
            self._stopping.wait(AGAIN_SECONDS)

    def _watch_once(self) -> None:
        address = self._komand.url.replace("http", "ws", 1)
        url = f"{address}/ws/chat/{self.session_id}?cursor={self._page.cursor}"
        headers = {"Cookie": self._cookie}
        with connect(url, additional_headers=headers, origin=Origin(self._komand.url), open_timeout=5) as socket:
            self._socket = socket
            while not self._stopping.is_set():
                message = json.loads(socket.recv())
                for act in message.get("acts", ()):
                    self._see(act)
                self._page.apply({**message, "acts": ()})

    def _see(self, act: dict[str, Any]) -> None:
        self._seen(act)
        run = act.get("run", "")
        if act["do"] == "answer":
            if run in self._page.open:
                self.lengths[run] = self._page.lengths(run)
            self.answers[run] = source_of(act["html"])
        self._page.apply({"acts": [act]})


def source_of(answer: str) -> str:
    """Return the text of an answer as the page copies it; empty if it has none."""
    found = re.search(r'<template class="source">(.*?)</template>', answer, re.DOTALL)
    return html.unescape(found.group(1)) if found else ""
