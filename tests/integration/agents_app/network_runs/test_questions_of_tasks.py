"""Tasks of networks that ask a person: the question of a run without a model, and its answer as the output."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from agents_app.models import Agent, DailyUsage, Run, Step
from agents_app.network_runs.progress import read_progress
from agents_app.networks.outcomes import TaskStatus
from agents_app.providers.kinds.scripted import Reply, ScriptedProvider
from agents_app.types import RunOptions, RunStatus
from audit_app.models import Event
from sessions_app import integrity_checks
from sessions_app.models import Session
from tests.support.engine import EngineRig, until
from tests.support.rest import RestCaller
from tests.support.team_script import TeamScript
from tools_app.executions import user_input
from tools_app.models import InputRequest

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

DOCUMENT = (Path(__file__).parents[4] / "docs" / "networks.md").read_text()
PUBLISH = DOCUMENT.split("## Asking a person")[1].split("```")[1].split("name: announcement\n")[1]
ASKS = "tasks:\n- {name: consent, ask: 'May I?', on_error: continue}\n- {name: next, depends_on: [consent]}\n"


def start(rig: EngineRig, tasks: str, budgets: dict[str, int] | None = None, **replies: str) -> Any:
    """Start a network whose agent may use no tool at all."""
    rig.agent(Reply(), enabled_tools=[], denied_tools=["*"], budgets=budgets or {})
    texts = {name: [Reply((reply,))] for name, reply in replies.items()}
    ScriptedProvider.scripts["script"] = TeamScript([Reply(("main",))], texts)
    network = {"name": "net", "version": 1, "definition": f"name: net\n{tasks}", "context": {}}
    return rig.send("Hello", run=RunOptions(network=network)).run_id


def waiting(number: int = 1) -> list[Run]:
    """Return the runs that wait for their person, once there are so many."""
    rows = Run.objects.filter(waiting_on="input", owner=None).order_by("created_at", "id")
    return list(until(lambda: rows if rows.count() == number else None))


def expire(rig: EngineRig) -> None:
    InputRequest.objects.filter(status="pending").update(expires_at=timezone.now() - timedelta(seconds=1))
    for run_id in user_input.expire_inputs():
        assert rig.engine
        rig.engine.nudge(run_id)


@pytest.mark.parametrize(
    ("answer", "output", "end"),
    [
        ("1", "publish", "Published."),
        ("discard", "discard", "Not published: discard"),
        ("not yet", "not yet", "Not published: not yet"),
    ],
)
def test_the_answer_of_a_person_decides_what_runs(rig: EngineRig, answer: str, output: str, end: str) -> None:
    run_id = start(rig, PUBLISH, draft="We moved.", publish="Published.")
    (asking,) = waiting()
    request = InputRequest.objects.get()
    assert (request.question, request.options) == ("consent: Publish this?\n\nWe moved.", ["publish", "discard"])
    assert request.expires_at - request.created_at == pytest.approx(timedelta(hours=1), abs=timedelta(minutes=1))
    event = Event.objects.get(type="input.requested")
    assert (event.run_id, event.parent_run_id, event.workstream) == (asking.pk, run_id, "consent")
    listed = RestCaller(rig.owner).get(f"runs/{run_id}/workstreams").data
    assert [(one["workstream"], one["asks"]) for one in listed] == [("draft", None), ("consent", "input")]
    assert rig.send(answer).run_id == run_id, "a message of the session is the answer, and no message of its own"
    assert rig.wait(run_id).answer == end
    results = read_progress(run_id).results
    assert (results["consent"].output, results["consent"].attempts) == (output, 1)
    step = Step.objects.get(run_id=asking.pk)
    assert (step.index, step.model, step.provider, step.cost_nanos) == (0, "", "", 0)
    calls = sum(DailyUsage.objects.values_list("calls", flat=True))
    assert calls == len(ScriptedProvider.scripts["script"].requests) == (2 if output == "publish" else 1)
    assert integrity_checks.find_violations() == []


def test_questions_of_items_are_answered_one_after_the_other_and_need_no_budget(rig: EngineRig) -> None:
    tasks = "context: {names: [Ada, Bob]}\ntasks:\n- {name: each, map: context.names, ask: 'Invite {{ item }}?'}\n"
    run_id = start(rig, tasks, {"costPerHour": 0, "actionsPerHour": 0})
    waiting(2)
    asked = list(InputRequest.objects.order_by("execution__workstream").values_list("question", flat=True))
    assert asked == ["each[0]: Invite Ada?", "each[1]: Invite Bob?"]
    rig.send("one")
    waiting(1)
    rig.send("two")
    rig.wait(run_id)
    assert sorted(read_progress(run_id).results["each"].output) == ["one", "two"]
    assert ScriptedProvider.scripts["script"].requests == []
    assert integrity_checks.find_violations() == []


def test_a_task_whose_question_expires_fails_and_its_fallback_runs(rig: EngineRig) -> None:
    tasks = (
        "tasks:\n- {name: consent, ask: 'May I?', retries: 1, retry_seconds: 0, on_error: fallback, fallback: other}\n"
    )
    run_id = start(rig, f"{tasks}- {{name: other}}\n", other="Nobody was there.")
    for number in (1, 2):
        until(lambda number=number: InputRequest.objects.count() == number)
        waiting()
        expire(rig)
    assert rig.wait(run_id).answer == "Nobody was there."
    failed = Run.objects.filter(workstream__in=("consent", "consent~2")).values_list("status", "error_code")
    assert list(failed) == [("failed", "no_answer")] * 2
    assert read_progress(run_id).results["consent"].error == "Nobody answered the question in time."
    assert integrity_checks.find_violations() == []


def test_a_question_that_the_session_denies_is_not_asked(rig: EngineRig) -> None:
    rig.agent(Reply(("Hi.",)))
    rig.wait(rig.send().run_id)
    Session.objects.update(policy={"deniedTools": ["ask_user"]})
    run_id = start(rig, ASKS, next="Without it.")
    assert rig.wait(run_id).answer == "Without it."
    row = Run.objects.get(workstream="consent")
    assert (row.status, row.error_code) == ("failed", "question_refused")
    assert row.error_message.startswith("The question was not asked. This call is not allowed: ")
    assert not InputRequest.objects.exists()
    assert read_progress(run_id).results["consent"].status is TaskStatus.FAILED


def test_cancelling_a_network_withdraws_its_question(rig: EngineRig) -> None:
    run_id = start(rig, ASKS)
    waiting()
    assert RestCaller(rig.owner)("POST", f"runs/{run_id}/cancel").status < 300
    assert rig.wait(run_id).run.status is RunStatus.CANCELLED
    until(lambda: InputRequest.objects.get().status == "cancelled")
    assert Agent.objects.count() == 1 and integrity_checks.find_violations() == []
