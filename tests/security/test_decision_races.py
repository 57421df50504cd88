"""Decisions that are repeated, replayed, late or made at the same time: one of them counts, and the call runs once."""

import threading

import pytest
from django.contrib.auth.models import User
from django.db import connections

from audit_app.kernel.errors import AppError
from sessions_app.approvals import decisions
from sessions_app.models import Session
from sessions_app.services import cancel_session_runs
from tests.support.approvals import Launch, asked, wants_to_launch
from tests.support.engine import EngineRig, until
from tools_app.models import Approval, ToolExecution

pytestmark = pytest.mark.usefixtures("launch")

AT_ONCE = 8


def decide(approval: Approval, actor: User, decision: str = "allow_once") -> str:
    """Decide. Return `decided`, or the code of the refusal."""
    try:
        decisions.decide(approval.pk, decision=decision, actor=f"user:{actor.pk}", has_fresh_login=True)
    except AppError as error:
        return error.code
    return "decided"


def test_of_decisions_at_the_same_time_one_counts_and_the_call_runs_once(rig: EngineRig) -> None:
    root = User.objects.create_superuser("root")
    wants_to_launch(rig)
    accepted = rig.send()
    approval = asked()
    together, results = threading.Barrier(AT_ONCE), []

    def work(decision: str) -> None:
        try:
            together.wait(60)
            results.append((decision, decide(approval, root, decision)))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work, args=(("allow_once", "deny")[number % 2],)) for number in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    counted = [decision for decision, result in results if result == "decided"]
    assert len(results) == AT_ONCE
    assert len(counted) == 1
    rig.wait(accepted.run_id)
    approval.refresh_from_db()
    assert approval.decision == counted[0]
    assert Launch.launched == (["moon"] if counted == ["allow_once"] else [])


def test_a_decision_is_not_replayed_on_the_same_or_a_later_call(rig: EngineRig) -> None:
    root = User.objects.create_superuser("root")
    wants_to_launch(rig, "First.", "Second.")
    first_run = rig.send("first")
    first = asked()
    assert decide(first, root) == "decided"
    rig.wait(first_run.run_id)
    second_run = rig.send("second")
    second = asked(2)
    assert decide(first, root) != "decided", "the first request was decided"
    second.refresh_from_db()
    assert second.status == "pending", "a decision of an earlier request is none of a later one"
    assert decide(second, root, "deny") == "decided"
    rig.wait(second_run.run_id)
    assert Launch.launched == ["moon"]


def test_a_decision_after_the_run_was_stopped_starts_nothing(rig: EngineRig) -> None:
    root = User.objects.create_superuser("root")
    wants_to_launch(rig)
    rig.send()
    approval = asked()
    cancel_session_runs(Session.objects.get(), reason="Stopped.")
    until(lambda: not ToolExecution.objects.filter(status="Pending").exists())
    assert decide(approval, root) != "decided"
    assert Launch.launched == []
