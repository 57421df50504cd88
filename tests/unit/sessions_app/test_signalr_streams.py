"""`StreamMessage`: told to its end, whatever the client's speed; whatever keeps it from that is said."""

import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.signalr import commands, protocol
from sessions_app.surfaces.signalr import hub as hub_module
from sessions_app.surfaces.signalr.commands import Watched
from sessions_app.surfaces.signalr.hub import Hub

RUN, SESSION = uuid4(), uuid4()
PARTS: list[tuple[list[SessionEvent], bool]] = []  # what each viewer brings, and whether it was too slow then


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
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The records that a hub sends to its client."""

    async def at_once(work: Any, *arguments: Any) -> Any:
        return work(*arguments)

    monkeypatch.setattr(hub_module, "in_db", at_once)
    monkeypatch.setattr(hub_module, "Viewer", FakeViewer)
    monkeypatch.setattr(FakeViewer, "cursors", [])
    monkeypatch.setattr(commands, "send_message", lambda *_: Watched(SESSION, "key", "default", "3", RUN))
    monkeypatch.setattr(commands, "read_message", lambda *_: {"text": "Hello"})
    return []


class Anybody:
    actor = "user:1"


async def stream(told: list[dict[str, Any]], *arguments: Any) -> None:
    async def send(frame: str) -> None:
        told.extend(json.loads(record) for record in frame.split(protocol.END) if record)

    record = {"type": 4, "invocationId": "1", "target": "StreamMessage", "arguments": list(arguments)}
    await Hub(Anybody(), send)._stream(record)  # type: ignore[arg-type]


async def test_a_slow_client_is_told_the_rest_from_where_it_stands(told: list[dict[str, Any]]) -> None:
    PARTS[:] = [
        ([seen("text.delta", "4.1-2", offset=0, text="Hel")], True),
        ([seen("text.delta", "4.1-3", offset=3, text="lo"), seen("run.completed", "5.0-0")], False),
    ]
    await stream(told, "default", "Hi")
    items = [record["item"] for record in told if record["type"] == protocol.STREAM_ITEM]
    tokens = [item["arguments"][1] for item in items if item["event"] == "ReceiveToken"]
    assert tokens[:2] == ["Hel", "lo"] and FakeViewer.cursors == ["3", "4.1-2"]
    assert told[-1] == {"type": protocol.COMPLETION, "invocationId": "1", "result": None}


async def test_a_server_that_ends_does_not_pass_for_the_end_of_the_message(told: list[dict[str, Any]]) -> None:
    PARTS[:] = [([seen("text.delta", "4.1-2", offset=0, text="Hel")], False)]
    await stream(told, "default", "Hi")
    assert "Resume the session" in told[-1]["error"]


@pytest.mark.parametrize("arguments", [(), ("default",), ("default", "Hi", "key", "more")])
async def test_wrong_arguments_are_told(told: list[dict[str, Any]], arguments: tuple[str, ...]) -> None:
    await stream(told, *arguments)
    [record] = told
    assert "takes (agentId, content" in record["error"]
