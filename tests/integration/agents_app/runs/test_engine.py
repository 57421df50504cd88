"""The engine with a database, Valkey and a scripted model: the stored result of runs."""

import json
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.db import OperationalError

from agents_app import conversation_port
from agents_app import services as runs
from agents_app.errors import IdempotencyMismatch, QueueFull, RunBusy
from agents_app.models import Run, Step
from agents_app.prompt.tool_output_markers import unmark
from agents_app.providers.kinds.scripted import Reply
from agents_app.runs import lease
from agents_app.runs.reaper import Reaper
from agents_app.types import RunStatus, RunTranscript
from audit_app.kernel.errors import InvalidInput
from audit_app.models import AuditEntry, Event
from sessions_app.conversation import receive_message
from sessions_app.integrity_checks import find_violations
from sessions_app.models import Session, Turn
from sessions_app.services import NewMessage, open_session, receive
from tests.support.engine import EngineRig, until
from tools_app.types import ExecutionStatus, ToolCall

pytestmark = pytest.mark.django_db(transaction=True)


def call(name: str, number: int = 1, **arguments: object) -> ToolCall:
    return ToolCall(f"call_{number}", name, json.dumps(arguments))


def turns(accepted: object) -> list[tuple[str, str]]:
    return [(turn.role, turn.content) for turn in Turn.objects.order_by("ordinal", "part")]


def test_a_plain_message_is_answered_once_and_stored(rig: EngineRig) -> None:
    rig.agent(Reply(("Hel", "lo", "!")))
    transcript = rig.wait(rig.send("hi").run_id)
    assert transcript.run.status is RunStatus.COMPLETED
    assert turns(None) == [("user", "hi"), ("assistant", "Hello!")]
    assert [event.type for event in Event.objects.order_by("seq")] == [
        "session.created",
        "message.received",
        "run.queued",
        "run.started",
        "message.completed",
        "run.completed",
    ]


def test_data_that_the_dialect_needs_back_is_stored_and_sent_within_the_run(rig: EngineRig) -> None:
    state = {"dialect": "scripted", "signature": "opaque-signature"}
    first = Reply(reasoning="Hm.", tool_calls=(call("echo", text="a"),), dialect_state=state)
    script = rig.agent(first, Reply(("Done.",), reasoning="So."), parallel_tool_calls=False)
    rig.wait(rig.send().run_id)
    rig.wait(rig.send("again").run_id)
    own = [message for message in script.requests[1].messages if message.role == "assistant"]
    assert [(message.reasoning, message.dialect_state) for message in own] == [("Hm.", state)]
    later = [message for message in script.requests[2].messages if message.role == "assistant"]
    assert [(message.reasoning, message.dialect_state) for message in later] == [("", None), ("", None)]
    assert [step.dialect_state for step in Step.objects.order_by("started_at")] == [state, None, None]
    assert {request.parallel_tool_calls for request in script.requests} == {False}
    shown = json.dumps([event.payload for event in Event.objects.all()], default=str)
    assert "opaque-signature" not in shown


def test_timeline_numbers_have_no_gap_and_times_rise(rig: EngineRig) -> None:
    rig.agent(Reply(("one",)))
    rig.wait(rig.send().run_id)
    rig.wait(rig.send().run_id)
    events = list(Event.objects.order_by("seq"))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert all(earlier.ts < later.ts for earlier, later in zip(events, events[1:], strict=False))


def test_parallel_tools_run_and_their_results_reach_the_model(rig: EngineRig) -> None:
    script = rig.agent(
        Reply(("Let me see. ",), tool_calls=(call("echo", 1, text="a"), call("echo", 2, text="b"))), Reply(("Done.",))
    )
    transcript = rig.wait(rig.send("go").run_id)
    assert [execution.status for execution in transcript.executions] == [ExecutionStatus.COMPLETED] * 2
    roles = [message.role for message in script.requests[1].messages]
    assert roles == ["system", "user", "assistant", "tool", "tool"]
    assert [role for role, _ in turns(None)] == ["user", "assistant", "tool", "tool", "assistant"]
    answer = Turn.objects.get(is_answer=True)
    assert answer.content == "Done."
    assert answer.tool_call_ids == [str(execution.id) for execution in transcript.executions]


def test_the_next_message_sees_the_whole_history(rig: EngineRig) -> None:
    script = rig.agent(Reply(tool_calls=(call("echo", text="a"),)), Reply(("First.",)), Reply(("Second.",)))
    rig.wait(rig.send("one").run_id)
    rig.wait(rig.send("two").run_id)
    sent = [(message.role, message.content) for message in script.requests[-1].messages[1:]]
    assert [role for role, _ in sent] == ["user", "assistant", "tool", "assistant", "user"]
    assert sent[-1] == ("user", "two")


@pytest.mark.parametrize(
    "wrong",
    [
        ToolCall("c", "no_such_tool", "{}"),
        ToolCall("c", "echo", '{"text": '),
        ToolCall("c", "echo", '{"text": 7}'),
        ToolCall("c", "echo", "[]"),
    ],
    ids=["unknown tool", "broken JSON", "wrong type", "no object"],
)
def test_a_wrong_tool_call_goes_back_to_the_model_as_an_error(rig: EngineRig, wrong: ToolCall) -> None:
    script = rig.agent(Reply(tool_calls=(wrong,)), Reply(("Sorry.",)))
    transcript = rig.wait(rig.send().run_id)
    assert transcript.run.status is RunStatus.COMPLETED
    assert transcript.executions[0].status is ExecutionStatus.FAILED
    assert unmark(script.requests[1].messages[-1].content).startswith("[Failed]")
    assert AuditEntry.objects.filter(action="ToolExecutionFailed").count() == 1


def test_a_model_that_loops_on_tools_ends_readably_after_its_rounds(rig: EngineRig) -> None:
    script = rig.agent(Reply(tool_calls=(call("echo", text="again"),)), max_tool_rounds=3)
    transcript = rig.wait(rig.send().run_id)
    assert (transcript.run.status, transcript.run.error_code) == (RunStatus.FAILED, "tool_rounds_exceeded")
    assert [request.may_call_tools for request in script.requests] == [True, True, True, False]
    answer = Turn.objects.get(is_answer=True)
    assert answer.state == "error"
    assert "3 times" in answer.error_message


def test_a_passing_fault_is_retried_and_the_text_starts_again(rig: EngineRig, valkey: Any) -> None:
    rig.agent(Reply(("half an ans",), error="model_error"), Reply(("The answer.",)))
    accepted = rig.send()
    transcript = rig.wait(accepted.run_id)
    assert transcript.answer == "The answer."
    assert Event.objects.filter(type="run.waiting").count() == 1
    entries = [json.loads(fields["e"]) for _, fields in valkey.xrange(f"komand:run:{accepted.run_id}")]
    kinds = [entry["type"] for entry in entries]
    assert kinds == ["run.claimed", "text.delta", "run.claimed", "message.reset", "text.delta"]


def test_a_permanent_error_is_in_the_session_the_run_and_the_audit_log(rig: EngineRig) -> None:
    rig.agent(Reply(error="model_auth"))
    transcript = rig.wait(rig.send().run_id)
    assert (transcript.run.status, transcript.run.error_code) == (RunStatus.FAILED, "model_auth")
    assert Turn.objects.get(is_answer=True).error_message == transcript.run.error_message != ""
    assert AuditEntry.objects.filter(action="RunFailed", details__code="model_auth").exists()


def test_stopping_keeps_the_partial_text_and_ends_the_call(rig: EngineRig, valkey: Any) -> None:
    script = rig.agent(Reply(("Once upon a time",), hangs=True))
    accepted = rig.send()
    until(lambda: b"text.delta" in str(valkey.xrange(f"komand:run:{accepted.run_id}")).encode())
    assert runs.cancel_run(accepted.run_id)
    transcript = rig.wait(accepted.run_id)
    assert transcript.run.status is RunStatus.CANCELLED
    answer = Turn.objects.get(is_answer=True)
    assert (answer.content, answer.state) == ("Once upon a time", "partial")
    assert script.cancelled == 1
    assert not runs.cancel_run(accepted.run_id)


def test_a_run_that_uses_up_its_time_ends_with_what_it_had(rig: EngineRig) -> None:
    rig.agent(Reply(("So far",), hangs=True), max_active_seconds=1)
    transcript = rig.wait(rig.send().run_id)
    assert (transcript.run.status, transcript.run.error_code) == (RunStatus.TIMED_OUT, "time_limit")
    assert Turn.objects.get(is_answer=True).content == "So far"


def test_messages_to_a_busy_session_are_answered_in_order(rig: EngineRig) -> None:
    rig.agent(*[Reply((f"answer {number}",)) for number in range(5)])
    accepted = [rig.send(f"question {number}") for number in range(5)]
    for one in accepted:
        rig.wait(one.run_id)
    expected = [pair for n in range(5) for pair in (("user", f"question {n}"), ("assistant", f"answer {n}"))]
    assert turns(None) == expected


def test_a_full_queue_refuses_and_stores_nothing(rig: EngineRig) -> None:
    rig.agent(Reply(hangs=True), queue_limit=2)
    for _ in range(3):
        rig.send()
    with pytest.raises(QueueFull):
        rig.send()
    assert (Run.objects.count(), Turn.objects.count(), Session.objects.get().message_count) == (3, 3, 3)


def test_reject_refuses_a_second_message(rig: EngineRig) -> None:
    rig.agent(Reply(hangs=True))
    rig.send()
    with pytest.raises(RunBusy):
        rig.send(busy="reject")


def test_the_same_idempotency_key_gives_the_first_run_and_another_text_is_refused(rig: EngineRig) -> None:
    rig.agent(Reply(("yes",)))
    first = rig.send("hello", idempotency_key="k1")
    rig.wait(first.run_id)
    again = rig.send("hello", idempotency_key="k1")
    assert (again.run_id, again.is_duplicate) == (first.run_id, True)
    with pytest.raises(IdempotencyMismatch):
        rig.send("other", idempotency_key="k1")
    assert Run.objects.count() == 1


def test_a_first_message_sent_again_is_the_same_though_its_session_is_there_by_now(rig: EngineRig) -> None:
    rig.agent(Reply(("once",)))
    first = rig.send("hi", idempotency_key="k")
    again = rig.send("hi", idempotency_key="k", session=Session.objects.get())
    assert (again.run_id, again.is_duplicate) == (first.run_id, True)


@pytest.mark.parametrize("busy", ["reject", "queue"])
def test_the_same_message_twice_at_once_is_no_busy_session(
    rig: EngineRig, monkeypatch: pytest.MonkeyPatch, busy: str
) -> None:
    """The second request looks for the first before that is stored."""
    rig.agent(Reply(hangs=True), queue_limit=0)
    first, find, looks = rig.send("hi", idempotency_key="k", busy=busy), receive_message._find_prior, [None]
    monkeypatch.setattr(receive_message, "_find_prior", lambda message: looks.pop() if looks else find(message))
    assert rig.send("hi", idempotency_key="k", busy=busy).run_id == first.run_id


def test_a_sender_whose_session_id_no_column_holds_is_refused(rig: EngineRig) -> None:
    rig.agent()
    with pytest.raises(InvalidInput, match="percent-encoded"):
        receive(NewMessage("WebChat", "default", "ж" * 200, "Alice", "hi"), owner=rig.owner)


def test_a_failed_message_can_be_tried_again(rig: EngineRig) -> None:
    script = rig.agent(Reply(error="model_bad_request"), Reply(("Now it works.",)))
    failed = rig.send("please")
    rig.wait(failed.run_id)
    again = rig.wait(runs.retry_run(failed.run_id, actor="user:1"))
    assert again.run.status is RunStatus.COMPLETED
    assert [message.content for message in script.requests[1].messages[1:]] == ["please"]
    assert turns(None) == [("user", "please"), ("assistant", ""), ("assistant", "Now it works.")]


def test_lost_nudges_only_cost_time(rig: EngineRig) -> None:
    rig.agent(Reply(tool_calls=(call("echo", text="a"),)), Reply(("Done.",)))
    lost: list[str] = []

    def once_each(task_name: str) -> bool:
        lost.append(task_name)
        return lost.count(task_name) == 1

    rig.drops = once_each
    transcript = rig.wait(rig.send().run_id, seconds=20)
    assert transcript.run.status is RunStatus.COMPLETED
    assert Step.objects.count() == 2


def test_the_audit_log_rebuilds_the_whole_conversation(rig: EngineRig) -> None:
    rig.agent(Reply(tool_calls=(call("echo", text="a"), call("nothing", 2))), Reply(("Done.",)))
    accepted = rig.send("go")
    rig.wait(accepted.run_id)
    entries = AuditEntry.objects.filter(session_id=accepted.session_id).order_by("id")
    actions = [entry.action for entry in entries]
    assert actions[:2] == ["SessionCreated", "MessageReceived"]
    assert actions[-1] == "MessageSent"
    assert sorted(actions[2:-1]) == [
        "ToolCallRequested",
        "ToolCallRequested",
        "ToolExecutionCompleted",
        "ToolExecutionFailed",
        "ToolExecutionStarted",
    ]
    named = {entry.details["turn_id"] for entry in entries if "turn_id" in entry.details}
    assert named == {str(turn.id) for turn in Turn.objects.filter(role="user") | Turn.objects.filter(is_answer=True)}
    executions = {entry.details["execution_id"] for entry in entries if "execution_id" in entry.details}
    assert executions == {str(one.id) for one in rig.wait(accepted.run_id).executions}
    assert all(entry.details.get("run_id") in (None, str(accepted.run_id)) for entry in entries)


def test_a_freed_slot_claims_the_run_whose_nudge_was_ignored(rig: EngineRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no slot looks for ever when there is no run to claim. The sweeper, which would nudge again, is disabled."""
    monkeypatch.setattr(Reaper, "sweep", lambda self: None)
    monkeypatch.setattr(settings, "KOMAND_RUN_SLOTS", 1)
    looks: list[object] = []
    claim = lease.claim

    def recorded_claim(owner: UUID, run_id: UUID | None = None, **given: Any) -> Any:
        looks.append(run_id)
        return claim(owner, run_id, **given)

    monkeypatch.setattr(lease, "claim", recorded_claim)
    rig.agent(Reply(("one ", "two"), delay_seconds=0.2), Reply(("three",)))
    first, second = rig.send(), rig.send(session=open_session(owner=rig.owner))
    assert rig.wait(first.run_id).answer and rig.wait(second.run_id).answer
    until(lambda: looks[-1:] == [None])  # the slot that the second run freed found nothing
    assert len(looks) <= 4


@pytest.mark.parametrize(
    "fault", [OperationalError("disk is full"), ValueError("a defect")], ids=["database", "defect"]
)
def test_an_answer_that_cannot_be_stored_at_once_is_stored_later(
    rig: EngineRig, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """With the end of its run if the database failed, else by the sweeper."""
    stored, faults = conversation_port.get().run_ended, [fault]

    def run_ended(transcript: RunTranscript) -> object:
        if faults:
            raise faults.pop()
        return stored(transcript)

    monkeypatch.setattr(conversation_port.get(), "run_ended", run_ended)
    rig.agent(Reply(("Hello!",)))
    accepted = rig.send("hi")
    rig.wait(accepted.run_id)
    until(lambda: Run.objects.get().end_stored)
    assert turns(None) == [("user", "hi"), ("assistant", "Hello!")]
    assert find_violations() == []
