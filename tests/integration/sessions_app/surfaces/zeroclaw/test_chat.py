"""The chat of the surface: frames, approvals, steering, sessions that are resumed, refusals. Access: strangers."""

from typing import Any
from uuid import uuid4

import pytest
from channels.testing import WebsocketCommunicator

from agents_app.providers.kinds.scripted import Reply
from agents_app.types import Usage
from audit_app.kernel.database import in_db
from sessions_app.identity.api_keys import create_api_key
from sessions_app.models import Session, Turn
from tests.integration.sessions_app.surfaces.zeroclaw.gateway_client import SECONDS, SOCKETS, call, chat, text_of, types
from tests.support.approvals import Launch, wants_to_launch
from tests.support.engine import EngineRig
from tests.support.rest import make_session, make_user
from tools_app.models import Approval
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

SUM = ToolCall("c1", "calculator", '{"expression": "6*7"}')
PLAN = ToolCall("c2", "update_plan", '{"tasks": [{"id": 1, "goal": "Look"}]}')
ASK = ToolCall("c3", "ask_user", '{"question": "Which colour?", "options": ["red", "blue"]}')


@pytest.fixture
def key(alice: Any, settings: Any) -> str:
    settings.KOMAND_APPROVERS = "owners"
    return create_api_key(alice, "k", scopes=["zeroclaw"]).key


async def test_text_thinking_calls_and_usage_are_frames_that_end_with_done(rig: EngineRig, key: str) -> None:
    await in_db(
        rig.agent,
        Reply(("Let me ", "see."), reasoning="Hm.", tool_calls=(SUM, PLAN)),
        Reply(("It is 42.",), usage=Usage(7, 3)),
    )
    async with chat(key, "agent=default&name=Sums") as client:
        assert client.started["resumed"] is False and client.started["name"] == "Sums"
        await client.send(type="connect", capabilities=["x"])
        assert (await client.read())["type"] == "connected"
        frames = await client.say("What is 6*7?")
    found = types(frames)
    # The plan is told of beside the text: either may come first.
    told = [kind for kind in found if kind != "plan"]
    assert told[:4] == ["agent_start", "thinking", "chunk", "tool_call"]
    assert told[-3:] == ["chunk", "done", "agent_end"]
    assert text_of(frames) == "Let me see.\n\nIt is 42."
    calls = {one["name"]: one for one in frames if one["type"] == "tool_call"}
    results = {one["id"]: one for one in frames if one["type"] == "tool_result"}
    assert calls["calculator"]["args"] == {"expression": "6*7"}
    assert "42" in results[calls["calculator"]["id"]]["output"] and not results[calls["calculator"]["id"]]["is_error"]
    assert next(one for one in frames if one["type"] == "plan")["entries"] == [{"content": "Look", "status": "pending"}]
    done = frames[-2]
    assert done["full_response"] == text_of(frames) and done["model"] == "script"
    assert done["tokens_used"] == 10 and done["cost_usd"] is None


async def test_an_approval_is_answered_on_the_chat(rig: EngineRig, key: str, launch: type[Launch]) -> None:
    await in_db(wants_to_launch, rig, "Launched.", "Not launched.")
    async with chat(key) as client:
        await client.send(type="message", content="Go")
        asked = (await client.until("approval_request"))[-1]
        assert asked["tool"] == "launch" and '"moon"' in asked["arguments_summary"] and asked["timeout_secs"] > 0
        await client.send(type="approval_response", request_id=asked["request_id"], decision="perhaps")
        assert (await client.read())["code"] == "invalid_decision"
        await client.send(type="approval_response", request_id=asked["request_id"], decision="always")
        assert (await client.read())["code"] == "missing_right"  # the key has no rights
        await client.send(type="approval_response", request_id=str(uuid4()), decision="approve")
        assert (await client.read())["code"] == "not_found"
        await client.send(type="approval_response", request_id=asked["request_id"], decision="approve")
        frames = await client.until("agent_end")
        assert next(one for one in frames if one["type"] == "approval_result")["status"] == "approved"
        assert launch.launched == ["moon"] and frames[-2]["full_response"] == "Launched."
        await client.send(type="message", content="Again")
        asked = (await client.until("approval_request"))[-1]
        await client.send(type="approval_response", request_id=asked["request_id"], decision="deny")
        assert (await client.until("agent_end"))[-2]["full_response"] == "Not launched." and len(launch.launched) == 1


async def test_who_may_not_decide_is_told_that_somebody_is_asked(
    rig: EngineRig, key: str, launch: type[Launch], settings: Any
) -> None:
    settings.KOMAND_APPROVERS = "operators"
    await in_db(wants_to_launch, rig)
    async with chat(key) as client:
        await client.send(type="message", content="Go")
        asked = (await client.until("approval_pending"))[-1]
        await client.send(type="approval_response", request_id=asked["request_id"], decision="approve")
        assert (await client.read())["code"] == "missing_right"
    assert not launch.launched and await in_db(Approval.objects.filter(decided_at=None).count) == 1


async def test_a_message_during_a_run_joins_it_and_an_answer_is_one(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(tool_calls=(ASK,)), Reply(("Blue it is.",)))
    async with chat(key) as client:
        await client.send(type="message", content="Paint")
        assert (await client.until("input_request"))[-1]["options"] == ["red", "blue"]
        frames = await client.say("blue")
    assert frames[-2]["full_response"] == "Blue it is."
    assert await in_db(Turn.objects.filter(role="user").values("run").distinct().count) == 1


async def test_a_resumed_session_shows_its_open_run_again(rig: EngineRig, key: str, launch: type[Launch]) -> None:
    await in_db(wants_to_launch, rig, "Launched.")
    async with chat(key, "agent=default&session_id=my.trip") as client:
        assert client.started["session_id"] == "my.trip"
        await client.send(type="message", content="Go")
        await client.until("approval_request")
    for name in ("my.trip", "gw_my.trip"):
        async with chat(key, f"agent=default&session_id={name}") as client:
            assert client.started["resumed"] and client.started["message_count"] == 1
            asked = (await client.until("approval_request"))[-1]
    assert await in_db(Session.objects.count) == 1
    status, state = await call(key, "GET", "/api/sessions/my.trip/state")
    assert status == 200 and state["state"] == "running" and state["turn_id"]
    async with chat(key, "agent=default&session_id=my.trip") as client:
        await client.until("approval_request")
        assert await call(key, "POST", "/api/sessions/my.trip/abort") == (200, {"status": "aborted"})
        assert (await client.until("aborted"))[-1]["turn_id"] == state["turn_id"]
    assert await call(key, "POST", "/api/sessions/my.trip/abort") == (200, {"status": "no_active_response"})
    assert asked and not launch.launched


async def test_a_failed_run_ends_with_an_error(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(error="model_bad_request"), retry_first_seconds=0.05)
    async with chat(key) as client:
        frames = await client.say("Hi")
    assert frames[-1]["type"] == "error" and frames[-1]["code"].startswith("model_"), frames


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        "[" * 5000,
        '{"type": "message"}',
        '{"type": "message", "content": 5}',
        '{"type": "stop"}',
        '{"type": "message", "content": "\\ud800"}',
        '{"type": "approval_response", "request_id": "x"}',
        f'"{"x" * 70_000}"',
    ],
)
async def test_frames_that_are_none_are_refused_and_the_chat_goes_on(rig: EngineRig, key: str, text: str) -> None:
    await in_db(rig.agent, Reply(("Hello.",)))
    async with chat(key) as client:
        await client.send_text(text)
        refused = await client.read()
        assert refused["type"] == "error" and refused["code"] in ("invalid_frame", "invalid_text")
        assert text_of(await client.say("Hi")) == "Hello."


async def test_a_chat_that_cannot_be_opened_says_why(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent)
    async with chat(key, "agent=default&session_id=one"):
        pass
    bad = {"agent=nobody": "unknown_agent", "agent=default&session_id=a%20b": "invalid_session_id"}
    for query, code in bad.items():
        async with chat(key, query) as client:
            assert (client.started["type"], client.started["code"]) == ("error", code)
            assert await client.closed() == 4400
    assert await in_db(Session.objects.count) == 1


async def test_a_chat_takes_a_bearer_in_the_header_or_the_protocol_and_none_in_the_url(
    rig: EngineRig, key: str, alice: Any
) -> None:
    await in_db(rig.agent)
    async with chat("", protocols=("zeroclaw.v1", f"bearer.{key}")) as client:
        assert client.started["type"] == "session_start"
    other = (await in_db(create_api_key, alice, "k", scopes=["rest"])).key
    for query, protocol in (
        ("token=" + key, ""),
        ("access_token=" + key, ""),
        ("", "bearer.sk-user-wrong"),
        ("", "bearer." + other),
    ):
        wire = WebsocketCommunicator(
            SOCKETS,
            f"/zeroclaw/ws/chat?agent=default&{query}",
            [(b"host", b"localhost")],
            [protocol] if protocol else None,
        )
        accepted, _ = await wire.connect(SECONDS)
        if accepted:  # a key without the scope: the reason is told
            assert "missing_scope" in await wire.receive_from(SECONDS)
        assert accepted == protocol.endswith(other)
        await wire.disconnect()


async def test_a_reader_may_watch_a_session_but_neither_open_nor_write(rig: EngineRig, key: str, alice: Any) -> None:
    await in_db(rig.agent, Reply(("Hello.",)))
    reader = (await in_db(create_api_key, alice, "r", scopes=["zeroclaw:read"])).key
    async with chat(reader, "agent=default&session_id=one") as client:
        assert client.started["code"] == "read_only_key"
    async with (
        chat(key, "agent=default&session_id=one") as client,
        chat(reader, "agent=default&session_id=one") as watching,
    ):
        assert watching.started["resumed"]
        await watching.send(type="message", content="Hi")
        assert (await watching.read())["code"] == "read_only_key"
        await client.say("Hi")
        assert text_of(await watching.until("agent_end")) == "Hello."


async def test_sessions_of_strangers_are_opened_by_none_of_their_names(rig: EngineRig, key: str) -> None:
    await in_db(rig.agent, Reply(("Hello.",)))
    bob = await in_db(make_user, "bob")
    stranger = (await in_db(create_api_key, bob, "k", scopes=["zeroclaw", "rights"])).key
    session = await in_db(make_session, bob)
    for name in (str(session.pk), "mine"):
        async with (
            chat(stranger, f"agent=default&session_id={name}") as theirs,
            chat(key, f"agent=default&session_id={name}") as client,
        ):
            assert not client.started["resumed"] and client.started["message_count"] == 0
            await client.say("Hi")
            await theirs.send(type="connect")
            assert (await theirs.read())["type"] == "connected"  # and nothing of what alice has said


async def test_a_deleted_session_closes_its_chat(rig: EngineRig, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessions_app.surfaces.base.reauthentication.CHECK_SECONDS", 0.05)
    await in_db(rig.agent)
    async with chat(key, "agent=default&session_id=one") as client:
        assert await call(key, "DELETE", "/api/sessions/one") == (200, {"deleted": True})
        assert await client.closed() == 4401
