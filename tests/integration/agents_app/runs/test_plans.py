"""Plans and progress of a run: stored with the call, shown the same live, after a reload and over REST."""

import json
from typing import Any

import pytest

from agents_app.providers.kinds.scripted import Reply
from agents_app.types import RunStatus
from audit_app.models import Event
from sessions_app.models import Session
from sessions_app.surfaces.chat import queries
from tests.support.engine import EngineRig, until
from tests.support.rest import RestCaller
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


def planning(number: int, *tasks: dict[str, Any], **arguments: Any) -> ToolCall:
    return ToolCall(f"c{number}", "update_plan", json.dumps({"tasks": tasks, **arguments}))


FIRST = planning(1, {"goal": "Look", "status": "in_progress"}, {"goal": "Write", "instructions": ["Be brief"]})
SECOND = planning(2, {"id": 1, "goal": "Look", "status": "completed"}, {"id": 2, "goal": "Write"}, comment="Found it")
PROGRESS = ToolCall("c3", "report_progress", json.dumps({"text": "Reading", "percent": 40, "phase": "Sources"}))


def test_each_revision_is_an_event_and_the_last_one_is_the_plan(rig: EngineRig) -> None:
    rig.agent(Reply(tool_calls=(FIRST, PROGRESS)), Reply(tool_calls=(SECOND,)), Reply(("Done.",)))
    accepted = rig.send("work")
    assert rig.wait(accepted.run_id).run.status is RunStatus.COMPLETED
    events = Event.objects.filter(type="plan.updated").order_by("seq")
    assert [[task["id"] for task in event.payload["tasks"]] for event in events] == [[1, 2], [1, 2]]
    assert events[1].payload["comment"] == "Found it" and events[1].run_id == accepted.run_id
    run = RestCaller(rig.owner)("GET", f"runs/{accepted.run_id}").data
    assert [(task["id"], task["status"]) for task in run["plan"]["tasks"]] == [(1, "completed"), (2, "pending")]
    assert run["progress"] == {"text": "Reading", "percent": 40, "phase": "Sources"}
    assert Event.objects.get(type="progress.reported").payload["percent"] == 40


def test_a_repeated_call_stores_no_second_revision(rig: EngineRig) -> None:
    rig.agent(Reply(tool_calls=(FIRST,)), Reply(("Done.",)))
    accepted = rig.send("work")
    (execution,) = rig.wait(accepted.run_id).executions
    rig._execute(execution.id)
    assert Event.objects.filter(type="plan.updated").count() == 1


def test_a_reader_who_comes_later_sees_the_plan(rig: EngineRig) -> None:
    rig.agent(Reply(tool_calls=(FIRST, PROGRESS)), Reply(hangs=True))
    accepted = rig.send("work")
    until(lambda: Event.objects.filter(type__in=("plan.updated", "progress.reported")).count() == 2)
    session = Session.objects.get(pk=accepted.session_id)
    (turn,) = queries.read_newest(session).turn_views
    assert turn.plan and [task.goal for task in turn.plan.tasks] == ["Look", "Write"]
    assert turn.progress and turn.progress.percent == 40


def test_a_run_without_a_plan_has_none(rig: EngineRig) -> None:
    rig.agent(Reply(("Hi.",)))
    accepted = rig.send("hi")
    rig.wait(accepted.run_id)
    run = RestCaller(rig.owner)("GET", f"runs/{accepted.run_id}").data
    assert (run["plan"], run["progress"]) == (None, None)
