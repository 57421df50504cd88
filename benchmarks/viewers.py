"""Viewers of answers: each sends messages and receives the tokens from the gateway, the bare relay or the model.

The fake model puts the time of sending into each token (`@<milliseconds of the monotonic clock>`), so that the lag of
every token is known, and a token that is shown twice is counted once.
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
_LATE_SECONDS = 10.0  # that other viewers may be later than the sender


def message(tokens: int) -> str:
    """Return a message that makes the fake model answer with that many stamped tokens."""
    return f"[[tokens={tokens} rate={RATE} stamp]]"


class Tally:
    """The tokens of one answer that one viewer saw. Times by the monotonic clock; lags in milliseconds."""

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
        """Count the tokens in a message that arrived at that time."""
        stamps = [stamp for found in _STAMP.findall(data) if (stamp := int(found)) >= self._begun_ms]
        if stamps and stamps[0] < self.sent_last_ms:
            stamps = stamps[len(self.lags_ms) : self._tokens]  # the text is sent again from its start, perhaps twice
        for sent_ms in stamps:
            if not self.lags_ms:
                self.first_at, self.sent_first_ms = at, sent_ms
            self.sent_last_ms, self.last_at = sent_ms, at
            self.lags_ms.append(at * 1000 - sent_ms)
        if len(self.lags_ms) >= self._tokens and not self.done.done():
            self.done.set_result(None)

    @property
    def first_ms(self) -> float:
        """Milliseconds from the request to the first token."""
        return (self.first_at - self.started_at) * 1000

    @property
    def first_sent_ms(self) -> float:
        """Milliseconds from the request to the model's sending of the first token."""
        return self.sent_first_ms - self.started_at * 1000

    @property
    def kept_up(self) -> float:
        """The viewer's pace as a share of the model's. 1: the last token had no lag."""
        return (self.sent_last_ms - self.sent_first_ms) / (self.last_at * 1000 - self.sent_first_ms)

    @property
    def sent_pace(self) -> float:
        """Tokens a second as the model sent them."""
        return (len(self.lags_ms) - 1) * 1000 / (self.sent_last_ms - self.sent_first_ms)

    @property
    def shown_pace(self) -> float:
        """Tokens a second as the viewer saw them, at most as the model sent them: a late stream that catches up is not
        faster."""
        seconds = max(self.last_at - self.first_at, (self.sent_last_ms - self.sent_first_ms) / 1000)
        return (len(self.lags_ms) - 1) / seconds


class Viewer(ABC):
    """A user with one open page, who sends one message at a time."""

    frames = 0  # received messages
    _socket: WebSocket | None = None
    _tally: Tally | None = None

    @abstractmethod
    async def open(self) -> None:
        """Connect, as a page does when it is loaded."""

    def close(self) -> None:
        if self._socket:
            self._socket.close()

    async def ask(self, tokens: int, seconds: float) -> Tally:
        """Request an answer of that many tokens and wait for its end. Raises TimeoutError, Refused."""
        tally = self.expect(tokens)
        async with asyncio.timeout(seconds):
            await self.send(message(tokens))
            await tally.done
        return tally

    def expect(self, tokens: int) -> Tally:
        """Expect an answer of that many tokens to a message of any viewer, and count them from now on."""
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
    """The chat page of one session. Messages are sent by REST; `send` returns when one was accepted."""

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
        """Return another viewer of the same session, by default with the chat page."""
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
    """A client of the model itself, with nothing in between."""

    def __init__(self, address: Address) -> None:
        self._address = address

    async def open(self) -> None:
        """Do nothing: each call has its own connection."""

    async def send(self, text: str) -> None:
        body = {"model": "fake", "stream": True, "messages": [{"role": "user", "content": text}]}
        async for received in stream_json(self._address, "/v1/chat/completions", body):
            self._on_text(received, time.monotonic())


async def open_all(viewers: Sequence[Viewer]) -> None:
    """Open the viewers, a few at a time: opening is not measured."""
    for at in range(0, len(viewers), 20):
        await asyncio.gather(*(viewer.open() for viewer in viewers[at : at + 20]))


def close_all(viewers: Sequence[Viewer]) -> None:
    for viewer in viewers:
        viewer.close()


async def ask_all(viewers: Sequence[Viewer], tokens: int, *, over_seconds: float = 0.0) -> list[Tally]:
    """Send a message from each viewer, at once or spread over some seconds, and wait for all whole answers."""
    limit = tokens / RATE + over_seconds + 60

    async def ask_later(viewer: Viewer, seconds: float) -> Tally:
        await asyncio.sleep(seconds)
        return await viewer.ask(tokens, limit)

    pause = over_seconds / len(viewers)
    return await asyncio.gather(*(ask_later(viewer, number * pause) for number, viewer in enumerate(viewers)))


@dataclass
class Seen:
    """The tokens that many viewers saw. lags_ms: of each token of each viewer; missed: tokens that were not seen."""

    lags_ms: list[float]
    missed: int


async def watch_all(
    askers: Sequence[Viewer], watchers: Sequence[Viewer], tokens: int, *, over_seconds: float = 0.0
) -> Seen:
    """Send messages from some viewers, and wait until all have the whole answers, or until they are overdue."""
    expected = [watcher.expect(tokens) for watcher in watchers]
    asked = await ask_all(askers, tokens, over_seconds=over_seconds)
    await asyncio.wait([tally.done for tally in expected], timeout=_LATE_SECONDS)
    tallies = [*expected, *asked]
    lags = [lag for tally in tallies for lag in tally.lags_ms]
    return Seen(lags, sum(max(0, tokens - len(tally.lags_ms)) for tally in tallies))
