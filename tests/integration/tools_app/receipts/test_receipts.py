"""Every execution ends with a receipt, and changed records are detected."""

import json
from datetime import timedelta
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db.models import F

from audit_app.chain import sealer
from audit_app.chain.verification import Verifier
from audit_app.models import AuditEntry
from tools_app import selectors, services
from tools_app.executions.transitions import move
from tools_app.models import Approval, ToolExecution
from tools_app.policy.rules import AgentPolicy
from tools_app.receipts import receipts
from tools_app.receipts.receipts import verify_receipt
from tools_app.types import Effect, ExecutionStatus, Risk, ToolError

pytestmark = [pytest.mark.usefixtures("world"), pytest.mark.one_database]

ARGUMENTS = '{"text": "hi", "ratio": 1e3, "deep": [{"é": -0.0}]}'


@pytest.fixture(autouse=True)
def _own_folder(settings, tmp_path):
    """Verification compares the log with a file in the data folder."""
    settings.DATA_DIR = tmp_path


@pytest.fixture
def ended(plan, make_tool, settings):
    """Return an execution that ended in the given way."""

    def end(how: str):
        def act(arguments, context):
            if how == "failed":
                raise ToolError("No such page.")
            return {"said": "ä"}

        make_tool(act, effect=Effect.ONCE, risk=Risk.HIGH)
        text = "{broken" if how == "unfit" else ARGUMENTS
        autonomy = {"refused": "readonly", "denied": "supervised", "expired": "supervised"}.get(how, "full")
        if how == "expired":
            settings.KOMAND_APPROVAL_MINUTES = 0
        (planned,) = plan(("act", text), policy=AgentPolicy(autonomy=autonomy))
        _ENDINGS[how](planned)
        return selectors.get_execution(planned.id)

    return end


def _leave_behind(execution, *, seconds_ago: float) -> None:
    """Mark as running since then, with a dead process."""
    move(execution.id, ExecutionStatus.RUNNING, owner=uuid4())
    ToolExecution.objects.update(started_at=F("started_at") - timedelta(seconds=seconds_ago))

    class Observing:
        def dead(self, owners):
            return set(owners)

    services.sweep(Observing())


def _deny(execution) -> None:
    services.decide_approval(
        Approval.objects.get().pk,
        decision="deny",
        actor="user:1",
        policy=services.CurrentPolicy(AgentPolicy()),
        note="Not today.",
    )


_ENDINGS = {
    "completed": lambda execution: services.execute(execution.id),
    "failed": lambda execution: services.execute(execution.id),
    "cancelled": lambda execution: services.cancel_execution(execution.id),
    "denied": _deny,
    "expired": lambda execution: services.sweep(_Nobody()),
    "refused": lambda execution: None,
    "unfit": lambda execution: None,
    "timed out": lambda execution: _leave_behind(execution, seconds_ago=60),
    "unknown": lambda execution: _leave_behind(execution, seconds_ago=1),
}


class _Nobody:
    def dead(self, owners):
        return set()


@pytest.mark.parametrize("how", _ENDINGS)
def test_however_it_ends_it_has_a_receipt_that_proves_it(ended, how):
    execution = ended(how)
    assert execution.status.is_terminal
    assert execution.text_for_model.endswith(f"\n[receipt: {execution.receipt}]")
    verdict = verify_receipt(execution.receipt)
    assert (verdict.is_valid, verdict.execution_id) == (True, execution.id), verdict.reason


def test_an_open_execution_has_none(plan):
    (execution,) = plan(("echo", '{"text": "a"}'))
    assert execution.receipt == ""
    assert "receipt" not in execution.text_for_model


CHANGES = {
    "argument": {"arguments": {"text": "ho"}},
    "result": {"output": '{"said": "ö"}'},
    "status": {"status": "Failed"},
    "end": {"completed_at": F("completed_at") + timedelta(milliseconds=1)},
    "beginning": {"started_at": F("started_at") + timedelta(milliseconds=1)},
    "tool": {"tool": "other"},
    "run": {"run_id": uuid4()},
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_record_is_found(ended, what, capsys):
    execution = ended("completed")
    ToolExecution.objects.filter(id=execution.id).update(**CHANGES[what])
    assert not verify_receipt(execution.receipt).is_valid
    with pytest.raises(SystemExit) as exit_info:
        call_command("verify_receipts", "--json")
    report = json.loads(capsys.readouterr().out)
    assert exit_info.value.code == 1
    assert [bad["executionId"] for bad in report["bad"]] == [str(execution.id)]


def test_a_receipt_moved_to_another_execution_is_found(ended):
    one, other = ended("completed"), ended("failed")
    ToolExecution.objects.filter(id=one.id).update(receipt=other.receipt)
    assert "another" in receipts.check_stored(ToolExecution.objects.get(id=one.id)).reason


def test_a_forged_receipt_and_a_missing_execution_are_detected(ended):
    good = ended("completed").receipt
    assert "not a receipt" in verify_receipt("kr1.what").reason
    assert not verify_receipt(good[:-3] + "AAA").is_valid
    ToolExecution.objects.all().delete()
    assert verify_receipt(good).execution_id is None


def test_all_receipts_are_checked_and_old_rows_are_counted_apart(ended, capsys):
    ended("completed")
    old = ended("failed")
    ToolExecution.objects.filter(id=old.id).update(receipt="")
    call_command("verify_receipts", "--json")
    report = json.loads(capsys.readouterr().out)
    assert {name: report[name] for name in ("checked", "good", "none", "bad")} == {
        "checked": 2,
        "good": 1,
        "none": 1,
        "bad": [],
    }


def test_keys_rotate_without_invalidating_earlier_receipts(ended, settings):
    execution = ended("completed")
    old = settings.KOMAND_RECEIPT_KEYS
    settings.KOMAND_RECEIPT_KEYS = f"a-new-one,{old}"
    assert verify_receipt(execution.receipt).is_valid
    settings.KOMAND_RECEIPT_KEYS = "a-new-one"
    assert "no longer known here" in verify_receipt(execution.receipt).reason


@pytest.fixture
def sealed():
    return sealer.seal_all


@pytest.mark.parametrize("how", _ENDINGS)
def test_the_sealed_audit_log_has_the_receipt_however_the_execution_ends(ended, sealed, how):
    execution = ended(how)
    sealed()
    entry = AuditEntry.objects.get(action__in=["ToolExecutionCompleted", "ToolExecutionFailed"])
    assert entry.details["receipt"] == execution.receipt
    assert not Verifier().run().faults


def test_a_deleted_execution_and_its_approval_are_found(ended, sealed, capsys):
    execution = ended("denied")
    sealed()
    call_command("verify_receipts")
    Approval.objects.filter(execution_id=execution.id).delete()
    ToolExecution.objects.filter(id=execution.id).delete()
    with pytest.raises(SystemExit):
        call_command("verify_receipts")
    out = capsys.readouterr().out
    assert f"The execution {execution.id} that ended then is missing." in out
    assert "The approval" in out and "that was decided then is missing." in out


@pytest.mark.parametrize("change", [{"decided_by": "user:9"}, {"decision": "allow_always"}, {"status": "approved"}])
def test_a_changed_decision_is_found(ended, sealed, change):
    ended("denied")
    sealed()
    Approval.objects.update(**change)
    assert ["changed after its decision" in fault.detail for fault in Verifier().run().faults] == [True]


def test_an_execution_with_a_receipt_signed_anew_is_found(ended, sealed):
    execution = ended("completed")
    sealed()
    ToolExecution.objects.update(output='{"said": "ö"}')
    assert "does not match" in Verifier().run().faults[0].detail
    row = ToolExecution.objects.get(id=execution.id)
    ToolExecution.objects.update(receipt=receipts.sign(row))
    assert "another receipt" in Verifier().run().faults[0].detail
