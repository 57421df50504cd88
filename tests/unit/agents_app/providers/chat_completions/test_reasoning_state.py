"""Reasoning that goes back to the server within a round of tool calls, and nowhere else."""

import json
import math
from collections.abc import Mapping
from typing import Any

import pytest

from agents_app.providers import dialect_state
from agents_app.providers.chat_completions.request_body import encode_request, optional_parts
from agents_app.providers.chat_completions.response_builder import Assembly
from agents_app.providers.errors import Endpoint
from agents_app.types import Message, ModelRequest, ModelResponse
from tools_app.types import ToolCall

ENDPOINT = Endpoint("https://models.example/v1", "big-1")
CALL = {"index": 0, "id": "c1", "function": {"name": "echo", "arguments": "{}"}}
SIGNED = {"google": {"thought_signature": "CvQBAeF"}}


def response(*deltas: dict[str, Any], endpoint: Endpoint = ENDPOINT) -> ModelResponse:
    assembly = Assembly(endpoint)
    for delta in deltas:
        assembly.add(json.dumps({"choices": [{"delta": delta}]}).encode())
    assembly.add(b'{"choices": [{"delta": {}, "finish_reason": "stop"}]}')
    return assembly.finish()[1]


def sent_back(
    made: ModelResponse, endpoint: Endpoint = ENDPOINT, refused: frozenset[str] = frozenset()
) -> dict[str, Any]:
    stored: Mapping[str, Any] | None = json.loads(json.dumps(made.dialect_state))
    message = Message("assistant", made.text, made.tool_calls, reasoning=made.reasoning, dialect_state=stored)
    body = encode_request(ModelRequest("", (message,)), endpoint, refused)
    encoded: dict[str, Any] = body["messages"][0]
    assert set(optional_parts(body)) >= {name for name in encoded if name.startswith("reasoning")}
    return encoded


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_goes_back_under_the_name_it_came_with(name: str) -> None:
    made = response({name: "Let me "}, {name: "see."}, {"tool_calls": [CALL]})
    assert made.reasoning == "Let me see."
    assert sent_back(made)[name] == "Let me see."
    assert name not in sent_back(made, refused=frozenset({name}))


def test_details_grow_piece_by_piece_and_go_back_unchanged() -> None:
    pieces = [
        {"type": "reasoning.text", "text": "Let ", "index": 0, "format": "x"},
        {"type": "reasoning.text", "text": "me see.", "index": 0, "signature": "s1"},
        {"type": "reasoning.encrypted", "data": "b64", "index": 1},
    ]
    made = response(*({"reasoning_details": [piece]} for piece in pieces), {"tool_calls": [CALL]})
    assert made.reasoning == "Let me see."
    assert sent_back(made)["reasoning_details"] == [
        {"type": "reasoning.text", "text": "Let me see.", "index": 0, "format": "x", "signature": "s1"},
        {"type": "reasoning.encrypted", "data": "b64", "index": 1},
    ]


def test_reasoning_that_is_sent_twice_is_shown_once() -> None:
    piece = {"reasoning": "Hm.", "reasoning_details": [{"type": "reasoning.text", "text": "Hm.", "index": 0}]}
    made = response(piece, {"tool_calls": [CALL]})
    assert made.reasoning == "Hm."
    assert {"reasoning", "reasoning_details"} <= sent_back(made).keys()


def test_a_signature_goes_back_with_its_call() -> None:
    second = {**CALL, "index": 1, "id": "c2"}
    made = response({"tool_calls": [{**CALL, "extra_content": SIGNED}]}, {"tool_calls": [second]})
    calls = sent_back(made)["tool_calls"]
    assert calls[0]["extra_content"] == SIGNED and "extra_content" not in calls[1]
    assert "extra_content" not in sent_back(made, refused=frozenset({"extra_content"}))["tool_calls"][0]


@pytest.mark.parametrize(
    "other", [Endpoint("https://models.example/v1", "big-2"), Endpoint("https://other.example/v1", "big-1")]
)
def test_another_model_or_server_never_gets_it(other: Endpoint) -> None:
    made = response({"reasoning_content": "Hm."}, {"tool_calls": [{**CALL, "extra_content": SIGNED}]})
    assert sent_back(made, other).keys() == {"role", "content", "tool_calls"}
    assert "extra_content" not in sent_back(made, other)["tool_calls"][0]


@pytest.mark.parametrize(("model", "is_marked"), [("gemini-3-pro", True), ("gemini-2.5-pro", False), ("gpt-5", False)])
def test_calls_of_another_model_are_marked_for_gemini(model: str, is_marked: bool) -> None:
    call = Message("assistant", "", (ToolCall("c1", "echo", "{}"), ToolCall("c2", "echo", "{}")))
    request = ModelRequest("", (call, Message("user", "Go on."), call, Message("tool", "x", tool_call_id="c1")))
    earlier, _, own, _ = encode_request(request, Endpoint("https://models.example/v1", model))["messages"]
    assert [("extra_content" in call) for call in own["tool_calls"]] == [is_marked, False]
    assert not any("extra_content" in call for call in earlier["tool_calls"])


def test_an_answer_has_nothing_to_send_back() -> None:
    assert response({"reasoning_content": "Hm."}, {"content": "Yes."}).dialect_state is None
    assert response({"tool_calls": [CALL]}).dialect_state is None


def test_reasoning_among_the_content_parts_is_no_text() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    made = response({"content": [thinking]}, {"content": [{"type": "text", "text": "Yes."}]})
    assert (made.reasoning, made.text) == ("Hm.", "Yes.")


def test_only_what_a_database_takes_is_kept() -> None:
    state = dialect_state.state_of("d", ENDPOINT, {"a": ["x\0\ud800"], "b": {"n": math.nan}, "c": []})
    assert state == {"dialect": "d", "server": ENDPOINT.server, "model": "big-1", "a": ["x��"], "b": {"n": None}}
    assert dialect_state.state_of("d", ENDPOINT, {"a": "x" * dialect_state.MAX_CHARACTERS}) is None


@pytest.mark.parametrize("message", [Message("assistant", "", (ToolCall("c1", "echo", "{}"),), dialect_state={"x": 1})])
def test_a_foreign_state_is_ignored(message: Message) -> None:
    assert "x" not in encode_request(ModelRequest("", (message,)), ENDPOINT)["messages"][0]
