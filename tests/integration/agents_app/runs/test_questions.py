"""Questions of an agent: parked without an owner, answered by the next message from any surface."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from agents_app import services as runs
from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply, Script
from agents_app.types import RunStatus
from audit_app.models import AuditEntry, Event
from sessions_app.models import Turn
from tests.support.engine import EngineRig, until
from tests.support.rest import RestCaller
from tools_app.models import InputRequest
from tools_app.types import ExecutionStatus, ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


def asking(number: int = 1, **arguments: Any) -> ToolCall:
    if "questions" in arguments:
        return ToolCall(f"c{number}", "ask_form", json.dumps(arguments))
    return ToolCall(f"c{number}", "ask_user", json.dumps({"question": "Which colour?", **arguments}))


def ask(rig: EngineRig, *calls: ToolCall, **agent: Any) -> tuple[Any, Script]:
    """Send a message whose run then waits for its person."""
    script = rig.agent(Reply(("One thing first.",), tool_calls=calls or (asking(),)), Reply(("Done.",)), **agent)
    accepted = rig.send("paint it")
    until(lambda: Run.objects.filter(pk=accepted.run_id, waiting_on="input", owner=None).exists())
    return accepted, script


def test_the_next_message_is_the_answer_and_makes_no_run_of_its_own(rig: EngineRig) -> None:
    accepted, script = ask(rig, asking(options=["Red", "Blue"]))
    again = rig.send("2")
    assert (again.run_id, again.ordinal) == (accepted.run_id, accepted.ordinal)
    transcript = rig.wait(accepted.run_id)
    assert transcript.run.status is RunStatus.COMPLETED
    (execution,) = transcript.executions
    assert json.loads(execution.output or "") == {"answer": "Blue", "is_option": True}
    assert InputRequest.objects.get().status == "answered"
    sent = [message for message in script.requests[-1].messages if message.role in ("user", "tool")]
    assert [message.role for message in sent] == ["user", "tool"]


def test_the_event_and_the_audit_entry_have_the_data_of_a_page(rig: EngineRig) -> None:
    ask(rig, asking(options=["Red", "Blue"], allow_text=False))
    payload = Event.objects.get(type="input.requested").payload
    assert (payload["question"], payload["options"]) == ("Which colour?", ["Red", "Blue"])
    assert payload["allows_text"] is False
    assert AuditEntry.objects.filter(action="InputRequested").count() == 1


def test_the_answer_is_a_turn_of_the_run_and_later_runs_read_it_in_its_place(rig: EngineRig) -> None:
    accepted, script = ask(rig)
    rig.send("blue")
    rig.wait(accepted.run_id)
    turns = Turn.objects.filter(run_id=accepted.run_id).order_by("part").values_list("role", "content")
    assert [(role, text) for role, text in turns if role == "user"] == [("user", "paint it"), ("user", "blue")]
    rig.wait(rig.send("and now?").run_id)
    assert [m.content for m in script.requests[-1].messages if m.role == "user"] == ["paint it", "and now?"]


@pytest.mark.parametrize("busy", ["queue", "reject", "steer", "interrupt"])
def test_an_answer_goes_before_every_policy_for_busy_sessions(rig: EngineRig, busy: str) -> None:
    accepted, _ = ask(rig, busy_policy=busy)
    assert rig.send("blue").run_id == accepted.run_id
    assert rig.wait(accepted.run_id).run.status is RunStatus.COMPLETED


def test_the_same_answer_sent_twice_is_one_answer(rig: EngineRig) -> None:
    accepted, _ = ask(rig, asking(1), asking(2))
    first = rig.send("blue", idempotency_key="k")
    second = rig.send("blue", idempotency_key="k")
    assert (first.turn_id, second.is_duplicate) == (second.turn_id, True)
    assert InputRequest.objects.filter(status="answered").count() == 1
    rig.send("red")
    rig.wait(accepted.run_id)


def test_two_questions_are_answered_in_their_order(rig: EngineRig) -> None:
    accepted, _ = ask(rig, asking(1, question="First?"), asking(2, question="Second?"))
    rig.send("one")
    assert Run.objects.get(pk=accepted.run_id).waiting_on == "input"
    rig.send("two")
    outputs = [json.loads(execution.output or "") for execution in rig.wait(accepted.run_id).executions]
    assert [output["answer"] for output in outputs] == ["one", "two"]


def test_a_question_expires_and_a_later_message_is_a_new_message(rig: EngineRig) -> None:
    accepted, _ = ask(rig)
    InputRequest.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    late = rig.send("blue")
    assert late.run_id != accepted.run_id
    (execution,) = rig.wait(accepted.run_id).executions
    assert execution.status is ExecutionStatus.FAILED
    assert "did not answer in time" in (execution.error or "")
    rig.wait(late.run_id)


def test_stopping_the_run_withdraws_the_question(rig: EngineRig) -> None:
    accepted, _ = ask(rig)
    runs.cancel_run(accepted.run_id)
    rig.wait(accepted.run_id)
    assert InputRequest.objects.get().status == "cancelled"
    assert rig.send("blue").run_id != accepted.run_id


def test_a_lost_nudge_after_the_answer_costs_a_moment(rig: EngineRig) -> None:
    accepted, _ = ask(rig)
    rig.drops = lambda task_name: True
    rig.send("blue")
    rig.drops = lambda task_name: False
    assert rig.wait(accepted.run_id).run.status is RunStatus.COMPLETED


def test_other_tools_of_the_step_run_while_the_person_thinks(rig: EngineRig) -> None:
    accepted, _ = ask(rig, ToolCall("c0", "echo", '{"text": "hi"}'), asking())
    rig.send("blue")
    first, second = rig.wait(accepted.run_id).executions
    assert (first.output, second.status) == ('{"text": "hi"}', ExecutionStatus.COMPLETED)


def test_a_program_sees_the_question_and_answers_it(rig: EngineRig) -> None:
    accepted, _ = ask(rig, asking(options=["Red", "Blue"]))
    caller = RestCaller(rig.owner)
    run = caller("GET", f"runs/{accepted.run_id}").data
    question = run["question"]
    assert (run["waitingOn"], question["text"], question["options"]) == ("input", "Which colour?", ["Red", "Blue"])
    assert question["questions"][0]["options"][1] == {"id": "Blue", "label": "Blue", "description": ""}
    rig.send("Red")
    rig.wait(accepted.run_id)
    assert caller("GET", f"runs/{accepted.run_id}").data["question"] is None


FORM = [
    {"question": "Which?", "options": [{"id": "r", "label": "Red"}, {"id": "b", "label": "Blue"}], "multiple": True},
    {"question": "Why?", "placeholder": "Because"},
]


def test_a_form_is_one_question_and_one_answer(rig: EngineRig) -> None:
    accepted, _ = ask(rig, asking(questions=FORM))
    payload = Event.objects.get(type="input.requested").payload
    assert [each["allows_several"] for each in payload["questions"]] == [True, False] and payload["options"] == []
    rig.send("r, b\nI like both")
    (execution,) = rig.wait(accepted.run_id).executions
    answers = json.loads(execution.output or "")["answers"]
    assert [each["answer"] for each in answers] == ["Red, Blue", "I like both"] and answers[0]["ids"] == ["r", "b"]


def test_the_page_answers_the_question_that_it_names(rig: EngineRig, client: Client) -> None:
    client.force_login(rig.owner)
    accepted, _ = ask(rig, asking(1, question="First?"), asking(2, questions=FORM))
    first, second = (request.execution_id for request in InputRequest.objects.order_by("id"))
    fields = {"choice-0": ["b", "r"], "text-1": "both"}
    assert client.post(f"/chat/questions/{second}/answer", fields).status_code == 302
    assert InputRequest.objects.get(execution_id=second).status == "answered"
    assert InputRequest.objects.get(execution_id=first).status == "pending"
    assert client.post(f"/chat/questions/{second}/answer", fields).status_code == 409
    assert client.post(f"/chat/questions/{first}/answer", {"text-0": " "}).status_code == 400
    rig.send("one")
    outputs = [json.loads(execution.output or "") for execution in rig.wait(accepted.run_id).executions]
    assert outputs[0]["answer"] == "one" and outputs[1]["answers"][0]["ids"] == ["r", "b"]


def test_nobody_answers_the_questions_of_others(rig: EngineRig, client: Client) -> None:
    ask(rig, asking())
    client.force_login(User.objects.create_user("mallory"))
    request = InputRequest.objects.get()
    assert client.post(f"/chat/questions/{request.execution_id}/answer", {"text-0": "hi"}).status_code == 404
    assert InputRequest.objects.get().status == "pending"


def test_a_question_of_an_earlier_release_is_answered(rig: EngineRig) -> None:
    accepted, _ = ask(rig, asking(options=["Red", "Blue"]))
    InputRequest.objects.update(questions=[])
    rig.send("2")
    (execution,) = rig.wait(accepted.run_id).executions
    assert json.loads(execution.output or "") == {"answer": "Blue", "is_option": True}
