"""The text of an open step reaches viewers of each protocol while the worker's Valkey hangs.

The model waits until the viewer has the text so far, so that the end of the step cannot bring it.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from channels.routing import URLRouter

from agents_app.providers.kinds.scripted import Reply
from audit_app.kernel.database import in_db
from sessions_app.identity import access_tokens
from sessions_app.identity.principal import Principal
from sessions_app.surfaces.agent_messages.wire_format import AgentMessageType
from sessions_app.surfaces.openai.consumers import routes
from sessions_app.surfaces.signalr.hub import Hub
from sessions_app.surfaces.threads.consumers import routes as thread_routes
from tests.support.agents import TURN_ENDS, AgentCaller
from tests.support.conditions import happens
from tests.support.engine import EngineRig
from tests.support.rest import LiveCaller
from tests.support.unreachable_valkey import cut_off_worker

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

SO_FAR, WHOLE = "One two ", "One two three."
SECONDS = 60


@pytest.fixture
def cut_off(valkey: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineRig]:
    with cut_off_worker(monkeypatch, tmp_path, hangs=True) as cut_off:
        yield cut_off


@pytest.fixture
async def held(cut_off: EngineRig) -> AsyncIterator[threading.Event]:
    """Yield the event for which the model waits after SO_FAR."""
    event = threading.Event()
    await in_db(cut_off.agent, Reply(("One ", "two ", "three."), held_by=event))
    yield event
    event.set()


def data_of(caller: LiveCaller) -> list[Any]:
    """Return the JSON data of the events that a stream has sent."""
    body = b"".join(message.get("body", b"") for message in caller.sent).decode()
    lines = [line.removeprefix("data: ") for line in body.split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line.startswith("{")]


async def read(caller: LiveCaller, text: Callable[[], str], held: threading.Event, *request: Any) -> None:
    """Check that the stream of a request sends SO_FAR while the model waits, and then the rest."""
    stream = asyncio.create_task(caller.ask(*request))
    await happens(lambda: stream.done() or text() == SO_FAR, SECONDS)
    assert not stream.done(), stream.result()
    held.set()
    await happens(lambda: text() == WHOLE, SECONDS)
    caller.leave()
    async with asyncio.timeout(SECONDS):
        await stream


async def bearer_of(cut_off: EngineRig) -> str:
    return (await in_db(access_tokens.open_login, cut_off.owner)).access


async def test_chunks_of_a_completion(cut_off: EngineRig, held: threading.Event) -> None:
    caller = LiveCaller(URLRouter(routes), bearer=await bearer_of(cut_off))

    def text() -> str:
        deltas = [one["choices"][0]["delta"] for one in data_of(caller) if one.get("choices")]
        return "".join(delta.get("content") or "" for delta in deltas)

    body = {"model": "default", "stream": True, "messages": [{"role": "user", "content": "go"}]}
    await read(caller, text, held, "POST", "/v1/chat/completions", body)


async def test_events_of_a_response(cut_off: EngineRig, held: threading.Event) -> None:
    caller = LiveCaller(URLRouter(routes), bearer=await bearer_of(cut_off))

    def text() -> str:
        return "".join(one["delta"] for one in data_of(caller) if one["type"] == "response.output_text.delta")

    await read(caller, text, held, "POST", "/v1/responses", {"model": "default", "stream": True, "input": "go"})


async def test_events_of_a_thread(cut_off: EngineRig, held: threading.Event) -> None:
    accepted = await in_db(cut_off.send, "go")
    caller = LiveCaller(URLRouter(thread_routes), bearer=await bearer_of(cut_off))

    def text() -> str:
        return "".join(one["delta"] for one in data_of(caller) if set(one) >= {"delta"})

    await read(caller, text, held, "GET", f"/v1/threads/{accepted.session_id}/stream")


async def test_messages_of_an_agent_run(cut_off: EngineRig, held: threading.Event) -> None:
    caller = AgentCaller(bearer=await bearer_of(cut_off))
    run = await in_db(caller.start, "go")

    def text_of(messages: list[Any]) -> str:
        return "".join(one.get("m", "") for one in messages if one["t"] == AgentMessageType.STREAMING_CHUNK)

    async with asyncio.timeout(SECONDS), caller.stream(f"agents/{run['id']}/stream") as stream:
        await stream.until_true(lambda seen: text_of(seen) == SO_FAR)
        held.set()
        messages = list(await stream.until(*TURN_ENDS))
    assert text_of(messages) == WHOLE


async def test_calls_of_the_hub(cut_off: EngineRig, held: threading.Event) -> None:
    come = ""

    async def send(frame: str) -> None:
        nonlocal come
        calls = [json.loads(record) for record in frame.split("\x1e") if record]
        tokens = [call["arguments"][1] for call in calls if call.get("target") == "ReceiveToken"]
        come += "".join(token or "" for token in tokens)

    hub = Hub(Principal(cut_off.owner, "jwt"), send)
    message = {"type": 1, "invocationId": "1", "target": "SendMessage", "arguments": ["default", "go"]}
    await hub.receive("".join(f"{json.dumps(record)}\x1e" for record in ({"protocol": "json", "version": 1}, message)))
    for expected in (SO_FAR, WHOLE):
        await happens(lambda expected=expected: come == expected, SECONDS)
        held.set()
    await hub.end()
