"""Recorded frames of the agent-message protocol, to detect changes on the wire.

`GOLDEN=write` records them again. Ids and times are replaced by their order; chunks of one text are joined.
"""

import json
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from agents_app.providers.kinds.scripted import Reply
from agents_app.types import Usage
from audit_app.kernel.database import in_db
from sessions_app.surfaces.agent_messages.wire_format import Compact
from sessions_app.surfaces.agent_messages.wire_schemas import COMPACT_MESSAGE
from tests.support.agents import TURN_ENDS, AgentCaller
from tests.support.approvals import wants_to_launch
from tests.support.engine import EngineRig
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database, pytest.mark.usefixtures("launch")]

FOLDER = Path(__file__).parents[4] / "surfaces" / "agents" / "golden"
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_PASSING = re.compile(r'"(?:duration_ms|until)": (?:\d+|"[^"]*")')
_USER = re.compile(r"user:\d+")


def plain(messages: list[Compact]) -> list[Compact]:
    """Return the frames without values that differ between runs of the test."""
    times = sorted({message["ts"] for message in messages if message["t"] != 12})
    frames: list[Compact] = []
    for message in messages:
        shown = {**message, "ts": times.index(message["ts"]) if message["t"] != 12 else "live"}
        last = frames[-1] if frames else {}
        if message["t"] == 12 and last.get("t") == 12 and last["i"] == message["i"]:
            frames[-1] = {**last, **shown, "m": last.get("m", "") + message.get("m", "")}
        else:
            frames.append(shown)
    text = _PASSING.sub(lambda found: found[0].partition(":")[0] + ': "passing"', json.dumps(frames))
    known: dict[str, str] = {}
    text = _UUID.sub(lambda found: known.setdefault(found[0], f"id-{len(known) + 1}"), text)
    shown_frames: list[Compact] = json.loads(_USER.sub("user:1", text))
    return shown_frames


def check(name: str, messages: list[Compact], *, with_chunks: bool = True) -> None:
    """Compare with the recording. with_chunks: False if the model is so fast that there may be none."""
    for message in messages:
        Draft202012Validator(COMPACT_MESSAGE).validate(message)
    messages = [message for message in messages if with_chunks or message["t"] != 12]
    path, frames = FOLDER / f"{name}.json", plain(messages)
    if os.environ.get("GOLDEN") == "write":
        path.write_text(json.dumps(frames, indent=2, ensure_ascii=False) + "\n")
    assert frames == json.loads(path.read_text())


async def recorded(caller: AgentCaller, body: dict[str, Any], *watched: threading.Event) -> list[Compact]:
    """Return the messages of a run. watched: each delays the rest of a reply until some of its text was sent."""
    run = await in_db(lambda: caller.start("go", **body))
    async with caller.stream(f"agents/{run['id']}/stream") as stream:
        for count, reply in enumerate(watched, start=1):
            await stream.until_true(lambda messages, count=count: len(texts_in(messages)) == count)
            reply.set()
        return list(await stream.until(*TURN_ENDS))


def texts_in(messages: list[Compact]) -> set[str]:
    """Return the ids of live texts."""
    return {message["i"] for message in messages if message["t"] == 12 and not message["i"].endswith(".reasoning")}


async def test_a_turn_with_a_tool(rig: EngineRig, caller: AgentCaller) -> None:
    call, first, second = ToolCall("c1", "echo", json.dumps({"text": "x"})), threading.Event(), threading.Event()
    wordy = Reply(("Let me ", "see."), reasoning="Hm.", tool_calls=(call,), held_by=first)
    await in_db(rig.agent, wordy, Reply(("It is ", "done."), usage=Usage(7, 3), held_by=second))
    check("turn-with-a-tool", await recorded(caller, {}, first, second))


async def test_work_that_is_not_interactive(rig: EngineRig, caller: AgentCaller) -> None:
    watched = threading.Event()
    await in_db(rig.agent, Reply(("Forty-", "two."), held_by=watched))
    check("work", await recorded(caller, {"interactive": False}, watched))


async def test_a_tool_that_fails_and_a_model_that_fails(rig: EngineRig, caller: AgentCaller) -> None:
    call = ToolCall("c1", "calculator", json.dumps({"expression": "1/0"}))
    await in_db(rig.agent, Reply(tool_calls=(call,)), Reply(("Half an ",), error="model_bad_request"))
    check("failures", await recorded(caller, {}), with_chunks=False)


async def test_a_question_and_its_answer(rig: EngineRig, caller: AgentCaller) -> None:
    # The keys in the order that PostgreSQL gives them, whatever was stored.
    call = ToolCall("c1", "ask_user", json.dumps({"options": ["red", "blue"], "question": "Which?"}))
    await in_db(rig.agent, Reply(tool_calls=(call,)), Reply(("Blue it is.",)))
    run = (await in_db(caller.start, "go"))["id"]
    async with caller.stream(f"agents/{run}/stream") as stream:
        asked = (await stream.until(*TURN_ENDS))[-1]
        response = {"request_input_response": {"request_id": asked["d"]["request_id"]}}
        await in_db(lambda: caller.send(run, "blue", "m-2", **response))
        check("question", list(await stream.until(*TURN_ENDS, count=2)), with_chunks=False)


async def test_an_approval_request_and_its_decision(rig: EngineRig, caller: AgentCaller, settings: Any) -> None:
    settings.KOMAND_APPROVERS = "owners"
    await in_db(wants_to_launch, rig)
    run = (await in_db(caller.start, "go"))["id"]
    async with caller.stream(f"agents/{run}/stream") as stream:
        asked = (await stream.until(*TURN_ENDS))[-1]
        key = asked["d"]["tool_approval"]["approval_key"]
        metadata = {
            "request_input_response": {"request_id": asked["d"]["request_id"]},
            "tool_approval_response": {"decision": "deny", "approval_key": key},
        }
        await in_db(lambda: caller.send(run, "deny", "m-2", **metadata))
        check("approval", list(await stream.until(*TURN_ENDS, count=2)), with_chunks=False)


async def test_a_stop(rig: EngineRig, caller: AgentCaller) -> None:
    await in_db(rig.agent, Reply(("Going on ",), hangs=True))
    run = (await in_db(caller.start, "go"))["id"]
    async with caller.stream(f"agents/{run}/stream") as stream:
        await stream.until(12)
        await in_db(lambda: caller("POST", f"agents/{run}/signal/Stop", {"client_message_id": "s-1"}))
        check("stop", list(await stream.until(*TURN_ENDS)))


def test_every_recording_is_still_made() -> None:
    names = {"turn-with-a-tool", "work", "failures", "question", "approval", "stop"}
    assert {path.stem for path in FOLDER.glob("*.json")} == names
