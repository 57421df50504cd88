"""Receipts: covered fields, detection of changes, rotation of keys."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit_app.kernel.canonical_json import canonical_json
from audit_app.kernel.signing_keys import parse_keys
from tools_app.receipts.mac import CallState, encode, find_fault, make_receipt, parse
from tools_app.types import ExecutionStatus, result_text, without_receipt

KEY, OLDER = "a long and random key", "an older one"
AT = datetime(2026, 3, 4, 5, 6, 7, 891011, tzinfo=UTC)
CALL = CallState(
    execution_id=UUID(int=7),
    run_id=UUID(int=8),
    tool="echo",
    arguments={"text": "hi", "n": 1},
    status="Completed",
    text='{"text": "hi"}',
    created_at=AT,
    started_at=AT + timedelta(seconds=1),
    completed_at=AT + timedelta(seconds=2),
)
CHANGES = {
    "run_id": UUID(int=9),
    "tool": "echo2",
    "arguments": {"text": "hi", "n": 2},
    "status": "Failed",
    "text": '{"text": "ho"}',
    "created_at": AT + timedelta(microseconds=1),
    "started_at": None,
    "completed_at": AT + timedelta(seconds=2, microseconds=1),
}


def fault(call: CallState, receipt: str, keys: str = KEY) -> str:
    found = parse(receipt)
    assert found
    return find_fault(found, call, keys)


def test_a_receipt_proves_its_call_and_names_it():
    receipt = make_receipt(CALL, KEY)
    assert receipt.startswith(f"kr1.{parse_keys(KEY)[0].id}.{CALL.execution_id}.")
    assert fault(CALL, receipt) == ""


def test_the_encoding_never_changes_unnoticed():
    """Old receipts are verified with today's code."""
    assert make_receipt(CALL, KEY) == (
        "kr1.cd48e280.00000000-0000-0000-0000-000000000007.JXevt3NJfBmed6IvJu2nh_s8uFDZvU47FPNsUV4e_ME"
    )
    assert result_text(ExecutionStatus.FAILED, None, "No.") == "[Failed] No."
    assert result_text(ExecutionStatus.COMPLETED, "7", None) == "7"


@pytest.mark.parametrize("field", CHANGES)
def test_a_change_of_any_field_is_found(field):
    assert "was changed" in fault(replace(CALL, **{field: CHANGES[field]}), make_receipt(CALL, KEY))


def test_a_receipt_of_another_execution_proves_nothing():
    other = replace(CALL, execution_id=UUID(int=10))
    assert "another" in fault(CALL, make_receipt(other, KEY))


@pytest.mark.parametrize("place", [0, 4, 20, -1])
def test_a_receipt_with_another_character_is_refused(place):
    receipt = list(make_receipt(CALL, KEY))
    receipt[place] = "1" if receipt[place] != "1" else "2"
    found = parse("".join(receipt))
    assert found is None or find_fault(found, CALL, KEY)


def test_text_cannot_move_from_one_field_to_the_next():
    assert encode(replace(CALL, tool="ab", status="c")) != encode(replace(CALL, tool="a", status="bc"))


def test_an_old_receipt_holds_after_the_keys_were_rotated():
    receipt = make_receipt(CALL, OLDER)
    assert fault(CALL, receipt, f"{KEY}, {OLDER}") == ""
    assert make_receipt(CALL, f"{KEY},{OLDER}") == make_receipt(CALL, KEY)
    assert "no longer known here" in fault(CALL, receipt)


def test_no_key_is_an_error():
    with pytest.raises(ValueError, match="no receipt key"):
        make_receipt(CALL, " , ")


@pytest.mark.parametrize(
    "text", ["", "kr1", "kr1.a.b.c", "kr2" + make_receipt(CALL, KEY)[3:], "[receipt: ]", "x" * 10**5]
)
def test_what_is_no_receipt_is_not_read_as_one(text):
    assert parse(text) is None


def test_the_line_that_the_model_saw_is_read_too():
    receipt = make_receipt(CALL, KEY)
    assert parse(f" [receipt: {receipt}]\n") == parse(receipt)


def test_a_result_without_its_receipt_line_is_the_result():
    assert without_receipt('{"a": 1}\n[receipt: kr1.x]') == '{"a": 1}'
    assert without_receipt("[Failed] [receipt: no line]") == "[Failed] [receipt: no line]"


@pytest.mark.parametrize(
    ("sent", "stored"), [(1e3, 1000), (-0.0, 0), (1e23, 10**23), (2.50, 2.5), ([1.0, {"a": 2.0}], [1, {"a": 2}])]
)
def test_numbers_read_the_same_after_a_database_had_them(sent, stored):
    assert canonical_json({"x": sent}) == canonical_json({"x": stored})


@given(st.integers(), st.integers())
def test_different_numbers_are_distinguished(one, other):
    assert (canonical_json(one) == canonical_json(other)) == (one == other)


def test_arguments_in_another_order_are_the_same_arguments():
    assert canonical_json({"b": "é", "a": [1]}) == '{"a":[1],"b":"é"}'
