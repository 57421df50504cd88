"""Tool calls that need approval: parked without an owner, decided once, expired, withdrawn."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.utils import timezone

from agents_app import services as runs
from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from agents_app.runs.reaper import Reaper
from agents_app.types import RunStatus
from audit_app.models import AuditEntry, Event
from tests.support.approvals import Launch
from tests.support.engine import EngineRig, until, until_a_lock_is_awaited
from tests.support.rest import RestCaller
from tests.support.rights import make_operator
from tools_app.executions import approvals
from tools_app.models import Approval, InputRequest, ToolExecution
from tools_app.services import AlreadyDecided, ApprovalExpired, cancel_execution
from tools_app.types import ExecutionStatus, ToolCall

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _agent(launch: object, rig: EngineRig) -> None:
    rig.agent(Reply(tool_calls=(ToolCall("c1", "launch", json.dumps({"target": "moon"})),)), Reply(("Over.",)))


def ask(rig: EngineRig) -> tuple[Any, Approval]:
    """Send a message whose run then waits for a decision."""
    accepted = rig.send("launch it")
    until(lambda: Run.objects.filter(pk=accepted.run_id, waiting_on="approval", owner=None).exists())
    return accepted, Approval.objects.get()


def test_an_approved_call_runs_once_and_the_run_goes_on(rig: EngineRig) -> None:
    accepted, approval = ask(rig)
    assert Launch.launched == []
    runs.decide_approval(approval.id, decision="allow_once", actor="user:1")
    transcript = rig.wait(accepted.run_id)
    assert Launch.launched == ["moon"]
    assert transcript.executions[0].status is ExecutionStatus.COMPLETED
    entries = AuditEntry.objects.filter(action__startswith="Approval").order_by("at")
    assert [(entry.action, entry.actor) for entry in entries] == [
        ("ApprovalRequested", "system"),
        ("ApprovalDecided", "user:1"),
    ]


def test_the_model_receives_the_denial_of_a_call_with_the_note(rig: EngineRig) -> None:
    accepted, approval = ask(rig)
    runs.decide_approval(approval.id, decision="deny", actor="user:1", note="not on a Sunday")
    transcript = rig.wait(accepted.run_id)
    assert transcript.run.status is RunStatus.COMPLETED
    assert "not on a Sunday" in (transcript.executions[0].error or "")
    assert Launch.launched == []


def test_only_the_first_decision_counts(rig: EngineRig) -> None:
    accepted, approval = ask(rig)
    runs.decide_approval(approval.id, decision="deny", actor="user:1")
    with pytest.raises(AlreadyDecided) as second:
        runs.decide_approval(approval.id, decision="allow_once", actor="user:2")
    assert second.value.extra["decision"] == "deny"
    rig.wait(accepted.run_id)
    assert Launch.launched == []


def test_an_expired_request_is_a_denial_and_cannot_be_decided(rig: EngineRig) -> None:
    accepted, approval = ask(rig)
    Approval.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    with pytest.raises(ApprovalExpired):
        runs.decide_approval(approval.id, decision="allow_once", actor="user:1")
    transcript = rig.wait(accepted.run_id)
    assert "timeout" in (transcript.executions[0].error or "")
    assert Launch.launched == []


def test_a_run_whose_request_expired_waits_for_what_is_left(rig: EngineRig) -> None:
    asks = ToolCall("c1", "launch", '{"target": "moon"}'), ToolCall("c2", "ask_user", '{"question": "Which?"}')
    rig.agent(Reply(tool_calls=asks), Reply(("Over.",)))
    accepted, _ = ask(rig)
    Approval.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    until(lambda: Run.objects.get(pk=accepted.run_id).waiting_on == "input")
    InputRequest.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert rig.wait(accepted.run_id).run.status is RunStatus.COMPLETED


def test_a_request_expires_while_its_call_is_cancelled(rig: EngineRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both lock the execution's row first, so that they cannot deadlock."""
    monkeypatch.setattr(Reaper, "sweep", lambda self: None)
    _, approval = ask(rig)
    Approval.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    carry_out = approvals._carry_out
    with ThreadPoolExecutor(1) as pool:

        def hold_up(*args: Any) -> Any:
            cancelling.append(pool.submit(_cancel, approval.execution_id))
            until_a_lock_is_awaited()
            return carry_out(*args)

        cancelling: list[Any] = []
        monkeypatch.setattr(approvals, "_carry_out", hold_up)
        approvals.expire_approvals()
        assert cancelling[0].result() is False
    assert ToolExecution.objects.get().status == ExecutionStatus.FAILED


def _cancel(execution_id: UUID) -> bool:
    try:
        return cancel_execution(execution_id)
    finally:
        connections.close_all()


def test_a_parked_run_survives_a_new_worker(rig: EngineRig) -> None:
    accepted, approval = ask(rig)
    assert rig.engine
    rig.engine.stop()
    runs.decide_approval(approval.id, decision="allow_once", actor="user:1")
    rig.start()
    assert rig.wait(accepted.run_id).run.status is RunStatus.COMPLETED
    assert Launch.launched == ["moon"]


def test_stopping_the_run_withdraws_the_request(rig: EngineRig) -> None:
    accepted, approval = ask(rig)
    runs.cancel_run(accepted.run_id)
    rig.wait(accepted.run_id)
    approval.refresh_from_db()
    assert approval.status == "cancelled"
    with pytest.raises(AlreadyDecided):
        runs.decide_approval(approval.id, decision="allow_once", actor="user:1")


def test_changed_arguments_void_the_approval(rig: EngineRig) -> None:
    accepted, approval = ask(rig)
    ToolExecution.objects.update(arguments={"target": "sun"})
    runs.decide_approval(approval.id, decision="allow_once", actor="user:1")
    transcript = rig.wait(accepted.run_id)
    assert transcript.executions[0].status is ExecutionStatus.FAILED
    assert Launch.launched == []


def test_operators_decide_over_rest_once_and_others_do_not(rig: EngineRig) -> None:
    accepted, approval = ask(rig)
    operator = make_operator("operator")
    stranger = RestCaller(User.objects.create_user("stranger"))
    path = f"approvals/{approval.id}/decide"
    assert stranger("POST", path, {"decision": "allow_once"}).status == 404
    assert RestCaller(rig.owner)("POST", path, {"decision": "allow_once"}).status == 403
    assert [row["approvalId"] for row in RestCaller(rig.owner)("GET", "approvals?status=pending").data] == [
        str(approval.id)
    ]
    assert stranger("GET", "approvals").data == []
    caller = RestCaller(operator)
    assert caller("POST", path, {"decision": "perhaps"}).status == 400
    assert caller("POST", path, {"decision": "allow_once", "note": "go"}).data["status"] == "approved"
    second = caller("POST", path, {"decision": "deny"})
    assert (second.status, second.meta["decision"]) == (409, "allow_once")
    rig.wait(accepted.run_id)
    assert Event.objects.get(type="approval.decided").actor == f"user:{operator.pk}"


def test_an_expired_request_answers_410(rig: EngineRig) -> None:
    _, approval = ask(rig)
    rig.stop()
    Approval.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    operator = RestCaller(make_operator("operator"))
    assert operator("POST", f"approvals/{approval.id}/decide", {"decision": "allow_once"}).status == 410
