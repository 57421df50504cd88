"""Recorded frames of the SignalR hub and the OpenAI protocol, so that no byte on the wire changes unnoticed.

`GOLDEN=write` records them again. Ids are replaced by their order, times by a constant; pieces of text are joined.
"""

import asyncio
import json
import os
import re
import typing
from pathlib import Path
from typing import Any

import pytest
from channels.routing import URLRouter
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from pydantic import BaseModel

from agents_app.providers.kinds.scripted import Reply
from agents_app.types import Usage
from audit_app.kernel.database import in_db
from sessions_app.identity import access_tokens
from sessions_app.identity.principal import Principal
from sessions_app.surfaces.openai.consumers import routes
from sessions_app.surfaces.signalr.hub import Hub
from tests.support.engine import EngineRig
from tests.support.rest import LiveCaller
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

FOLDER = Path(__file__).parents[3] / "surfaces" / "golden"
Frame = dict[str, Any]
_EVENTS: dict[str, type[BaseModel]] = {
    name: kind
    for kind in typing.get_args(typing.get_args(ResponseStreamEvent)[0])
    for name in typing.get_args(kind.model_fields["type"].annotation)
}
_ID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_PASSING = re.compile(r'"(created|created_at|completed_at|durationMs|eventId|expiresAt|timestamp)": (?:[\d.]+|"[^"]*")')
_USER = re.compile(r'(WebChat:default:|"recipientId": ")\d+')
_REPLIES = {
    "ok": (Reply(("It is ", "done."), usage=Usage(7, 3)),),
    "broken": (Reply(("Half an ",), error="model_bad_request"),),
}


def play(rig: EngineRig, end: str) -> None:
    """Script a step with a call, and then an answer or an error."""
    call = ToolCall("c1", "echo", json.dumps({"text": "x"}))
    rig.agent(Reply(("Let me ", "see."), reasoning="Hm.", tool_calls=(call,)), *_REPLIES[end])


def check(name: str, frames: list[Frame]) -> None:
    known: dict[str, str] = {}

    def name_of(found: "re.Match[str]") -> str:
        return known.setdefault(found[0].replace("-", ""), f"id-{len(known) + 1}")

    text = _ID.sub(name_of, json.dumps(frames))
    text = _USER.sub(r"\1user", text)
    normalized = json.loads(_PASSING.sub(r'"\1": "passing"', text))
    path = FOLDER / f"{name}.json"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(json.dumps(normalized, indent=1, ensure_ascii=False) + "\n")
    assert normalized == json.loads(path.read_text())


async def calls_of_the_hub(rig: EngineRig) -> list[Frame]:
    """Return the calls to a client of the hub, from its message to the end of the run, with pieces of text joined."""
    calls: asyncio.Queue[Frame] = asyncio.Queue()

    async def send(frame: str) -> None:
        for record in frame.split("\x1e"):
            if record and (call := json.loads(record)).get("type") == 1:
                calls.put_nowait(call)

    hub, frames = Hub(Principal(rig.owner, "jwt"), send), []
    message = {"type": 1, "invocationId": "1", "target": "SendMessage", "arguments": ["default", "go"]}
    # The completion of the invocation arrives among the calls.
    await hub.receive("".join(f"{json.dumps(record)}\x1e" for record in ({"protocol": "json", "version": 1}, message)))
    async with asyncio.timeout(60):
        while not frames or (frames[-1]["target"], frames[-1]["arguments"][1:2]) != ("AgentTyping", [False]):
            call = await calls.get()
            if frames and _is_piece(call) and _is_piece(frames[-1]):
                frames[-1]["arguments"][1] += call["arguments"][1]
            else:
                frames.append(call)
    await hub.end()
    return frames


def _is_piece(call: Frame) -> bool:
    return call["target"] == "ReceiveToken" and call["arguments"][1] is not None


async def streamed(rig: EngineRig, path: str, body: Frame) -> list[Frame]:
    """Return the data of the events of a response."""
    bearer = (await in_db(access_tokens.open_login, rig.owner)).access
    caller = LiveCaller(URLRouter(routes), bearer=bearer)
    async with asyncio.timeout(60):
        status, text = await caller.ask("POST", path, {"model": "default", "stream": True, **body})
    assert status == 200, text
    data = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in data if line != "[DONE]"]


@pytest.mark.parametrize("end", _REPLIES)
async def test_the_calls_to_a_client_of_the_hub(rig: EngineRig, end: str) -> None:
    await in_db(play, rig, end)
    check(f"hub-{end}", await calls_of_the_hub(rig))


@pytest.mark.parametrize("end", _REPLIES)
async def test_the_chunks_of_a_completion(rig: EngineRig, end: str) -> None:
    await in_db(play, rig, end)
    body = {"messages": [{"role": "user", "content": "go"}], "stream_options": {"include_usage": True}}
    frames: list[Frame] = []
    for chunk in await streamed(rig, "/v1/chat/completions", body):
        if "error" not in chunk:
            ChatCompletionChunk.model_validate(chunk, strict=True)
        if frames and _text_of(chunk) and _text_of(frames[-1]):
            frames[-1]["choices"][0]["delta"]["content"] += _text_of(chunk)
        else:
            frames.append(chunk)
    check(f"completion-{end}", frames)


def _text_of(chunk: Frame) -> str:
    choices = chunk.get("choices") or [{"delta": {}}]
    return str(choices[0]["delta"].get("content") or "")


@pytest.mark.parametrize("end", _REPLIES)
async def test_the_events_of_a_response(rig: EngineRig, end: str) -> None:
    await in_db(play, rig, end)
    frames: list[Frame] = []
    for event in await streamed(rig, "/v1/responses", {"input": "go"}):
        _EVENTS[event["type"]].model_validate(event)
        if frames and event["type"] == frames[-1]["type"] == "response.output_text.delta":
            frames[-1] = {**event, "delta": frames[-1]["delta"] + event["delta"]}
        else:
            frames.append(event)
    check(f"response-{end}", frames)


def test_every_recording_is_used() -> None:
    made = {f"{what}-{end}" for what in ("hub", "completion", "response") for end in _REPLIES}
    assert {path.stem for path in FOLDER.glob("*.json")} == made
