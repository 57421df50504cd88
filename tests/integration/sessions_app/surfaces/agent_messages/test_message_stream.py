"""Streams of the agent-message protocol with the real engine: no gaps, no duplicates, no open ends."""

import json
import threading
from typing import Any

import pytest

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply, ScriptedProvider
from audit_app.kernel.database import in_db
from sessions_app.surfaces.agent_messages.wire_format import AgentMessageType, Compact
from tests.support.agents import TURN_ENDS, AgentCaller
from tests.support.approvals import Launch, wants_to_launch
from tests.support.conditions import eventually
from tests.support.engine import EngineRig, until
from tests.support.team_script import TeamScript
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

CHUNK = AgentMessageType.STREAMING_CHUNK


def stored(messages: list[Compact]) -> list[Compact]:
    """Return the messages without chunks and resets of live text."""
    return [one for one in messages if one["t"] != CHUNK and (one.get("d") or {}).get("event_class") != "stream_reset"]


def text_of(messages: list[Compact]) -> str:
    """Return the live text as a client concatenates it."""
    text = ""
    for message in messages:
        if message["t"] == CHUNK and not message["i"].endswith(".reasoning"):
            text += message.get("m", "")
        elif (message.get("d") or {}).get("event_class") == "stream_reset":
            text = ""
    return text


def kinds(messages: list[Compact]) -> list[str]:
    return [AgentMessageType(message["t"]).name for message in messages]


async def test_a_turn_is_streamed_as_it_is_stored(rig: EngineRig, caller: AgentCaller) -> None:
    calls, half, most = (ToolCall("c1", "echo", json.dumps({"text": "x"})),), threading.Event(), threading.Event()
    first = Reply(("Let me ", "see."), reasoning="Hm.", tool_calls=calls, held_by=half)
    await in_db(rig.agent, first, Reply(("It ", "is ", "done."), held_by=most))
    run = await in_db(caller.start, "go")
    async with caller.stream(f"agents/{run['id']}/stream") as stream:
        for begun, seen_of_it in (("Let me ", half), ("It is ", most)):
            await stream.until_true(lambda seen, begun=begun: text_of(seen).endswith(begun))
            seen_of_it.set()
        messages = list(await stream.until(*TURN_ENDS))
    assert stream.status == 200 and stream.headers["content-type"].startswith("text/event-stream")
    assert "content-encoding" not in stream.headers and stream.comments[0] == ": connected"
    assert kinds(stored(messages)) == ["QUESTION", "THOUGHT", "THOUGHT", "THOUGHT", "THOUGHT", "ANSWER", "IDLE"]
    assert stored(messages) == await in_db(caller.messages, run["id"])
    assert [float(one) for one in stream.ids] == [message["ts"] for message in messages]
    preamble, answer = stored(messages)[2], stored(messages)[-2]
    assert preamble["d"]["display_role"] == "tool_preamble" and preamble["m"] == "Let me see."
    for final in (preamble, answer):
        chunks = [one for one in messages if one["t"] == CHUNK and one["i"] == final["d"]["activity_id"]]
        assert "".join(one.get("m", "") for one in chunks) == final["m"]
        assert [one.get("f", 0) for one in chunks] == [0] * (len(chunks) - 1) + [1]


async def test_a_client_resumes_at_any_position_without_gaps_or_duplicates(rig: EngineRig, caller: AgentCaller) -> None:
    words, came_back = tuple(f"word{number} " for number in range(60)), threading.Event()
    await in_db(rig.agent, Reply(words, delay_seconds=0.02, held_by=came_back))
    run = await in_db(caller.start, "go")
    seen: list[Compact] = []
    since, path = 0.0, f"agents/{run['id']}/stream"

    def has_enough(new: list[Compact]) -> bool:
        return len(new) >= 4 or text_of([*seen, *new]) == "".join(words[:-1])  # nothing else is sent yet

    for _ in range(4):
        async with caller.stream(path, f"skipHistory=true&since={since}" if since else "") as stream:
            seen += await stream.until_true(has_enough)
        since = max(message["ts"] for message in seen)
        assert "".join(words).startswith(text_of(seen))
    async with caller.stream(path, f"skipHistory=true&since={since}") as stream:
        await stream.begun()
        came_back.set()
        seen += list(await stream.until(*TURN_ENDS))
    assert text_of(seen) == "".join(words) == stored(seen)[-2]["m"]
    assert stored(seen) == await in_db(caller.messages, run["id"])


async def test_a_client_resumes_with_last_event_id(rig: EngineRig, caller: AgentCaller) -> None:
    await in_db(rig.agent, Reply(("One.",)))
    run = await in_db(caller.start, "go")
    all_of_them = await eventually(lambda: len(found := caller.messages(run["id"])) == 3 and found)
    async with caller.stream(f"agents/{run['id']}/stream", Last_Event_ID=str(all_of_them[0]["ts"])) as stream:
        assert await stream.until(*TURN_ENDS) == all_of_them[1:]


async def test_a_client_clock_that_is_ahead_loses_no_recent_messages(rig: EngineRig, caller: AgentCaller) -> None:
    await in_db(rig.agent, Reply(("One.",)))
    run = await in_db(caller.start, "go")
    all_of_them = await eventually(lambda: len(found := caller.messages(run["id"])) == 3 and found)
    ahead = all_of_them[-1]["ts"] + 3_600_000
    async with caller.stream(f"agents/{run['id']}/stream", f"skipHistory=true&since={ahead}") as stream:
        assert await stream.until(*TURN_ENDS) == all_of_them


async def test_a_stream_without_history_starts_with_the_next_message(rig: EngineRig, caller: AgentCaller) -> None:
    await in_db(rig.agent, Reply(("One.",)), Reply(("Two.",)))
    run = await in_db(caller.start, "go")
    await eventually(lambda: caller.messages(run["id"])[-1]["t"] in TURN_ENDS)
    async with caller.stream(f"agents/{run['id']}/stream", "skipHistory=true") as stream:
        await stream.begun()
        await in_db(caller.send, run["id"], "more", "m-2")
        messages = stored(list(await stream.until(*TURN_ENDS)))
    assert [message.get("m") for message in messages] == ["more", "Two.", None]
    assert messages[0]["d"]["ack"] == "m-2"


async def test_a_run_that_is_not_interactive_ends_its_stream(rig: EngineRig, caller: AgentCaller) -> None:
    await in_db(rig.agent, Reply(("Forty-two.",)))
    run = await in_db(caller.start, "go", interactive=False)
    async with caller.stream(f"agents/{run['id']}/stream") as stream:
        messages = stored(list(await stream.ended()))
    assert (kinds(messages)[-2:], messages[-1]["m"]) == (["ANSWER", "COMPLETE"], "Forty-two.")
    found = (await in_db(caller, "GET", f"agents/{run['id']}")).data
    assert found["status"] == "completed" and found["completed_at"]
    refused = await in_db(caller.send, run["id"], "more")
    assert (refused.status, refused.data["code"]) == (409, "run_ended")
    async with caller.stream(f"agents/{run['id']}/stream") as stream:  # it is over: frames, and ended
        assert stored(list(await stream.ended())) == messages


async def test_a_failed_turn_has_its_error_and_the_run_continues(rig: EngineRig, caller: AgentCaller) -> None:
    await in_db(rig.agent, Reply(("Half an ",), error="model_bad_request"), Reply(("Well.",)))
    run = await in_db(caller.start, "go")
    async with caller.stream(f"agents/{run['id']}/stream") as stream:
        messages = stored(list(await stream.until(*TURN_ENDS)))
    assert kinds(messages) == ["QUESTION", "ANSWER", "ERROR", "IDLE"] and messages[1]["d"]["partial"]
    await in_db(caller.send, run["id"], "again", "m-2")
    await eventually(lambda: caller.messages(run["id"])[-2].get("m") == "Well.")


async def test_a_failed_run_is_retried_by_a_restart(rig: EngineRig, caller: AgentCaller) -> None:
    await in_db(rig.agent, Reply(error="model_bad_request"), Reply(("Well.",)))
    run = await in_db(caller.start, "go", interactive=False)
    async with caller.stream(f"agents/{run['id']}/stream") as stream:
        assert kinds(stored(list(await stream.ended())))[-2:] == ["ERROR", "COMPLETE"]
    assert (await in_db(caller, "GET", f"agents/{run['id']}")).data["status"] == "failed"
    again = (await in_db(caller, "POST", f"agents/{run['id']}/restart")).data
    assert (again["id"], again["status"]) == (run["id"], "running")
    async with caller.stream(f"agents/{run['id']}/stream") as stream:
        messages = stored(list(await stream.ended()))
    assert kinds(messages)[2:] == ["COMPLETE", "RESTARTING", "ANSWER", "COMPLETE"] and messages[-1]["m"] == "Well."


async def test_a_restarted_run_accepts_messages(rig: EngineRig, caller: AgentCaller) -> None:
    await in_db(rig.agent, Reply(("One.",)), Reply(("Two.",)))
    run = (await in_db(caller.start, "go", interactive=False))["id"]
    await eventually(lambda: caller.messages(run)[-1]["t"] == AgentMessageType.COMPLETE)
    await in_db(caller, "POST", f"agents/{run}/restart")
    assert (await in_db(caller, "POST", f"agents/{run}/restart")).data["status"] == "running"  # idempotent
    await in_db(caller.send, run, "more", "m-2")
    messages = await eventually(lambda: (found := caller.messages(run))[-1]["t"] == AgentMessageType.COMPLETE and found)
    assert kinds(messages)[2:] == ["COMPLETE", "RESTARTING", "IDLE", "QUESTION", "ANSWER", "COMPLETE"]
    assert (await in_db(caller, "GET", f"agents/{run}")).data["status"] == "completed"


async def test_a_question_is_answered_once(rig: EngineRig, caller: AgentCaller) -> None:
    arguments = json.dumps({"question": "Which?", "options": ["red", "blue"]})
    await in_db(rig.agent, Reply(tool_calls=(ToolCall("c1", "ask_user", arguments),)), Reply(("Blue it is.",)))
    run = (await in_db(caller.start, "go"))["id"]
    asked = await eventually(lambda: (found := caller.messages(run))[-1]["t"] == 9 and found[-1])
    state = (await in_db(caller, "GET", f"agents/{run}")).data
    assert (state["status"], state["activity_state"]) == ("running", "idle")
    response = {"request_input_response": {"request_id": asked["d"]["request_id"]}}
    for _ in range(2):
        assert (await in_db(caller.send, run, "blue", "m-2", **response)).status == 200
    messages = await eventually(lambda: (found := caller.messages(run))[-1]["t"] == 10 and found)
    (answer,) = [message for message in messages if (message.get("d") or {}).get("ack") == "m-2"]
    assert answer["d"]["request_input_response"] == response["request_input_response"]
    assert messages[-2]["m"] == "Blue it is."


@pytest.mark.parametrize(
    ("text", "decision", "launched", "outcome"),
    [
        ("allow_once", "allow_once", ["moon"], "auto_approved"),
        ("Not today.", "deny_with_feedback", [], "denied_with_feedback"),
        ("allow_once", "", ["moon"], "auto_approved"),
    ],
)
async def test_an_approval_request_is_decided_by_a_signal(
    rig: EngineRig,
    caller: AgentCaller,
    launch: type[Launch],
    settings: Any,
    text: str,
    decision: str,
    launched: list[str],
    outcome: str,
) -> None:
    settings.KOMAND_APPROVERS = "owners"
    await in_db(wants_to_launch, rig)
    run = (await in_db(caller.start, "go"))["id"]
    asked = await eventually(lambda: (found := caller.messages(run))[-1]["t"] == 9 and found[-1])
    metadata: dict[str, Any] = {}
    if decision:
        metadata["request_input_response"] = {"request_id": asked["d"]["request_id"]}
        metadata["tool_approval_response"] = {"decision": decision, "approval_key": "x"}
    for _ in range(2):
        assert (await in_db(caller.send, run, text, "m-2", **metadata)).status == 200
    messages = await eventually(lambda: (found := caller.messages(run))[-1]["t"] == 10 and found)
    assert launch.launched == launched
    assert [one["d"]["approval_decision"] for one in messages if one["t"] == 3] == [outcome]
    assert len([one for one in messages if (one.get("d") or {}).get("ack") == "m-2"]) == 1


async def test_a_user_who_may_not_decide_sees_that_an_operator_must(
    rig: EngineRig, caller: AgentCaller, launch: type[Launch]
) -> None:
    await in_db(wants_to_launch, rig)
    run = (await in_db(caller.start, "go"))["id"]
    waiting = await eventually(lambda: (last := caller.messages(run)[-1])["t"] == AgentMessageType.UPDATE and last)
    assert "operator" in waiting["m"]
    request = {"request_input_response": {"request_id": waiting["d"]["request_id"]}}
    assert (await in_db(caller.send, run, "allow_once", "m-2", **request)).status == 403
    assert launch.launched == []


async def test_a_stop_is_acknowledged_once_and_messages_interrupt(rig: EngineRig, caller: AgentCaller) -> None:
    await in_db(rig.agent, Reply(("Going on ",), hangs=True), Reply(("Again ",), hangs=True), Reply(("Done.",)))
    run = (await in_db(caller.start, "go"))["id"]
    async with caller.stream(f"agents/{run}/stream") as stream:
        await stream.until(CHUNK)
        for _ in range(2):
            await in_db(caller, "POST", f"agents/{run}/signal/Stop", {"client_message_id": "s-1"})
        messages = stored(list(await stream.until(*TURN_ENDS)))
        assert kinds(messages) == ["QUESTION", "ANSWER", "IDLE"] and messages[-1]["d"]["ack"] == "s-1"
        await in_db(caller.send, run, "again", "m-2")
        await stream.until(CHUNK, count=3)
        await in_db(caller.send, run, "instead", "m-3")
        messages = stored(list(await stream.until(*TURN_ENDS, count=2)))
    assert kinds(messages[3:]) == ["QUESTION", "QUESTION", "ANSWER", "ANSWER", "IDLE"]
    await in_db(caller, "POST", f"agents/{run}/signal/Stop", {"client_message_id": "s-1"})
    assert await in_db(caller.messages, run) == messages


async def test_ending_a_run_closes_its_streams(rig: EngineRig, caller: AgentCaller) -> None:
    await in_db(rig.agent, Reply(("Going on ",), hangs=True))
    run = (await in_db(caller.start, "go"))["id"]
    async with caller.stream(f"agents/{run}/stream") as stream:
        await stream.until(CHUNK)
        frames = (await in_db(caller, "DELETE", f"agents/{run}?reason=enough")).data
        assert frames["reason"] == "enough"
        assert (await in_db(caller, "GET", f"agents/{run}")).data["status"] == "cancelled"
        messages = stored(list(await stream.ended()))
    assert (kinds(messages)[-2:], messages[-1]["m"]) == (["ANSWER", "TERMINATED"], "enough")
    await in_db(caller, "DELETE", f"agents/{run}")
    assert await in_db(caller.messages, run) == messages


async def test_a_fork_has_the_history_and_is_independent(rig: EngineRig, caller: AgentCaller) -> None:
    script = await in_db(rig.agent, Reply(("One.",)), Reply(("Two.",)), Reply(("Three.",)))
    run = (await in_db(caller.start, "first"))["id"]
    before = await eventually(lambda: (found := caller.messages(run))[-1]["t"] == 10 and found)
    fork = (await in_db(caller, "POST", f"agents/{run}/fork")).data
    assert fork["forked_from"] == run != fork["id"]
    await in_db(caller.send, fork["id"], "second", "m-2")
    branch = await eventually(lambda: len(found := caller.messages(fork["id"])) == 7 and found)
    assert branch[:3] == before and kinds(branch[3:]) == ["IDLE", "QUESTION", "ANSWER", "IDLE"]
    times = [message["ts"] for message in branch]
    assert times == sorted(set(times))
    assert [message.content for message in script.requests[-1].messages[1:]] == ["first", "One.", "second"]
    again = (await in_db(caller, "POST", f"agents/{fork['id']}/fork")).data["id"]
    assert (await in_db(caller.messages, again))[:7] == branch
    assert await in_db(caller.messages, run) == before


async def test_a_socket_carries_messages_and_signals(rig: EngineRig, caller: AgentCaller) -> None:
    await in_db(rig.agent, Reply(("One.",)), Reply(("Two.",)))
    run = (await in_db(caller.start, "go"))["id"]
    async with caller.socket(run) as socket:
        seen: list[dict[str, Any]] = []

        async def until_seen(found: Any) -> None:
            while not found(seen):
                seen.append(json.loads(await socket.receive_from(timeout=60)))

        await until_seen(lambda frames: any(frame.get("t") == 10 for frame in frames))
        for frame in ({"type": "ping"}, {"type": "signal", "signalName": "Dance", "requestId": 1}, {"type": "odd"}):
            await socket.send_to(text_data=json.dumps(frame))
        await socket.send_to(text_data="{")
        body = {"message": "more", "client_message_id": "m-2"}
        await socket.send_to(
            text_data=json.dumps({"type": "signal", "signalName": "UserInput", "data": body, "requestId": "r-2"})
        )
        await until_seen(lambda frames: sum(frame.get("t") == 10 for frame in frames) == 2)
        await until_seen(lambda frames: any(frame.get("type") == "ack" for frame in frames))
    frames = [frame for frame in seen if "type" in frame]
    assert [(frame["type"], frame.get("requestId")) for frame in frames] == [
        ("pong", None),
        ("error", 1),
        ("error", None),
        ("error", None),
        ("ack", "r-2"),
    ]
    assert stored([frame for frame in seen if "t" in frame]) == await in_db(caller.messages, run)


async def test_the_history_of_a_record_is_streamed_by_name(rig: EngineRig, caller: AgentCaller) -> None:
    await in_db(rig.agent, Reply(("One.",)))
    run = (await in_db(caller.start, "go", interactive=False))["id"]
    async with caller.stream(f"agents/{run}/details/stream") as stream:
        await stream.ended()
    names = [line.removeprefix(b"event: ") for line in stream.body.split(b"\n") if line.startswith(b"event: ")]
    assert set(names[:-1]) == {b"history"} and names[-1] == b"control"
    assert b'data: {"type":"done"}' in stream.body


async def test_only_owners_can_open_streams(rig: EngineRig, caller: AgentCaller) -> None:
    await in_db(rig.agent, Reply(("One.",)))
    run = (await in_db(caller.start, "go"))["id"]
    for bearer, status in (("", 401), ("nonsense", 401)):
        async with AgentCaller(bearer=bearer or " ").stream(f"agents/{run}/stream") as stream:
            await stream.ended()
            assert stream.status == status and json.loads(stream.body)["status"] == status
    for path in (f"workflows/runs/other/{run}/stream", "agents/nothing/stream", "agents/nothing/details/stream"):
        async with caller.stream(path) as stream:
            await stream.ended()
            assert stream.status == 404
    async with caller.stream(f"agents/{run}/stream", "since=soon") as stream:
        await stream.ended()
        assert stream.status == 400


def test_the_agent_gets_the_files_once_their_batch_is_closed(rig: EngineRig, caller: AgentCaller) -> None:
    script = rig.agent(Reply(("Read.",)))
    run = caller("POST", "agents", {"interaction": "default", "interactive": True}).data["id"]
    caller("PUT", caller("PUT", f"agents/{run}/artifacts/files/a.txt").data["url"], b"x", Content_Type="text/plain")
    file = {"id": "f1", "name": "a.txt", "content_type": "text/plain", "artifact_path": "files/a.txt"}
    caller("POST", f"agents/{run}/signal/FileUploaded", file)
    caller("POST", f"agents/{run}/signal/FileUploaded", {**file, "id": "f2", "artifact_path": "files/b.txt"})
    snapshot = caller.messages(run)[-1]["d"]
    assert [(one["id"], one["status"]) for one in snapshot["files"]] == [("f1", "ready"), ("f2", "error")]
    assert (snapshot["ready_count"], snapshot["error_count"]) == (1, 1)
    caller("POST", f"agents/{run}/signal/FileRemoved", {"id": "f2"})
    batch = {"batch_id": "b1", "file_ids": ["f1"], "failed_uploads": [{"name": "c.txt", "error": "too big"}]}
    for _ in range(2):
        assert caller("POST", f"agents/{run}/signal/FileBatchClosed", batch).data["status"] == "success"
    until(lambda: caller.messages(run)[-1]["t"] == 10 and len(script.requests) == 1)
    frames = script.requests[0].messages[-1].content
    assert "a.txt (text/plain, 1 bytes): files/a.txt" in frames and "c.txt: could not be uploaded, too big" in frames
    snapshots = [message["d"]["files"] for message in caller.messages(run) if message["t"] == 0]
    assert "consumed_at" in snapshots[-1][0]


def test_denied_tools_are_not_offered(rig: EngineRig, caller: AgentCaller) -> None:
    script = rig.agent(Reply(("Done.",)))
    run = caller.start("go", excluded_tools=["echo"], tool_names=["echo", "calculator"])["id"]
    until(lambda: len(caller.messages(run)) >= 3)
    assert [spec.name for spec in script.requests[0].tools] == ["calculator"]


async def test_a_message_to_a_workstream_is_its_question_and_interrupts_nothing(
    rig: EngineRig, caller: AgentCaller
) -> None:
    go_on = threading.Event()
    launches = [
        ToolCall(name, "launch_workstream", json.dumps({"id": name, "instruction": "dig", "interactive": name == "a"}))
        for name in "ab"
    ]
    await in_db(rig.agent, Reply(), tool_profile="teams")
    ScriptedProvider.scripts["script"] = TeamScript(
        [Reply(tool_calls=tuple(launches)), Reply(("Started.",)), Reply(("Both.",))],
        {"a": [Reply(("First.",)), Reply(("Second.",))], "b": [Reply(("Beta.",), held_by=go_on)]},
    )
    run = await in_db(caller.start, "go")
    await eventually(lambda: Run.objects.filter(workstream="a", waiting_on="parent").exists())
    given = {"message": "And the second?", "client_message_id": "m-2", "workstream_id": "a"}
    for _ in range(2):
        sent = await in_db(caller, "POST", f"agents/{run['id']}/signal/UserInput", given)
        assert sent.status == 200 and sent.data["status"] == "success"
    unknown = await in_db(caller, "POST", f"agents/{run['id']}/signal/UserInput", {**given, "workstream_id": "c"})
    assert (unknown.status, unknown.data["code"]) == (404, "unknown_workstream")
    await eventually(lambda: Run.objects.filter(workstream="a", answer="Second.", waiting_on="parent").exists())
    go_on.set()
    messages = await eventually(
        lambda: (found := caller.messages(run["id"])) and found[-1]["t"] in TURN_ENDS and "w" not in found[-1] and found
    )
    asked = [one for one in messages if one["t"] == AgentMessageType.QUESTION and one.get("w") == "a"]
    assert [(one["m"], one["d"]["ack"]) for one in asked] == [("And the second?", "m-2")]
    after = messages[messages.index(asked[0]) :]
    assert [one["m"] for one in after if one["t"] == AgentMessageType.ANSWER and one.get("w") == "a"] == ["Second."]
    assert not await in_db(Run.objects.filter(workstream="b", status="cancelled").exists)


def of_workstream(messages: list[Compact]) -> list[Compact]:
    return [message for message in messages if message.get("w") == "a"]


async def test_the_text_of_a_workstream_is_streamed_and_comes_whole_to_a_client_that_resumes(
    rig: EngineRig, caller: AgentCaller
) -> None:
    main_goes_on, child_goes_on = threading.Event(), threading.Event()
    launch = ToolCall("c1", "launch_workstream", json.dumps({"id": "a", "instruction": "dig"}))
    await in_db(rig.agent, Reply(), tool_profile="teams")
    ScriptedProvider.scripts["script"] = TeamScript(
        [Reply(tool_calls=(launch,)), Reply(("It ", "works."), held_by=main_goes_on), Reply(("Done.",))],
        {"a": [Reply(("Half ", "of ", "it."), held_by=child_goes_on)]},
    )
    run = await in_db(caller.start, "go")
    path = f"agents/{run['id']}/stream"

    def has_both(seen: list[Compact]) -> bool:
        main = [message for message in seen if "w" not in message]
        return text_of(of_workstream(seen)) == "Half of " and text_of(main) == "It "

    async with caller.stream(path) as stream:
        first = list(await stream.until_true(has_both))
    times = [message["ts"] for message in first]
    assert times == sorted(times), "a chunk of a workstream moves no position back"
    async with caller.stream(path, f"skipHistory=true&since={times[-1]}") as stream:
        await stream.until_true(lambda new: text_of(of_workstream(new)) == "Half of ")
        main_goes_on.set()
        await stream.until_true(lambda new: any("w" not in one and one.get("f") for one in new))
        child_goes_on.set()
        seen = [*first, *await stream.until(AgentMessageType.IDLE)]
    assert stored(seen) == await in_db(caller.messages, run["id"])
    (result,) = [one for one in of_workstream(seen) if one["t"] == AgentMessageType.ANSWER]
    chunks = [one for one in of_workstream(seen) if one["t"] == CHUNK]
    assert result["m"] == "Half of it." and result["m"].startswith(text_of(of_workstream(seen)) or "-")
    assert {one["i"] for one in chunks} == {result["d"]["activity_id"]} and chunks[-1]["f"] == 1
    main = [one.get("m", "") for one in seen if one["t"] == CHUNK and "w" not in one]
    assert "".join(main) == "It works.Done."
