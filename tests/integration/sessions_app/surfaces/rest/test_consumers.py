"""POST /api/webchat/message: the answer for each end of the run, and refused messages."""

import asyncio
import json

import pytest

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from agents_app.types import RunStatus
from audit_app.kernel.database import in_db
from audit_app.models import Event
from sessions_app import services
from sessions_app.identity import access_tokens
from sessions_app.identity.api_keys import create_api_key
from sessions_app.models import Session, Turn
from sessions_app.surfaces.rest import consumers
from sessions_app.surfaces.rest.consumers import WebChatMessage
from tests.support.conditions import eventually
from tests.support.engine import EngineRig
from tests.support.rest import LiveCaller, RestCaller, make_session, make_user, read_envelope
from tools_app.models import ToolExecution
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]
APPLICATION = WebChatMessage.as_asgi()
PATH = "/api/webchat/message"


@pytest.fixture(autouse=True)
def _agent(idle: EngineRig) -> None:
    idle.agent(Reply(("Hello there.",)))


def _caller(rig: EngineRig) -> LiveCaller:
    return LiveCaller(APPLICATION, bearer=access_tokens.open_login(rig.owner).access)


async def _post(rig: EngineRig, body, path: str = PATH, **headers: str):
    caller = await in_db(_caller, rig)
    return await caller("POST", path, body, **headers)


def _message(rig: EngineRig, text: str = "hi", **fields):
    return {"senderId": str(rig.owner.pk), "text": text, **fields}


async def test_the_answer_is_returned(rig):
    answer = await _post(rig, _message(rig))
    assert answer.status == 200
    assert set(answer.data) == {"sessionId", "channel", "recipientId", "text", "timestamp", "attachments"}
    assert answer.data["sessionId"] == f"WebChat:default:{rig.owner.pk}"
    assert (answer.data["channel"], answer.data["recipientId"]) == ("WebChat", str(rig.owner.pk))
    assert answer.data["attachments"] == []
    assert answer.data["text"] == "Hello there."
    assert answer.data["timestamp"].endswith("Z")
    run = await in_db(Run.objects.get)
    assert answer.meta == {"runId": str(run.pk)}


async def test_an_inbound_message_of_a_channel_is_accepted(rig):
    inbound = {
        "messageId": "msg-abc-123",
        "channel": "WebChat",
        "channelAccountId": "shop",
        "senderId": str(rig.owner.pk),
        "senderDisplayName": "Alice",
        "text": "hi",
        "timestamp": "2026-02-23T10:30:00Z",
        "attachments": [],
        "metadata": {"page": "prices"},
    }
    answers = [await _post(rig, inbound) for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 200] and answers[0].meta == answers[1].meta
    session = await in_db(Session.objects.get)
    assert (session.key, session.sender_name) == (f"WebChat:shop:{rig.owner.pk}", "Alice")
    stored = await in_db(Event.objects.get, type="message.received")
    note = {"messageId": "msg-abc-123", "metadata": {"page": "prices"}, "sentAt": "2026-02-23T10:30:00.000Z"}
    assert stored.payload["note"]["message"] == note
    question, answer = await in_db(lambda: RestCaller(rig.owner).get(f"sessions/{session.pk}/messages").data)
    shown = {**inbound, "timestamp": "2026-02-23T10:30:00.000Z", "direction": "inbound", "sessionId": session.key}
    assert {name: value for name, value in question.items() if name != "turnId"} == shown
    assert {name: answer[name] for name in ("direction", "channel", "recipientId", "text", "attachments")} == {
        "direction": "outbound",
        "channel": "WebChat",
        "recipientId": str(rig.owner.pk),
        "text": "Hello there.",
        "attachments": [],
    }


@pytest.mark.parametrize(
    "wrong", [{"channel": "Telegram"}, {"metadata": []}, {"metadata": {"a": "x" * 5000}}, {"timestamp": "yesterday"}]
)
async def test_an_unusable_inbound_message_is_refused(rig, wrong):
    assert (await _post(rig, _message(rig, **wrong))).status == 400


@pytest.mark.parametrize("sender_id", ["alice", "ALICE@example.org"])
async def test_a_caller_may_send_as_their_name_or_email(rig, sender_id):
    assert (await _post(rig, _message(rig, senderId=sender_id))).status == 200


async def test_a_second_message_continues_the_session(rig):
    first = await _post(rig, _message(rig))
    by_key = await _post(rig, _message(rig, sessionId=first.data["sessionId"]))
    assert by_key.data["sessionId"] == first.data["sessionId"]
    assert await in_db(Session.objects.count) == 1
    assert await in_db(Turn.objects.count) == 4


async def test_after_the_wait_the_run_continues(idle, settings):
    settings.KOMAND_WAIT_SECONDS = 1
    answer = await _post(idle, _message(idle))
    assert answer.status == 504
    assert answer.error == "Request timed out after 1 seconds"
    await asyncio.to_thread(idle.start)
    run_id = (await in_db(Run.objects.get)).pk
    assert answer.meta["runId"] == str(run_id)
    late = await eventually(Turn.objects.filter(run_id=run_id, is_answer=True).first)
    assert late.content == "Hello there."


async def test_a_timeout_names_what_the_run_waits_for_and_the_run_before_it(idle):
    first = await _post(idle, _message(idle), f"{PATH}?wait=0")
    await in_db(Run.objects.filter(pk=first.data["runId"]).update, status="waiting", waiting_on="approval")
    second = await _post(idle, _message(idle), Prefer="wait=1")
    ahead = {"runId": first.data["runId"], "status": "waiting", "waitingOn": "approval"}
    assert (second.status, second.meta["status"], second.meta["waitingOn"]) == (504, "queued", None)
    assert second.meta["queuedBehind"] == ahead


@pytest.mark.parametrize(
    ("path", "prefer", "status", "applied"),
    [
        ("", "wait=1", 504, "wait=1"),
        ("", 'respond-async, Wait = "1"; x=y', 504, "wait=1"),
        ("", "wait=0", 202, "wait=0"),
        ("", "respond-async", 202, "respond-async"),
        ("", "wait=9999", 504, None),
        ("", "wait=soon", 504, None),
        ("?wait=0", "wait=1", 202, None),
    ],
)
async def test_a_preferred_wait_is_applied_and_named(idle, settings, path, prefer, status, applied):
    settings.KOMAND_WAIT_SECONDS = 2
    answer = await _post(idle, _message(idle), PATH + path, Prefer=prefer)
    assert answer.status == status
    assert answer.headers.get("preference-applied") == applied


async def test_a_request_may_wait_longer_than_by_default(idle, settings):
    settings.KOMAND_WAIT_SECONDS = 1
    request = asyncio.create_task(_post(idle, _message(idle), f"{PATH}?wait=300"))
    await eventually(Run.objects.first)
    await asyncio.to_thread(idle.start)
    assert (await request).data["text"] == "Hello there."


async def test_a_shutdown_is_a_504_and_the_run_continues(idle, monkeypatch):
    waits = asyncio.Event()

    async def wait(*_):
        waits.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(consumers, "wait_until_ended", wait)
    caller = await in_db(_caller, idle)
    request = asyncio.create_task(caller("POST", PATH, _message(idle)))
    async with asyncio.timeout(60):
        await waits.wait()
    run = await in_db(Run.objects.get)
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    answer = read_envelope(*caller._received()[::2], {"Content-Type": "application/json"})
    assert (answer.status, answer.meta["code"], answer.meta["runId"]) == (504, "restarting", str(run.pk))


@pytest.mark.parametrize(("path", "headers"), [("?wait=0", {}), ("", {"Prefer": "respond-async"})])
async def test_without_waiting_the_run_id_is_returned_at_once(idle, path, headers):
    answer = await _post(idle, _message(idle), PATH + path, **headers)
    run = await in_db(Run.objects.get)
    assert answer.status == 202
    assert answer.data == {"sessionId": f"WebChat:default:{idle.owner.pk}", "runId": str(run.pk)}


@pytest.mark.parametrize("wait", ["-1", "x", "301", "9" * 30, "0" * 9 + "999", "1.5", "٣"])
async def test_an_invalid_wait_is_400(idle, wait):
    assert (await _post(idle, _message(idle), f"{PATH}?wait={wait}")).status == 400


@pytest.mark.parametrize(
    "change",
    [
        {"text": ""},
        {"text": "   "},
        {"text": "x" * 10_001},
        {"text": None},
        {"text": ["a"]},
        {"senderId": ""},
        {"senderId": None},
        {"sessionId": "x" * 600},
        {"accountId": ""},
    ],
)
async def test_an_invalid_field_is_400_and_nothing_is_stored(idle, change):
    answer = await _post(idle, {**_message(idle), **change})
    assert answer.status == 400
    assert not await in_db(Session.objects.exists)


@pytest.mark.parametrize("parts", [[b"{"], [b"[]"], [b'"text"'], [b""], [b"[" * 100_000]])
async def test_a_malformed_body_is_400(idle, parts):
    caller = await in_db(_caller, idle)
    assert (await caller("POST", PATH, parts=parts)).status == 400


async def test_an_unknown_agent_is_404(idle):
    assert (await _post(idle, _message(idle, agentId="nobody"))).status == 404


async def test_a_text_at_the_limit_is_accepted(idle):
    assert (await _post(idle, _message(idle, "ä" * 10_000), f"{PATH}?wait=0")).status == 202


async def test_a_foreign_sender_needs_the_scope(idle):
    body = _message(idle, senderId="somebody")
    assert (await _post(idle, body)).status == 403
    key = (await in_db(create_api_key, idle.owner, "gateway", scopes=["all", "senders:any"])).key
    answer = await LiveCaller(APPLICATION, bearer=key)("POST", f"{PATH}?wait=0", body)
    assert answer.data["sessionId"] == "WebChat:default:somebody"


async def test_a_session_of_another_channel_is_400(idle):
    session = await in_db(make_session, idle.owner)
    await in_db(Session.objects.filter(pk=session.pk).update, channel="Slack")
    answer = await _post(idle, _message(idle, sessionId=str(session.pk)))
    assert (answer.status, answer.meta["code"]) == (400, "channel_mismatch")


async def test_a_session_of_another_sender_is_400_and_of_another_owner_404(idle):
    session = await in_db(make_session, idle.owner, key="WebChat:default:customer")
    await in_db(Session.objects.filter(pk=session.pk).update, sender_id="customer")
    assert (await _post(idle, _message(idle, sessionId=session.key))).status == 400
    bobs = await in_db(make_session, await in_db(make_user, "bob"))
    assert (await _post(idle, _message(idle, sessionId=bobs.key))).status == 404


async def test_a_repeated_idempotency_key_returns_the_same_run_and_another_text_is_422(rig):
    first = await _post(rig, _message(rig), Idempotency_Key="k1")
    again = await _post(rig, _message(rig), Idempotency_Key="k1")
    assert again.data == first.data
    assert again.meta == first.meta
    assert (await _post(rig, _message(rig, "other"), Idempotency_Key="k1")).status == 422
    assert await in_db(Run.objects.count) == 1


async def test_a_full_queue_is_429_with_retry_after(idle):
    await in_db(idle.agent, Reply(("x",)), queue_limit=0)
    assert (await _post(idle, _message(idle), f"{PATH}?wait=0")).status == 202
    answer = await _post(idle, _message(idle), f"{PATH}?wait=0")
    assert (answer.status, answer.meta["code"]) == (429, "queue_full")
    assert int(answer.headers["retry-after"]) > 0


async def test_messages_have_their_own_rate_limit(idle, settings):
    settings.KOMAND_CHAT_LIMIT, settings.KOMAND_API_LIMIT = 1, 100
    statuses = [(await _post(idle, _message(idle), f"{PATH}?wait=0")).status for _ in range(2)]
    assert statuses == [202, 429]


async def test_a_failed_model_call_is_a_502_with_the_reason(rig):
    await in_db(rig.agent, Reply(error="model_auth"))
    answer = await _post(rig, _message(rig))
    assert (answer.status, answer.meta["code"]) == (502, "model_auth")
    run = await in_db(Run.objects.get)
    assert answer.error == run.error_message
    assert answer.meta["runId"] == str(run.pk)
    turn = await in_db(Turn.objects.get, run=run, is_answer=True)
    assert (turn.state, turn.error_message) == ("error", answer.error)


async def test_a_cancelled_run_is_a_409(idle):
    asking = asyncio.ensure_future(_post(idle, _message(idle)))
    await eventually(Run.objects.exists)
    session = await in_db(Session.objects.select_related("agent").get)
    await in_db(services.cancel_session_runs, session, reason="Stopped.")
    answer = await asking
    assert (answer.status, answer.meta["code"]) == (409, "cancelled")


async def test_a_disconnect_does_not_stop_the_run(idle):
    caller = await in_db(_caller, idle)
    asking = asyncio.ensure_future(caller("POST", PATH, _message(idle)))
    await eventually(Run.objects.exists)
    caller.leave()
    assert (await asking).status == 0
    run = await in_db(Run.objects.get)
    assert (run.status, run.cancel_requested_at) == (RunStatus.QUEUED, None)


async def test_a_request_without_credential_is_401(idle):
    assert (await LiveCaller(APPLICATION)("POST", PATH, _message(idle))).status == 401
    assert (await _post(idle, _message(idle), Content_Type="text/plain")).status == 415


async def test_the_answer_names_the_files_that_the_agent_has_written(rig):
    call = ToolCall("call_1", "write_artifact", '{"path": "out/a.txt", "content": "hi"}')
    await in_db(rig.agent, Reply(tool_calls=(call,)), Reply(("Done.",)))
    [file] = (await _post(rig, _message(rig))).data["attachments"]
    assert (file["filename"], file["mimeType"], file["sizeBytes"]) == ("a.txt", "text/plain", 2)
    assert file["url"] == f"/api/artifacts/{file['id']}"


async def test_tool_results_are_turns_of_the_history_in_order(rig):
    call = ToolCall("call_1", "echo", '{"text": "seventeen"}')
    await in_db(rig.agent, Reply(("Let me see.",), tool_calls=(call,)), Reply(("It is seventeen.",)))
    answer = await _post(rig, _message(rig, "which number?"))
    assert answer.data["text"] == "It is seventeen."
    history = await in_db(_history, rig, answer.data["sessionId"])
    assert [turn["role"] for turn in history] == ["user", "assistant", "tool", "assistant"]
    execution_ids = [str(pk) for pk in await in_db(lambda: list(ToolExecution.objects.values_list("pk", flat=True)))]
    assert [turn["toolCallIds"] for turn in history] == [None, execution_ids, execution_ids, execution_ids]
    assert "seventeen" in history[2]["content"]
    result = await in_db(_rest, rig, f"tools/executions/{execution_ids[0]}")
    assert (result.data["status"], result.data["error"]) == ("Completed", None)
    assert json.loads(result.data["output"]) == {"text": "seventeen"}


def _history(rig: EngineRig, session_id: str):
    return _rest(rig, f"sessions/{session_id}/history").data


def _rest(rig: EngineRig, path: str):
    return RestCaller(rig.owner).get(path)
