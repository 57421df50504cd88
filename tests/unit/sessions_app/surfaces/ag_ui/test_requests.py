"""RunAgentInput: whatever a body contains, it is read or refused."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents_app.types import LoadedPart
from audit_app.kernel.errors import InvalidInput
from sessions_app.surfaces.ag_ui.interrupts import answer_of, decision_of
from sessions_app.surfaces.ag_ui.requests import RunRequest, read_request

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ROLES = st.sampled_from(["user", "assistant", "tool", "system", "developer", "reasoning", "activity"])


def objects(**fields: Any) -> Any:
    """Return objects in which each field is as it should be, anything, or not there."""
    return st.fixed_dictionaries({}, optional={name: value | ANYTHING for name, value in fields.items()})


CALLS = st.lists(objects(id=st.text(min_size=1), function=objects(name=st.text(min_size=1), arguments=st.text())))
PARTS = st.lists(objects(type=st.sampled_from(["text", "image"]), text=st.text(), source=objects(type=st.just("data"))))
MESSAGES = st.lists(
    objects(id=st.text(min_size=1), role=ROLES, content=st.text() | PARTS, toolCalls=CALLS, toolCallId=st.text()),
    max_size=3,
)
BODIES = ANYTHING | objects(
    threadId=st.text(min_size=1, max_size=5),
    runId=st.text(min_size=1, max_size=5),
    messages=MESSAGES,
    tools=st.lists(objects(name=st.text(), description=st.text(), parameters=ANYTHING), max_size=2),
    context=st.lists(objects(description=st.text(), value=st.text()), max_size=2),
    state=ANYTHING,
    resume=st.lists(objects(interruptId=st.text(), status=st.sampled_from(["resolved", "cancelled"]))),
)
BODY: dict[str, Any] = {"threadId": "t", "runId": "r", "messages": []}


@given(BODIES)
def test_any_body_is_read_or_refused(body: Any) -> None:
    with suppress(InvalidInput):
        assert isinstance(read_request(body), RunRequest)


def test_the_users_messages_at_the_end_are_new() -> None:
    def message(number: int, role: str) -> dict[str, Any]:
        return {"id": str(number), "role": role, "content": f"text {number}"}

    roles = ["system", "user", "reasoning", "assistant", "user", "activity", "user"]
    request = read_request({**BODY, "messages": [message(number, role) for number, role in enumerate(roles)]})
    assert [each.content for each in request.history] == ["text 1", "text 3"]
    assert [(message_id, each.content) for message_id, each in request.new] == [("4", "text 4"), ("6", "text 6")]
    assert request.options.instructions == "text 0" and not request.outputs


@pytest.mark.parametrize(
    ("metadata", "name"), [({"filename": "a.txt"}, "a.txt"), ({"filename": 7}, ""), ({}, ""), ("a", ""), (None, "")]
)
def test_a_file_may_have_a_name(metadata: Any, name: str) -> None:
    part = {"type": "document", "source": {"type": "data", "value": "YQ=="}, "metadata": metadata}
    [(_, message)] = read_request({**BODY, "messages": [{"id": "1", "role": "user", "content": [part]}]}).new
    [file] = message.parts
    assert isinstance(file, LoadedPart) and (file.name, file.data) == (name, b"a")


def test_outputs_at_the_end_are_those_of_calls() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}
    asked = {"id": "1", "role": "assistant", "toolCalls": [call]}
    request = read_request(
        {**BODY, "messages": [asked, {"id": "2", "role": "tool", "toolCallId": "c", "content": "x"}]}
    )
    assert [(output.call_id, output.text) for output in request.outputs] == [("c", "x")] and not request.new
    assert request.known_calls == {"c"} and request.history[0].tool_calls[0].arguments == "{}"


def test_unknown_fields_are_ignored() -> None:
    assert read_request({**BODY, "messages": [{"id": "1", "role": "user", "content": "x", "y": 1}], "z": 2}).new


@pytest.mark.parametrize(
    ("payload", "decision"),
    [
        (None, ("deny", "")),
        ({"approved": True}, ("allow_once", "")),
        ({"approved": True, "decision": "allow_run"}, ("allow_run", "")),
        ({"approved": False, "note": "no"}, ("deny", "no")),
    ],
)
def test_decisions(payload: Any, decision: tuple[str, str]) -> None:
    assert decision_of(payload) == decision


@pytest.mark.parametrize("payload", [{}, True, {"approved": "yes"}, {"approved": True, "decision": "deny"}])
def test_payloads_that_are_no_decision(payload: Any) -> None:
    with pytest.raises(InvalidInput):
        decision_of(payload)


@pytest.mark.parametrize(
    ("payload", "text"),
    [(None, "-"), ("red", "red"), ({"answer": "a\nb"}, "a\nb"), ({"answer": ["a\nb", "c"]}, "a b\nc")],
)
def test_answers(payload: Any, text: str) -> None:
    assert answer_of(payload) == text
