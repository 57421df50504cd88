"""The projection of events to agent messages: their types, order and times."""

from typing import Any
from uuid import UUID

import pytest
from jsonschema import Draft202012Validator

from audit_app.event_types import event_types
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.agent_messages import message_types, projection
from sessions_app.surfaces.agent_messages.projection import Projection, StepTextRecord, StoredText, TurnText
from sessions_app.surfaces.agent_messages.wire_format import AgentMessageType, Compact
from sessions_app.surfaces.agent_messages.wire_schemas import COMPACT_MESSAGE
from tests.support.event_payloads import sample_payload
from tools_app.types import Decision

SESSION, RUN, OTHER = UUID(int=1), UUID(int=2), UUID(int=3)
USAGE = {"input_tokens": 10, "output_tokens": 5}
TURN_ENDS = {
    AgentMessageType.COMPLETE,
    AgentMessageType.IDLE,
    AgentMessageType.REQUEST_INPUT,
    AgentMessageType.TERMINATED,
}
SAMPLES: dict[str, dict[str, Any]] = {
    "message.received": {"turn_id": "t1", "message_id": "m-1", "note": {"metadata": {"id": "m-1"}}},
    "run.waiting": {"waiting_on": "retry", "reason": "Too many requests.", "until": "2026-01-01T00:00:00Z"},
    "model.fallback": {"from": "a/big", "to": "b/small", "code": "model_auth", "reason": "The key was refused."},
    "step.completed": {"text_length": 5},
    "message.completed": {"turn_id": "t2", "state": "complete", "text_length": 5},
    "tool.requested": {
        "execution_id": "e1",
        "call_id": "c1",
        "call_index": 0,
        "tool": "echo",
        "arguments": {"text": "x"},
    },
    "tool.completed": {"execution_id": "e1", "call_id": "c1", "tool": "echo", "output": "{}", "duration_ms": 7},
    "tool.failed": {"execution_id": "e1", "call_id": "c1", "tool": "echo", "status": "Failed", "error": "no"},
    "approval.requested": {
        "approval_id": "a1",
        "execution_id": "e1",
        "tool": "launch",
        "arguments": {"target": "moon"},
        "reason": "Risky.",
        "choices": ["allow_once", "allow_run", "deny"],
    },
    "approval.decided": {"approval_id": "a1", "tool": "launch", "status": "denied", "decision": "deny", "note": "No."},
    "input.requested": {
        "request_id": "q1",
        "execution_id": "e1",
        "question": "Which?",
        "options": ["red"],
        "questions": [],
        "allows_text": False,
    },
    "warning.raised": {"kind": "prompt_injection", "tool": "web_fetch", "action": "warn"},
    "attachments.omitted": {
        "attachments": [{"id": "1", "name": "a.png", "reason": "the model does not accept images"}]
    },
    "citations.added": {"turn_id": "t2", "citations": [{"id": "1", "uri": "https://example.org"}]},
    "update.posted": {"kind": 0, "text": "noted", "workstream": "", "details": None},
    "plan.updated": {"tasks": [{"id": 0, "goal": "Look"}, {"goal": "Tell", "status": "pending"}]},
    "progress.reported": {"text": "Reading", "percent": 40, "phase": "Sources"},
    "batch.progress": {
        "batch_id": "b1",
        "tool": "echo",
        "items": [{"id": "1", "execution_id": "e2", "status": "error", "message": "No."}],
        "started_at": 5,
        "completed_at": None,
    },
    "workstream.launched": {"workstream_id": "research", "launch_id": "l1", "run_id": str(OTHER), "agent_id": "a"},
    "workstream.progressed": {
        "run_id": "c1",
        "workstream_id": "research",
        "launch_id": "l1",
        "status": "canceling",
        "phase": "synthesizing",
        "text": "Not needed.",
    },
    "workstream.steered": {
        "run_id": "c1",
        "workstream_id": "research",
        "launch_id": "l1",
        "command": "message",
        "text": "And the second?",
        "message_id": "m7",
    },
    "workstream.ended": {"workstream_id": "research", "launch_id": "l1", "status": "canceled", "summary": "Enough."},
}
SILENT = {
    "calls.returned",
    "session.created",
    "session.bound",
    "session.renamed",
    "session.compacted",
    "session.compaction_failed",
    "message.changed",
    "message.pinned",
    "message.transcribed",
    "branch.selected",
    "run.queued",
    "run.started",
    "signal.received",
    "delivery.sent",
    "delivery.failed",
}
ENDS = {"run.completed", "run.failed", "run.cancelled", "run.timed_out"}
TEXTS = StoredText(
    {"t1": TurnText("hello"), "t2": TurnText("Hi there"), "bad": TurnText("Half", "It broke.", "model_error")},
    {(RUN, 0): StepTextRecord("Let me see.", "Hm.", ("echo",))},
    {RUN: "Hi there"},
)


class Timeline:
    """A projection with the events that it was given. Each event has its own time."""

    def __init__(self, **options: Any) -> None:
        self.projection = Projection(**{"is_interactive": True, "allowed_decisions": tuple(Decision), **options})
        self.ts = 1_795_253_425_000
        self.messages: list[Compact] = []

    def see(self, kind: str, run: UUID = RUN, texts: StoredText = TEXTS, **payload: Any) -> list[Compact]:
        self.ts += 1
        payload = {**SAMPLES.get(kind, {}), **payload}
        if event_type := event_types.find(kind):
            payload = sample_payload(event_type, **payload)
        event = SessionEvent(kind, SESSION, run, 0, payload, "", self.ts, self.ts)
        found = self.projection.messages(event, texts)
        self.messages += found
        return found

    def kinds(self) -> list[str]:
        return [AgentMessageType(message["t"]).name for message in self.messages]


def test_every_stored_event_has_a_message_or_is_listed_as_silent() -> None:
    kept = {kind.name for kind in event_types if kind.kept}
    assert kept - SILENT - ENDS - set(SAMPLES) == set()


def test_a_persons_message_to_a_workstream_is_a_question_of_it_and_a_command_an_update() -> None:
    timeline = Timeline()
    (question,) = timeline.see("workstream.steered")
    assert (question["m"], question["w"], question["d"]["ack"]) == ("And the second?", "research", "m7")
    (update,) = timeline.see("workstream.steered", command="pause_requested", text="")
    assert (update["m"], update["w"]) == ("Pause requested", "research")
    assert timeline.kinds() == ["QUESTION", "UPDATE"]


@pytest.mark.parametrize("kind", SAMPLES)
def test_each_message_fits_the_schema_and_has_its_events_time(kind: str) -> None:
    timeline = Timeline()
    timeline.see("run.queued")
    for message in timeline.see(kind):
        Draft202012Validator(COMPACT_MESSAGE).validate(message)
    assert timeline.messages[-1]["ts"] == timeline.ts


def test_every_type_has_a_message() -> None:
    timeline = Timeline()
    timeline.see("run.queued")
    for kind in SAMPLES:
        timeline.see(kind)
    timeline.see("message.completed", turn_id="bad", state="error")
    timeline.see("run.failed", usage=USAGE)
    others = [
        message_types.complete("x"),
        message_types.terminated(),
        message_types.restarting(),
        message_types.file_snapshot([]),
    ]
    types = {message["t"] for message in [*timeline.messages, *others]}
    assert types == set(AgentMessageType) - {AgentMessageType.STREAMING_CHUNK}


def test_times_rise_and_each_is_given_once() -> None:
    timeline = Timeline()
    timeline.see("run.queued")
    for kind in SAMPLES:
        timeline.see(kind)
    times = [message["ts"] for message in timeline.messages]
    assert times == sorted(set(times))
    assert sum(time != int(time) for time in times) == 4  # thinking twice, a preamble, and an answer before it


def test_a_turn_ends_with_a_closing_message() -> None:
    timeline = Timeline()
    for kind in ("message.received", "run.queued", "run.started", "message.completed"):
        timeline.see(kind)
    assert timeline.messages[-1]["t"] not in TURN_ENDS
    timeline.see("run.completed", usage=USAGE)
    assert timeline.kinds() == ["QUESTION", "THOUGHT", "ANSWER", "IDLE"]
    assert timeline.messages[-1]["d"]["token_usage"] == {"prompt": 10, "result": 5, "total": 15}


def test_a_run_that_is_not_interactive_ends_with_its_text() -> None:
    timeline = Timeline(is_interactive=False)
    timeline.see("run.queued")
    (last,) = timeline.see("run.completed")
    assert (last["t"], last["m"]) == (AgentMessageType.COMPLETE, "Hi there")


def test_an_interrupted_turn_has_no_closing_message() -> None:
    timeline = Timeline()
    timeline.see("run.queued")
    timeline.see("run.queued", OTHER)
    assert timeline.see("run.cancelled") == []
    assert [message["t"] for message in timeline.see("run.completed", OTHER)] == [AgentMessageType.IDLE]


def test_a_stop_is_answered_with_its_id_and_an_end_from_outside_closes() -> None:
    for signal, expected in (("Stop", AgentMessageType.IDLE), ("terminate", AgentMessageType.TERMINATED)):
        timeline = Timeline()
        timeline.see("run.queued")
        timeline.see("signal.received", signal=signal, ack="s-1", reason="Enough.")
        (last,) = timeline.see("run.cancelled", message="Stopped.")
        assert last["t"] == expected
        if signal == "Stop":
            assert (last["d"]["ack"], last["d"]["status_reason"]) == ("s-1", "user_stopped")


def test_a_failed_turn_has_its_error_after_the_partial_answer() -> None:
    timeline = Timeline()
    timeline.see("run.queued")
    timeline.see("message.completed", turn_id="bad", state="error")
    timeline.see("run.failed")
    assert timeline.kinds() == ["THOUGHT", "ANSWER", "ERROR", "IDLE"]
    assert timeline.messages[1]["d"]["partial"] and timeline.messages[2]["m"] == "It broke."


def test_an_answer_that_is_stored_late_does_not_make_the_agent_seem_to_work() -> None:
    timeline = Timeline()
    timeline.see("run.queued")
    timeline.see("run.completed")
    timeline.see("message.completed")
    assert timeline.messages[-1]["t"] == AgentMessageType.IDLE


def test_a_primed_projection_returns_the_same_messages() -> None:
    whole, later = Timeline(), Timeline()
    events = [("run.queued", RUN), ("run.queued", OTHER), ("signal.received", RUN), ("run.cancelled", RUN)]
    for kind, run in events:
        whole.see(kind, run, signal="Stop", ack="s")
        later.ts += 1
        later.projection.prime(SessionEvent(kind, SESSION, run, None, {"signal": "Stop", "ack": "s"}, "", 1, later.ts))
    assert whole.see("run.completed", OTHER) == later.see("run.completed", OTHER) != []
    assert {"run.queued", "signal.received"} <= projection.PRIMING


def test_a_user_message_has_its_metadata_and_the_question_that_it_answers() -> None:
    texts = StoredText({"t1": TurnText("red", answers="q1")})
    (question,) = Timeline().see("message.received", texts=texts)
    assert question["d"] == {
        "event_class": "user_content",
        "ack": "m-1",
        "metadata": {"id": "m-1"},
        "request_input_response": {"request_id": "q1"},
    }
    (other,) = Timeline().see("message.received", message_id="t1", note=None)
    assert "ack" not in other["d"]


def test_an_approval_request_offers_the_allowed_decisions() -> None:
    (asked,) = Timeline().see("approval.requested")
    assert [option["id"] for option in asked["d"]["ux"]["options"]] == ["allow_once", "allow_for_run", "deny"]
    assert asked["d"]["tool_approval"]["target"] == "target: `moon`"
    (narrow,) = Timeline(allowed_decisions=[Decision.ALLOW_ONCE, Decision.DENY]).see("approval.requested")
    assert [option["id"] for option in narrow["d"]["ux"]["options"]] == ["allow_once", "deny"]
    (waiting,) = Timeline(allowed_decisions=()).see("approval.requested")
    assert waiting["t"] == AgentMessageType.UPDATE and "ux" not in waiting["d"]


@pytest.mark.parametrize(
    ("arguments", "summary", "target"),
    [
        ({}, "launch", ""),
        ({"url": "https://a/b"}, "launch: https://a/b", "url: `https://a/b`"),
        ({"a:b": "x"}, "launch: x", "a b: `x`"),
        ({"line": "echo `id`"}, "launch: echo `id`", "line: `` echo `id` ``"),
        ({"line": "ok\u202eko"}, "launch: ok\\u202eko", "line: `ok\\u202eko`"),
        ({"a": "x", "b": 1}, 'launch: {"a": "x", "b": 1}', 'arguments: `{"a": "x", "b": 1}`'),
    ],
)
def test_a_call_to_approve_is_shown_whole_by_clients_that_cut_and_render(
    arguments: dict[str, Any], summary: str, target: str
) -> None:
    (asked,) = Timeline().see("approval.requested", arguments=arguments)
    shown = asked["d"]["tool_approval"]
    assert (shown["action_summary"], shown["target"], shown["input"]) == (summary, target, arguments)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"status": "approved", "decision": "allow_once"}, "auto_approved"),
        ({"status": "denied", "decision": "deny", "note": ""}, "denied"),
        ({"status": "denied", "decision": "deny", "note": "No."}, "denied_with_feedback"),
        ({"status": "expired", "decision": ""}, "timeout"),
        ({"status": "cancelled", "decision": ""}, "cancelled_after_denial"),
    ],
)
def test_a_decision_settles_its_request_alone(payload: dict[str, str], expected: str) -> None:
    (outcome,) = Timeline().see("approval.decided", **payload)
    assert (outcome["d"]["approval_decision"], outcome["d"]["request_id"]) == (expected, "a1")
    assert outcome["d"]["approval_request"]["approval_key"] == "launch:a1"


def test_child_runs_have_their_workstream_and_close_nothing() -> None:
    timeline = Timeline()
    timeline.see("run.queued")
    (launched,) = timeline.see("workstream.launched")
    timeline.see("run.queued", OTHER)
    (answer,) = timeline.see("message.completed", OTHER, texts=StoredText({"t2": TurnText("Found it")}))
    assert launched["w"] == answer["w"] == "research"
    whole = "word " * 1000
    result, complete = timeline.see("run.completed", OTHER, texts=StoredText(results={OTHER: (whole, 2)}))
    assert (result["t"], result["w"], result["m"]) == (AgentMessageType.ANSWER, "research", whole)
    assert result["d"]["activity_id"] == f"{OTHER}.2"
    assert (complete["t"], complete["w"], complete["m"]) == (AgentMessageType.COMPLETE, "research", whole)
    (ended,) = timeline.see("workstream.ended")
    assert (ended["t"], ended["d"]["workstream_event"], ended["d"]["status"]) == (3, "completed", "canceled")
    assert [message["t"] for message in timeline.see("run.completed")] == [AgentMessageType.IDLE]


def test_workstreams_of_one_name_are_told_apart_and_have_their_path() -> None:
    timeline = Timeline()
    first, other = UUID(int=21), UUID(int=22)
    timeline.see("workstream.launched", run_id=str(OTHER), parent_run_id=str(RUN), name="Research")
    leaf = {"workstream_id": "leaf", "name": "Leaf one"}
    (launched,) = timeline.see("workstream.launched", first, run_id=str(first), parent_run_id=str(OTHER), **leaf)
    (again,) = timeline.see("workstream.launched", other, run_id=str(other), parent_run_id=str(RUN), **leaf)
    assert (launched["w"], again["w"]) == ("leaf", "leaf_00000016")
    assert [one["d"]["workstream_id"] for one in (launched, again)] == ["leaf", "leaf_00000016"]
    assert (launched["m"], launched["d"]["path"]) == ("Started Leaf one", ("Research", "Leaf one"))
    (progressed,) = timeline.see(
        "workstream.progressed", other, run_id=str(other), phase="executing_tool", tool="echo", iteration=2, percent=40
    )
    shown = {name: progressed["d"][name] for name in ("phase", "current_tool", "iteration", "percent")}
    assert (progressed["w"], shown) == (
        "leaf_00000016",
        {"phase": "executing_tool", "current_tool": "echo", "iteration": 2, "percent": 40},
    )


def test_progress_refers_to_its_tool_call() -> None:
    timeline = Timeline()
    passing = SessionEvent(
        "tool.progress", SESSION, RUN, None, {"execution_id": "e1", "text": "Half", "fraction": 0.5}, "c"
    )
    assert timeline.projection.progress(passing) is None, "the start of the call is unknown"
    *_, started = timeline.see("tool.requested")
    message = timeline.projection.progress(passing)
    assert message is not None
    assert (message["m"], message["d"]["percent"], message["d"]["tool_event"]) == ("Half", 50, "progress")
    same = ("tool", "tool_run_id", "tool_use_id", "tool_iteration", "activity_group_id")
    assert [message["d"][name] for name in same] == [started["d"][name] for name in same]
    timeline.see("tool.completed")
    assert timeline.projection.progress(passing) is None, "the call has ended"


def test_plans_are_whole_and_number_their_tasks_from_one() -> None:
    (plan,) = Timeline().see("plan.updated")
    assert [task["id"] for task in plan["d"]["plan"]] == [1, 2]


def test_progress_is_an_update_with_its_percentage() -> None:
    (progress,) = Timeline().see("progress.reported")
    assert (AgentMessageType(progress["t"]), progress["m"]) == (AgentMessageType.UPDATE, "Sources: Reading")
    assert (progress["d"]["percent"], progress["d"]["phase"]) == (40, "Sources")
    (unknown,) = Timeline().see("progress.reported", percent=None, phase="")
    assert unknown["m"] == "Reading" and "percent" not in unknown["d"]


QUESTION: dict[str, Any] = {
    "text": "Which?",
    "options": [{"id": "r", "label": "Red", "description": "Warm"}, {"id": "b", "label": "Blue", "description": ""}],
    "allows_text": True,
    "allows_several": True,
    "placeholder": "Another one",
    "variant": "warning",
}


def test_a_question_has_the_options_and_the_tone_of_the_agent() -> None:
    (asked,) = Timeline().see("input.requested", question="Which?", questions=[QUESTION], allows_text=True)
    assert (asked["m"], asked["d"]["request_id"]) == ("Which?", "q1")
    assert asked["d"]["ux"] == {
        "variant": "warning",
        "options": [{"id": "r", "label": "Red", "description": "Warm"}, {"id": "b", "label": "Blue"}],
        "multiSelect": True,
        "free_response": {"placeholder": "Another one"},
    }


def test_a_form_is_one_text_that_a_text_answers() -> None:
    (asked,) = Timeline().see("input.requested", questions=[QUESTION, {**QUESTION, "text": "Why?"}], allows_text=False)
    assert "1. Red" in asked["m"] and "(2) Why?" in asked["m"]
    assert "options" not in asked["d"]["ux"]
    assert asked["d"]["ux"]["free_response"] == {"placeholder": "Your answer"}  # not that of the first question


def test_a_batch_counts_its_items() -> None:
    (batch,) = Timeline().see("batch.progress")
    assert {key: batch["d"][key] for key in ("total", "completed", "succeeded", "failed")} == {
        "total": 1,
        "completed": 1,
        "succeeded": 0,
        "failed": 1,
    }
    assert (batch["d"]["items"], batch["d"]["started_at"]) == ([{"id": "1", "status": "error", "message": "No."}], 5)
    assert "completed_at" not in batch["d"]
    (ended,) = Timeline().see("batch.progress", completed_at=9)
    assert ended["d"]["completed_at"] == 9


def test_a_written_file_is_named() -> None:
    (done,) = Timeline().see("tool.completed", tool="write_artifact", output='{"path": "out/a.md"}')
    assert done["d"]["outputFiles"] == ["out/a.md"]
