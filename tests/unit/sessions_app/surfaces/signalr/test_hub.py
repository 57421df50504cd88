"""`StreamMessage` streams to the end of the run at any speed of the client, or ends with an error."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.base import intake_limit
from sessions_app.surfaces.signalr import commands, protocol
from sessions_app.surfaces.signalr import hub as hub_module
from sessions_app.surfaces.signalr.commands import HubSubscription
from sessions_app.surfaces.signalr.hub import Hub

RUN, SESSION = uuid4(), uuid4()
PARTS: list[tuple[list[SessionEvent], bool]] = []  # the events of each viewer, and whether it overflows after them


def seen(kind: str, cursor: str, **payload: Any) -> SessionEvent:
    return SessionEvent(kind, SESSION, RUN, 0 if kind == "text.delta" else None, payload, cursor)


class FakeViewer:
    cursors: list[str] = []

    def __init__(self, session_id: UUID, cursor: str) -> None:
        self.cursors.append(cursor)
        self._events, self.overflowed = PARTS.pop(0)

    async def __aenter__(self) -> "FakeViewer":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def frames(self) -> AsyncIterator[list[SessionEvent]]:
        if self._events:
            yield self._events


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return the list of records that a hub sends to its client."""

    async def at_once(work: Any, *arguments: Any) -> Any:
        return work(*arguments)

    monkeypatch.setattr(hub_module, "in_db", at_once)
    monkeypatch.setattr(intake_limit, "in_db", at_once)
    monkeypatch.setattr(hub_module, "Viewer", FakeViewer)
    monkeypatch.setattr(FakeViewer, "cursors", [])
    monkeypatch.setattr(commands, "send_message", lambda *_: HubSubscription(SESSION, "key", "default", "3", RUN))
    monkeypatch.setattr(commands, "read_message", lambda *_: {"text": "Hello"})
    return []


class AnyPrincipal:
    actor = "user:1"


async def stream(sent: list[dict[str, Any]], *arguments: Any) -> None:
    async def send(frame: str) -> None:
        sent.extend(json.loads(record) for record in frame.split(protocol.END) if record)

    record = {"type": 4, "invocationId": "1", "target": "StreamMessage", "arguments": list(arguments)}
    await Hub(AnyPrincipal(), send)._stream(record)  # type: ignore[arg-type]


async def test_a_slow_client_gets_the_rest_from_its_position(sent: list[dict[str, Any]]) -> None:
    PARTS[:] = [
        ([seen("text.delta", "4.1-2", offset=0, text="Hel")], True),
        ([seen("text.delta", "4.1-3", offset=3, text="lo"), seen("run.completed", "5.0-0")], False),
    ]
    await stream(sent, "default", "Hi")
    items = [record["item"] for record in sent if record["type"] == protocol.STREAM_ITEM]
    tokens = [item["arguments"][1] for item in items if item["event"] == "ReceiveToken"]
    assert tokens[:2] == ["Hel", "lo"] and FakeViewer.cursors == ["3", "4.1-2"]
    assert sent[-1] == {"type": protocol.COMPLETION, "invocationId": "1", "result": None}


async def test_a_shutdown_of_the_server_is_not_the_end_of_the_message(sent: list[dict[str, Any]]) -> None:
    PARTS[:] = [([seen("text.delta", "4.1-2", offset=0, text="Hel")], False)]
    await stream(sent, "default", "Hi")
    assert "Resume the session" in sent[-1]["error"]


@pytest.mark.parametrize("arguments", [(), ("default",), ("default", "Hi", "key", "files", "more")])
async def test_wrong_arguments_are_an_error(sent: list[dict[str, Any]], arguments: tuple[str, ...]) -> None:
    await stream(sent, *arguments)
    [record] = sent
    assert "takes (agentId, content" in record["error"]


async def test_a_cancelled_stream_is_completed_after_its_last_item(
    sent: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, forever = asyncio.Event(), asyncio.Event()

    async def send(frame: str) -> None:
        sent.extend(json.loads(record) for record in frame.split(protocol.END) if record)
        if sent[-1].get("type") == protocol.STREAM_ITEM:
            shown.set()

    async def frames(self: FakeViewer) -> AsyncIterator[list[SessionEvent]]:
        yield self._events
        await forever.wait()

    monkeypatch.setattr(FakeViewer, "frames", frames)
    PARTS[:] = [([seen("text.delta", "4.1-2", offset=0, text="Hel")], False)]
    hub = Hub(AnyPrincipal(), send)  # type: ignore[arg-type]
    await hub.receive(protocol.frame({"protocol": "json", "version": 0}))
    call = {"type": 4, "invocationId": "1", "target": "StreamMessage", "arguments": ["default", "Hi"]}
    async with asyncio.timeout(60):
        await hub.receive(protocol.frame(call))
        await shown.wait()
        await hub.receive(protocol.frame({"type": 5, "invocationId": "1"}, {"type": 5, "invocationId": "2"}))
    assert sent[0] == {} and [record["type"] for record in sent[1:]] == [protocol.STREAM_ITEM, protocol.COMPLETION]
    assert sent[-1] == {"type": protocol.COMPLETION, "invocationId": "1", "result": None}
    await hub.end()
