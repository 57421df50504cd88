"""Receipts over REST: returned with the execution, verified for users who may see it."""

import pytest
from django.utils import timezone

from tests.support.rest import RestCaller, make_execution, make_run, make_session, make_user
from tests.support.rights import make_operator
from tools_app.models import ToolExecution
from tools_app.receipts import receipts

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


@pytest.fixture
def execution(alice) -> ToolExecution:
    row = make_execution(
        make_run(make_session(alice)), status="Completed", output='{"text": "hi"}', completed_at=timezone.now()
    )
    row.receipt = receipts.sign(row)
    row.save(update_fields=["receipt"])
    return row


def verify(user, receipt):
    return RestCaller(user).post("tools/receipts/verify", {"receipt": receipt})


def test_an_execution_shows_its_receipt_and_the_receipt_is_verified(alice, execution):
    shown = RestCaller(alice).get(f"tools/executions/{execution.pk}").data["receipt"]
    assert shown == execution.receipt
    verdict = verify(alice, shown)
    assert (verdict.status, verdict.data["valid"], verdict.data["executionId"]) == (200, True, str(execution.pk))
    assert verify(alice, f"[receipt: {shown}]").data["valid"]


def test_a_changed_record_makes_the_receipt_invalid(alice, execution):
    ToolExecution.objects.update(output='{"text": "ho"}')
    data = verify(alice, execution.receipt).data
    assert (data["valid"], data["executionId"]) == (False, str(execution.pk))
    assert "changed" in data["reason"]


def test_receipts_of_foreign_executions_look_unknown(execution):
    bob = make_user("bob")
    assert verify(bob, execution.receipt).data == verify(bob, execution.receipt[:-3] + "AAA").data
    missing = execution.receipt.replace(str(execution.pk), str(execution.run_id))
    assert verify(bob, execution.receipt).data == verify(bob, missing).data


def test_operators_verify_any(execution):
    assert verify(make_operator("carol"), execution.receipt).data["valid"]


@pytest.mark.parametrize("body", [{}, {"receipt": ""}, {"receipt": "x" * 300}, {"receipt": ["a"]}])
def test_a_request_without_a_receipt_is_400(alice, body):
    assert RestCaller(alice).post("tools/receipts/verify", body).status == 400


@pytest.mark.parametrize("text", ["nonsense", "kr1.00000000.x.y", "kr1\n"])
def test_text_that_is_no_receipt_is_not_valid(alice, text):
    answer = verify(alice, text)
    assert (answer.status, answer.data["valid"], answer.data["executionId"]) == (200, False, None)
