"""Clients of an installation that is upgraded: each holds on to the credential that the release before gave it.

A message is sent again under its key if its connection breaks. A status of 400 or more is a refusal, and never allowed.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2

from tests.support.live_server import wait_for

_PAUSE_SECONDS = 1.5
_PATIENCE_SECONDS = 150
_REFRESH_EVERY = 4
_WORDS = 25
# Sessions of each client: the answers of one come one after the other, and at most 20 messages wait for theirs.
_CHATS = 12


@dataclass(frozen=True)
class Message:
    """key: occurs in its text, once in the whole installation; answer: None for any."""

    key: str
    text: str
    answer: str | None


@dataclass
class Ledger:
    """The messages that were accepted, and what must not happen. cuts: connections that broke at a restart."""

    accepted: list[Message] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    cuts: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    _restarting: bool = False

    @contextmanager
    def restart(self) -> Iterator[None]:
        """Let connections be refused or break: the one web process is replaced."""
        self._restarting = True
        try:
            yield
        finally:
            self._restarting = False

    def note_cut(self, key: str, began_in_restart: bool, error: Exception) -> None:
        allowed = began_in_restart or self._restarting
        (self.cuts if allowed else self.problems).append(f"{time.strftime('%X')} {key}: {error!r}")

    @property
    def is_restarting(self) -> bool:
        return self._restarting


class Sender(threading.Thread):
    """Sends one message after the other until it is stopped. send: posts a message and returns the response."""

    def __init__(self, name: str, ledger: Ledger, send: Callable[[Message], httpx2.Response]) -> None:
        super().__init__(name=name, daemon=True)
        self.count = 0
        self._ledger, self._send = ledger, send
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._send_until_stored(_make_message(self.name, self.count + 1))
            except Exception as error:
                self._ledger.problems.append(f"{self.name}: {error!r}")
                return
            self.count += 1
            self._stopping.wait(_PAUSE_SECONDS)

    def _send_until_stored(self, message: Message) -> None:
        begun = time.monotonic()
        while True:
            in_restart = self._ledger.is_restarting
            try:
                response = self._send(message)
                break
            except httpx2.TransportError as error:
                self._ledger.note_cut(message.key, in_restart, error)
                assert time.monotonic() < begun + _PATIENCE_SECONDS, f"{message.key} was not served"
                self._stopping.wait(0.1)
        self._ledger.waits.append(time.monotonic() - begun)
        if response.status_code < 400:
            self._ledger.accepted.append(message)
        else:
            self._ledger.problems.append(f"{message.key} was refused: {response.status_code} {response.text[:300]}")


def _make_message(name: str, number: int) -> Message:
    key = f"{name}.{number}."
    if number % 3 == 0:
        return Message(key, f'[[tools=[["echo",{{"text":"{key}"}}]]]]', None)
    answer = " ".join([f"Answer {key}", *["word"] * _WORDS])
    return Message(key, f'[[text="{answer}" rate=15]]', answer)


@dataclass
class Account:
    """A user with a password, and the credentials that the release before gave: an API key and its session token."""

    name: str
    password: str
    key: str = ""
    token: str = ""


class Api:
    """A program with a connection of its own."""

    def __init__(self, url: str, agent: str = "default") -> None:
        self.client = httpx2.Client(base_url=url, timeout=60)
        self._agent = agent

    def post(self, message: Message, sender: str, credential: str) -> httpx2.Response:
        number = int(message.key.split(".")[1])
        body = {"senderId": sender, "accountId": f"a{number % _CHATS}", "text": message.text, "agentId": self._agent}
        headers = {"Idempotency-Key": message.key, "Prefer": "respond-async", "Authorization": f"Bearer {credential}"}
        return self.client.post("/api/webchat/message", json=body, headers=headers)

    def get(self, path: str, credential: str) -> int:
        return self.client.get(path, headers={"Authorization": f"Bearer {credential}"}).status_code

    def issue_token(self, key: str) -> str:
        """Return a session token for an API key."""
        answer = self.client.post("/token/issue", headers={"Authorization": f"Bearer {key}"})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["token"])


class Login:
    """A program with a login, which it renews with its refresh token."""

    def __init__(self, url: str, account: Account) -> None:
        self.api, self._account, self._sent = Api(url), account, 0
        who = {"email": account.name, "password": account.password}
        self._take(self.api.client.post("/api/auth/login", json=who))

    def __call__(self, message: Message) -> httpx2.Response:
        self._sent += 1
        if self._sent % _REFRESH_EVERY == 0:
            renewed = self.api.client.post("/api/auth/refresh", json={"refreshToken": self._refresh})
            if renewed.status_code >= 400:
                return renewed
            self._take(renewed)
        return self.api.post(message, self._account.name, self._token)

    def _take(self, answer: httpx2.Response) -> None:
        assert answer.status_code == 200, answer.text
        data: dict[str, Any] = answer.json()["data"]
        self._token, self._refresh = data["token"], data["refreshToken"]


class Page:
    """The chat page in a browser that stays logged in, with scripts switched off."""

    def __init__(self, url: str, account: Account) -> None:
        self.client = httpx2.Client(base_url=url, timeout=60, headers={"Referer": url})
        self._chats: dict[int, str] = {}
        self.client.get("/login").raise_for_status()
        [self._csrf] = dict(self.client.cookies)
        answer = self._post("/login", {"username": account.name, "password": account.password})
        assert answer.status_code == 302, answer.text

    def __call__(self, message: Message) -> httpx2.Response:
        number = int(message.key.split(".")[1])
        key, chat = f"{number:032x}", self._chats.get(number % _CHATS)
        place = f"/chat/{chat}/messages" if chat else "/chat/start"
        answer = self._post(place, {"text": message.text, "key": key})
        if answer.status_code < 400:
            found = re.search(r"/chat/([-0-9a-f]{36})", answer.headers["location"])
            if found is None:
                return httpx2.Response(401, text=f"sent to {answer.headers['location']}")
            self._chats[number % _CHATS] = found[1]
        return answer

    def _post(self, path: str, form: dict[str, str]) -> httpx2.Response:
        return self.client.post(path, data={**form, "csrfmiddlewaretoken": self.client.cookies[self._csrf]})


class Traffic:
    """All clients. `pass_by` waits until each has sent some more messages."""

    def __init__(self, url: str, ledger: Ledger, people: dict[str, Account], admin_key: str) -> None:
        alice, bob = people["alice"], people["bob"]
        api, shop, tokens = Api(url, "alices"), Api(url), Api(url)
        self._senders = [
            Sender("key", ledger, lambda message: api.post(message, "alice", alice.key)),
            Sender("shop", ledger, lambda message: shop.post(message, "customer", admin_key)),
            Sender("token", ledger, lambda message: tokens.post(message, "bob", bob.token)),
            Sender("login", ledger, Login(url, bob)),
            Sender("page", ledger, Page(url, bob)),
        ]
        for sender in self._senders:
            sender.start()

    def pass_by(self, count: int) -> None:
        goals = [(sender, sender.count + count) for sender in self._senders]
        for sender, goal in goals:
            wait_for(
                lambda sender=sender, goal=goal: sender.count >= goal or not sender.is_alive(),
                _PATIENCE_SECONDS,
                f"{count} more messages of {sender.name}",
            )

    def stop(self) -> None:
        for sender in self._senders:
            sender.stop()
        for sender in self._senders:
            sender.join(_PATIENCE_SECONDS)
