"""Declarations of event types: the audit action, the derived sets of names, and the guard of payloads in tests."""

from typing import Annotated, Any, NotRequired, TypedDict

import pytest

from agents_app.events import RUN_ENDS, RUN_FAILED
from audit_app.event_types import EventType, NewEvent, event_types
from audit_app.kernel.ids import new_id
from audit_app.timeline import KeptEvent
from sessions_app.events import STEP_CLOSING
from sessions_app.surfaces.threads.projection import ENDS as THREAD_STATUSES
from tests.support.event_payloads import problems_of, sample_payload


class Usage(TypedDict):
    tokens: int


class Done(TypedDict):
    count: Annotated[int, "how many"]
    share: Annotated[float | None, "0..1 or null"]
    names: Annotated[list[str], "of whom"]
    usage: Annotated[Usage, "{tokens}"]
    details: Annotated[dict[str, Any], "anything"]
    note: NotRequired[Annotated[str, "if any"]]


DONE = EventType("a.done", Done)
FULL = {"count": 1, "share": 0.5, "names": ["a"], "usage": {"tokens": 1}, "details": {"x": [1]}, "note": "n"}


@pytest.mark.parametrize(
    ("event_type", "payload", "action"),
    [
        (EventType("a.done", Done, audit="Done"), {}, "Done"),
        (DONE, {"kind": "x"}, None),
        (EventType("a.found", Done, audit="XFound", audited_kind="x"), {"kind": "x"}, "XFound"),
        (EventType("a.found", Done, audit="XFound", audited_kind="x"), {"kind": "y"}, None),
        (EventType("a.found", Done, audit="XFound", audited_kind="x"), {}, None),
    ],
)
def test_an_audited_type_may_be_so_for_one_kind_alone(event_type, payload, action):
    assert event_type.audit_action(payload) == action


def test_the_sets_of_names_hold_the_declared_types_of_all_apps():
    assert {kind.name for kind in event_types if kind.terminal} == RUN_ENDS == THREAD_STATUSES.keys()
    assert {kind.name for kind in event_types if kind.closes_step} == STEP_CLOSING
    assert {"run.completed", "run.failed", "run.cancelled", "run.timed_out"} == RUN_ENDS
    assert {"tool.requested", "step.completed", "message.completed"} == STEP_CLOSING


def test_a_type_that_closes_a_step_names_the_length_of_its_text():
    assert all("text_length" in kind.descriptions() for kind in event_types if kind.closes_step)


def test_each_key_has_a_description():
    assert DONE.descriptions()["note"] == "if any"
    assert all(kind.descriptions() and all(kind.descriptions().values()) for kind in event_types)


def test_the_payload_of_a_read_event_is_the_stored_one():
    payload = sample_payload(RUN_FAILED, code="crashed")
    event = KeptEvent(new_id(), 1, 1, RUN_FAILED.name, new_id(), None, "", None, "system", payload)
    assert RUN_FAILED.payload(event)["code"] == "crashed"


def test_a_payload_as_declared_passes():
    assert problems_of(DONE, FULL) == problems_of(DONE, sample_payload(DONE)) == []
    assert problems_of(DONE, {**FULL, "share": 1}) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"extra": 1}, "unknown key 'extra'"),
        ({"count": "1"}, "'count' is '1'"),
        ({"count": True}, "'count' is True"),
        ({"share": "all"}, "'share' is 'all'"),
        ({"names": ("a",)}, "'names' is ('a',)"),
        ({"names": [1]}, "'names' is [1]"),
        ({"usage": {}}, "'usage' is {}"),
        ({"details": None}, "'details' is None"),
        ({"note": None}, "'note' is None"),
    ],
)
def test_a_payload_that_differs_from_the_declaration_is_a_problem(change, problem):
    [found] = problems_of(DONE, {**FULL, **change})
    assert found.startswith(f"a.done: {problem}")


def test_a_missing_key_is_a_problem():
    assert len(problems_of(DONE, {})) == len(FULL) - 1


def test_the_guard_sees_every_event_that_is_built(payload_problems):
    NewEvent(DONE, new_id(), {"count": 1})
    assert "a.done: missing key 'share'" in payload_problems
    payload_problems.clear()
