"""Cards of workstreams: their labels, their places in an answer, and their HTML."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.template.loader import render_to_string
from django.utils.safestring import mark_safe

from agents_app.types.child_runs import ChildState, ChildView, Phase, RunKind
from sessions_app.surfaces.chat.fragments import workstream_frame
from sessions_app.surfaces.chat.tool_cards import CallResult, requested_card
from sessions_app.surfaces.chat.workstream_cards import WorkstreamCard
from tools_app.run_progress import Progress

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
OPEN = ChildView(
    launch_id=uuid4(),
    parent_id=uuid4(),
    workstream="prices",
    name="Price <list>",
    instruction="Find\nall prices.",
    agent_id="default",
    kind=RunKind.WORKSTREAM,
    state=ChildState.RUNNING,
    phase=Phase.PLANNING,
    current_tool="",
    is_interactive=False,
    is_idle=False,
    is_paused=False,
    asks="",
    result="",
    error="",
    created_at=NOW,
    started_at=NOW,
    ended_at=None,
    deadline_at=NOW + timedelta(minutes=5),
    deadline_seconds=300,
)
FAILED = replace(
    OPEN, state=ChildState.FAILED, phase=Phase.DONE, ended_at=NOW + timedelta(seconds=12), error="The key <b> is bad."
)


@pytest.mark.parametrize(
    ("fields", "label"),
    [
        ({}, "planning"),
        ({"phase": Phase.SYNTHESIZING}, "writing"),
        ({"phase": Phase.EXECUTING_TOOL, "current_tool": "web_fetch"}, "using web_fetch"),
        ({"phase": Phase.EXECUTING_TOOL}, "using a tool"),
        ({"phase": Phase.BLOCKED}, "waiting for its workstreams"),
        ({"phase": Phase.BLOCKED, "asks": "approval"}, "needs approval"),
        ({"phase": Phase.BLOCKED, "asks": "input"}, "asks a question"),
        ({"phase": Phase.BLOCKED, "is_idle": True}, "waiting for a message"),
        ({"is_paused": True, "is_idle": True}, "paused"),
        ({"state": ChildState.CANCELING, "current_tool": "echo"}, "finishing"),
    ],
)
def test_the_state_of_an_open_workstream(fields: dict[str, Any], label: str) -> None:
    assert WorkstreamCard(replace(OPEN, **fields)).state.label == label


@pytest.mark.parametrize(
    ("state", "label"), [("completed", "done"), ("failed", "failed"), ("timeout", "timed out"), ("canceled", "stopped")]
)
def test_the_state_of_an_ended_workstream_has_its_time(state: str, label: str) -> None:
    shown = WorkstreamCard(replace(FAILED, state=ChildState(state))).state
    assert (shown.label, shown.duration) == (label, "12 s")


def test_progress_takes_the_place_of_the_task_until_the_end() -> None:
    progress = Progress("Reading", percent=40, phase="Sources")
    assert WorkstreamCard(OPEN).brief == "Find all prices."
    assert WorkstreamCard(OPEN, progress=progress).brief == "Sources: Reading (40 %)"
    assert WorkstreamCard(FAILED, progress=progress).brief == "Find all prices."


def test_a_card_contains_those_of_its_own_workstreams_and_opens_if_one_of_them_asks() -> None:
    inner = WorkstreamCard(replace(OPEN, launch_id=uuid4(), name="Inner", asks="input"))
    html = render_to_string("chat/_workstream.html", {"card": WorkstreamCard(OPEN, parts=(inner,))})
    assert html.index("Price &lt;list&gt;") < html.index(f'id="parts-{OPEN.launch_id}"') < html.index("Inner")
    assert html.count("data-open open>") == 2
    folded = render_to_string("chat/_workstream.html", {"card": WorkstreamCard(OPEN)})
    assert "data-open >" in folded and f"/chat/runs/{OPEN.launch_id}/stop" in folded


@pytest.mark.parametrize(("ends", "opens"), [({}, True), ({"result": CallResult(uuid4(), answer="EUR")}, False)])
def test_a_card_opens_if_a_call_asks_that_was_read_after_its_state(ends: dict[str, Any], opens: bool) -> None:
    payload = {"execution_id": str(uuid4()), "tool": "ask_user", "arguments": {"question": "Which currency?"}}
    call = replace(requested_card(0, payload), **ends)  # type: ignore[arg-type] # of what the card shows
    html = render_to_string("chat/_workstream.html", {"card": WorkstreamCard(OPEN, parts=(call,))})
    assert ("data-open open>" in html) is opens


def test_an_answer_keeps_the_open_cards_of_the_page_and_replaces_those_that_have_ended() -> None:
    inner = WorkstreamCard(replace(OPEN, launch_id=uuid4()))
    shown = {"parts": (WorkstreamCard(OPEN, parts=(inner,)),), "key": uuid4()}
    html = render_to_string("chat/_parts.html", {**shown, "in_answer": True})
    assert html.count("hx-preserve") == 1 and html.index("hx-preserve") < html.index(str(inner.id))
    assert "hx-preserve" not in render_to_string("chat/_parts.html", shown)
    ended = {"parts": (WorkstreamCard(FAILED),), "key": uuid4(), "in_answer": True}
    assert "hx-preserve" not in render_to_string("chat/_parts.html", ended)


def test_the_frame_of_an_ended_workstream_has_its_result_and_its_error() -> None:
    ended = WorkstreamCard(FAILED, call_id=UUID(int=1), result=mark_safe("<p>Half.</p>"))
    frame = workstream_frame(ended, is_announced=True)
    assert (frame["run"], frame["id"], frame["call"]) == (str(OPEN.parent_id), str(OPEN.launch_id), str(UUID(int=1)))
    assert "<p>Half.</p>" in frame["body"] and "The key &lt;b&gt; is bad." in frame["body"]
    assert "/stop" not in frame["body"] and frame["say"] == "Price <list>: failed."
    assert workstream_frame(WorkstreamCard(OPEN), is_announced=False)["body"] == ""
