"""Viewers of answers: each asks and sees the tokens come, through the gateway, the bare relay or the model itself.

The fake model puts the moment of sending into each token (`@<milliseconds of the monotonic clock>`), so that the lag
of every token is known without guessing, and a token shown twice is counted once.
"""

import asyncio
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.websocket import WebSocket
from benchmarks.wire import Address, Refused, post_json, stream_json

_STAMP = re.compile(rb"@(\d{4,})")
RATE = 30  # tokens a second
_LATE_SECONDS = 10.0  # that a watcher may be later than whoever asked


def message(tokens: int) -> str:
    """A message that makes the fake model answer with so many stamped tokens."""
    return f"[[tokens={tokens} rate={RATE} stamp]]"


class Tally:
    """What one viewer saw of one answer. Times by the monotonic clock; lags in milliseconds."""

    def __init__(self, tokens: int) -> None:
        self.started_at = time.monotonic()
        self.first_at = 0.0
        self.last_at = 0.0
        self.sent_first_ms = 0
        self.sent_last_ms = 0
        self.lags_ms: list[float] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tokens = tokens
        self._begun_ms = int(self.started_at * 1000)  # tokens of earlier answers do not count

    def see(self, data: bytes, at: float) -> None:
        """Count the tokens in what arrived at that moment."""
        stamps = [stamp for found in _STAMP.findall(data) if (stamp := int(found)) >= self._begun_ms]
        if stamps and stamps[0] < self.sent_last_ms:
            stamps = stamps[len(self.lags_ms) : self._tokens]  # the text is told again from its start, perhaps twice
        for sent_ms in stamps:
            if not self.lags_ms:
                self.first_at, self.sent_first_ms = at, sent_ms
            self.sent_last_ms, self.last_at = sent_ms, at
            self.lags_ms.append(at * 1000 - sent_ms)
        if len(self.lags_ms) >= self._tokens and not self.done.done():
            self.done.set_result(None)

    @property
    def first_ms(self) -> float:
        """From asking to the first token."""
        return (self.first_at - self.started_at) * 1000

    @property
    def first_sent_ms(self) -> float:
        """From asking to the moment when the model sent its first token."""
        return self.sent_first_ms - self.started_at * 1000

    @property
    def kept_up(self) -> float:
        """How fast the viewer had the whole answer, as a share of the model's pace. 1: the last token had no lag."""
        return (self.sent_last_ms - self.sent_first_ms) / (self.last_at * 1000 - self.sent_first_ms)

    @property
    def sent_pace(self) -> float:
        """Tokens a second as the model sent them."""
        return (len(self.lags_ms) - 1) * 1000 / (self.sent_last_ms - self.sent_first_ms)


class Viewer(ABC):
    """One person with one open page. Asks one thing at a time."""

    frames = 0  # messages that came
    _socket: WebSocket | None = None
    _tally: Tally | None = None

    @abstractmethod
    async def open(self) -> None:
        """Connect, as a page does when it is loaded."""

    def close(self) -> None:
        if self._socket:
            self._socket.close()

    async def ask(self, tokens: int, seconds: float) -> Tally:
        """Ask for an answer of so many tokens and see it to its end. Raises TimeoutError, Refused."""
        tally = self.expect(tokens)
        async with asyncio.timeout(seconds):
            await self.send(message(tokens))
            await tally.done
        return tally

    def expect(self, tokens: int) -> Tally:
        """An answer of so many tokens will come, whoever asks for it; count them from now on."""
        self._tally = tally = Tally(tokens)
        return tally

    @abstractmethod
    async def send(self, text: str) -> None:
        """Send the message; tokens may come before this returns. Raises Refused."""

    def _on_text(self, text: bytes, at: float) -> None:
        self.frames += 1
        if self._tally:
            self._tally.see(text, at)


class GatewayViewer(Viewer):
    """The chat page of one session; the message comes in by REST, `send` returns when it was accepted."""

    def __init__(self, address: Address, session: dict[str, str], seeded: dict[str, str]) -> None:
        """session: id and key; seeded: cookie, api_key and sender_id."""
        self.session_id = session["id"]
        self.path = f"/ws/chat/{self.session_id}"
        self.address = address
        self.page_headers = {"cookie": seeded["cookie"], "origin": address.url}
        self._given = (address, session, seeded)
        self._session_key = session["key"]
        self.api_key = seeded["api_key"]
        self.api_headers = {"authorization": f"Bearer {self.api_key}"}
        self._sender_id = seeded["sender_id"]

    def beside(self, kind: "type[GatewayViewer] | None" = None) -> "GatewayViewer":
        """Another viewer of the same session, a page if nothing else is said."""
        return (kind or GatewayViewer)(*self._given)

    async def open(self) -> None:
        self._socket = await WebSocket.open(self.address, self.path, self.page_headers, self._on_text)

    async def send(self, text: str) -> None:
        body = {"senderId": self._sender_id, "sessionId": self._session_key, "text": text}
        answer = await post_json(self.address, "/api/webchat/message?wait=0", self.api_headers, body)
        if answer.status != 202:
            raise Refused(f"the message was not taken: {answer.status} {answer.body[:300]!r}")


class RelayViewer(Viewer):
    """A WebSocket to the bare relay."""

    def __init__(self, address: Address) -> None:
        self._address = address

    async def open(self) -> None:
        self._socket = await WebSocket.open(self._address, "/", {}, self._on_text)

    async def send(self, text: str) -> None:
        assert self._socket is not None
        self._socket.send_text(text.encode())


class DirectViewer(Viewer):
    """A client of the model itself: what a token takes when nothing is in between."""

    def __init__(self, address: Address) -> None:
        self._address = address

    async def open(self) -> None:
        """Nothing to do: each call has its own connection."""

    async def send(self, text: str) -> None:
        body = {"model": "fake", "stream": True, "messages": [{"role": "user", "content": text}]}
        async for received in stream_json(self._address, "/v1/chat/completions", body):
            self._on_text(received, time.monotonic())


async def open_all(viewers: Sequence[Viewer]) -> None:
    """A few at a time: opening is not what is measured."""
    for at in range(0, len(viewers), 20):
        await asyncio.gather(*(viewer.open() for viewer in viewers[at : at + 20]))


def close_all(viewers: Sequence[Viewer]) -> None:
    for viewer in viewers:
        viewer.close()


async def ask_all(viewers: Sequence[Viewer], tokens: int, *, over_seconds: float = 0.0) -> list[Tally]:
    """Everyone asks, all at once or spread evenly over some seconds; returns when all have their whole answer."""
    limit = tokens / RATE + over_seconds + 60

    async def ask_later(viewer: Viewer, seconds: float) -> Tally:
        await asyncio.sleep(seconds)
        return await viewer.ask(tokens, limit)

    pause = over_seconds / len(viewers)
    return await asyncio.gather(*(ask_later(viewer, number * pause) for number, viewer in enumerate(viewers)))


@dataclass
class Seen:
    """What a crowd saw. lags_ms: of every token that anyone was shown; missed: tokens that somebody was not shown."""

    lags_ms: list[float]
    missed: int


async def watch_all(
    askers: Sequence[Viewer], watchers: Sequence[Viewer], tokens: int, *, over_seconds: float = 0.0
) -> Seen:
    """Some ask, the others watch; returns when all have the whole answers, or when they should have."""
    expected = [watcher.expect(tokens) for watcher in watchers]
    asked = await ask_all(askers, tokens, over_seconds=over_seconds)
    await asyncio.wait([tally.done for tally in expected], timeout=_LATE_SECONDS)
    tallies = [*expected, *asked]
    lags = [lag for tally in tallies for lag in tally.lags_ms]
    return Seen(lags, sum(max(0, tokens - len(tally.lags_ms)) for tally in tallies))
