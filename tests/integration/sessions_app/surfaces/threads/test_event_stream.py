"""The stream of a thread with the real engine: golden frames, resumes, questions, waiting for the next answer."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from agents_app.providers.kinds.scripted import Reply
from audit_app.kernel.database import in_db
from sessions_app.access import access_session
from sessions_app.identity import access_tokens
from sessions_app.services import Accepted
from sessions_app.surfaces.threads import commands
from sessions_app.surfaces.threads.event_schemas import KINDS
from sessions_app.surfaces.threads.event_stream import ThreadStream
from tests.support.conditions import eventually
from tests.support.engine import EngineRig
from tests.support.rest import LiveCaller
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

GOLDEN = Path(__file__).parents[4] / "surfaces" / "threads" / "golden" / "frames.json"
SCHEMAS = {kind.name: Draft202012Validator({**kind.schema(), "additionalProperties": False}) for kind in KINDS}
Frame = tuple[str, str, Any]


def send(rig: EngineRig, text: str, thread_id: str = "") -> Accepted:
    fields = {"input_text": text, "output_language": None}
    body = {
        "system_managed": False,
        "parent_path_part_id": None,
        "agent_id": "default",
        "title": "T",
        "path_part_name": None,
        "message_for_title": None,
    }
    session = access_session(rig.owner, thread_id) if thread_id else commands.open_thread(rig.owner, body)
    return commands.send_message(rig.owner, session, fields, "")


class Watcher(LiveCaller):
    """A client of a thread's stream."""

    def __init__(self, rig: EngineRig, bearer: str, thread_id: str) -> None:
        super().__init__(ThreadStream.as_asgi(), bearer=bearer)
        self.thread_id = thread_id

    def _scope(self, method: str, path: str, headers: dict[str, str]) -> dict[str, Any]:
        return {**super()._scope(method, path, headers), "url_route": {"kwargs": {"thread_id": self.thread_id}}}

    async def read(self, query: str = "", **headers: str) -> list[Frame]:
        async with asyncio.timeout(60):
            answer = await self("GET", f"/v1/threads/{self.thread_id}/stream?{query}", **headers)
        assert answer.status == 200, answer
        return frames_of(answer.data.decode())


def frames_of(text: str) -> list[Frame]:
    frames = []
    for block in text.split("\n\n"):
        fields = dict(line.partition(": ")[::2] for line in block.split("\n") if line and not line.startswith(":"))
        if fields:
            data = fields["data"]
            name = fields.get("event", "")
            frames.append((fields.get("id", ""), name, data if data == "[DONE]" else json.loads(data)))
            if name:
                SCHEMAS[name].validate(frames[-1][2])
    return frames


async def watcher(rig: EngineRig, accepted: Accepted) -> Watcher:
    bearer = (await in_db(access_tokens.open_login, rig.owner)).access
    return Watcher(rig, bearer, str(accepted.session_id))


async def over(rig: EngineRig, accepted: Accepted) -> None:
    """Wait for the end of the run. `rig.wait` would block the thread that the engine needs."""
    await eventually(lambda: rig._ended(accepted.run_id))


def text_of(frames: list[Frame]) -> str:
    return "".join(data["delta"] for _, name, data in frames if name == "text_delta")


async def test_the_frames_of_an_answer_match_the_recording(rig: EngineRig) -> None:
    call = ToolCall("call_1", "calculator", json.dumps({"expression": "17*23"}))
    broken = ToolCall("call_2", "calculator", json.dumps({"expression": "1/0"}))
    await in_db(
        rig.agent, Reply(("Let me see.",), reasoning="A product.", tool_calls=(call, broken)), Reply(("It is 391.",))
    )
    accepted = await in_db(send, rig, "what is 17*23?")
    await over(rig, accepted)
    client = await watcher(rig, accepted)
    frames = normal([frame for frame in await client.read() if not frame[1].startswith("reasoning")])
    if os.environ.get("KOMAND_WRITE_GOLDEN"):
        GOLDEN.write_text(json.dumps(frames, indent=1, ensure_ascii=False) + "\n")
    assert frames == json.loads(GOLDEN.read_text())


def normal(frames: list[Frame]) -> list[Any]:
    """The frames with what differs each time replaced: ids by their order, times by one, pieces of text joined.

    Calls made side by side end in any order: their ends are recorded in the order of the calls.
    """
    ids: dict[str, str] = {}
    normalized: list[Any] = []
    ends = iter(sorted((frame for frame in frames if _is_end(frame)), key=lambda frame: frame[2]["tool_call_id"]))
    for _, name, data in (next(ends) if _is_end(frame) else frame for frame in frames):
        if name == "text_delta" and normalized[-1]["event"] == name:
            normalized[-1]["data"]["delta"] += data["delta"]
            continue
        normalized.append({"event": name, "data": data if data == "[DONE]" else _normal(data, ids)})
    return normalized


def _is_end(frame: Frame) -> bool:
    return frame[1] == "step" and frame[2]["status"] != "running"


def _normal(data: dict[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    for name, value in data.items():
        if name in ("id", "message_id", "part_id"):
            changed[name] = ids.setdefault(value, f"<id {len(ids) + 1}>")
        elif name in ("ts", "start_time", "end_time", "seq") and value:
            changed[name] = f"<{name}>"
        elif name == "duration_ms" and value is not None:
            changed[name] = 1
        else:
            changed[name] = value
    return changed


async def test_an_ended_answer_can_be_resumed_behind_every_event(rig: EngineRig) -> None:
    await in_db(rig.agent, Reply(("One ", "two ", "three ", "four."), delay_seconds=0.03))
    accepted = await in_db(send, rig, "count")
    client = await watcher(rig, accepted)
    whole = await client.read()
    assert text_of(whole) == "One two three four."
    for place in range(len(whole) - 2):
        rest = await client.read(Last_Event_ID=whole[place][0])
        assert text_of(whole[: place + 1]) + text_of(rest) == text_of(whole)
        assert [name for _, name, _ in rest[-3:]] == ["message_end", "replay_complete", ""]


async def test_a_late_client_gets_the_answer_once_and_then_the_next_one(rig: EngineRig) -> None:
    await in_db(rig.agent, Reply(("First.",)), Reply(("Second.",)))
    accepted = await in_db(send, rig, "one")
    await over(rig, accepted)
    client = await watcher(rig, accepted)
    assert text_of(await client.read()) == "First."
    waiting = asyncio.create_task(client.read())
    await asyncio.sleep(0.1)  # the time in which the stream would send more, or end
    assert not waiting.done()
    await in_db(send, rig, "two", client.thread_id)
    assert text_of(await waiting) == "Second."


async def test_behind_the_last_event_comes_the_next_answer(rig: EngineRig) -> None:
    await in_db(rig.agent, Reply(("First.",)), Reply(("Second.",)))
    accepted = await in_db(send, rig, "one")
    client = await watcher(rig, accepted)
    first = await client.read()
    later = await in_db(send, rig, "two", client.thread_id)
    await over(rig, later)
    assert text_of(await client.read(Last_Event_ID=first[-2][0])) == "Second."
    assert text_of(await client.read(Last_Event_ID=first[0][0])) == "First."
    assert text_of(await client.read(Last_Event_ID="1706000000000-5")) == "Second."


async def test_an_ended_or_unknown_message_is_not_streaming(rig: EngineRig) -> None:
    await in_db(rig.agent, Reply(("First.",)))
    accepted = await in_db(send, rig, "one")
    await over(rig, accepted)
    client = await watcher(rig, accepted)
    for message_id in (accepted.run_id, accepted.turn_id):
        received = await client.read(f"last_message_id={message_id}&last_entry_id=1-5")
        assert received == [("", "message_not_streaming", {"message_id": str(message_id)})]


async def test_a_question_ends_the_stream_and_the_next_message_continues_the_answer(rig: EngineRig) -> None:
    call = ToolCall("call_1", "ask_user", json.dumps({"question": "Which one?"}))
    await in_db(rig.agent, Reply(("Hm.",), tool_calls=(call,)), Reply(("Blue it is.",)))
    accepted = await in_db(send, rig, "paint it")
    client = await watcher(rig, accepted)
    asked = await client.read()
    assert asked[-2][2]["status"] == "waiting" and text_of(asked) == "Hm.Which one?"
    answered = await in_db(send, rig, "blue", client.thread_id)
    assert answered.run_id == accepted.run_id
    rest = await client.read(f"last_message_id={accepted.run_id}&last_entry_id={asked[-2][0]}")
    assert text_of(rest) in ("Blue it is.", "")
    whole = await client.read(Last_Event_ID=asked[0][0])
    assert text_of(whole) == "Hm.Which one?Blue it is."
