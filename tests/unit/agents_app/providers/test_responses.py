"""Requests of the Responses protocol, and the items of its responses."""

import json
from typing import Any

import pytest

from agents_app.providers.base import ProviderError
from agents_app.providers.errors import Endpoint
from agents_app.providers.refused_parameters import find_refused
from agents_app.providers.responses.event_assembly import Assembly
from agents_app.providers.responses.request_fields import encode_request, optional_parts
from agents_app.types import LoadedPart, Message, ModelRequest, ModelResponse, RunOptions
from tools_app.types import ToolCall, ToolSpec

ENDPOINT = Endpoint("https://api.openai.com/v1", "big-1")
NOTHING: frozenset[str] = frozenset()
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA", "status": None}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "echo", "arguments": "{}"}
TEXT = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "Hm."}], "phase": "commentary"}


def made_of(*items: dict[str, Any], output_limit: int | None = None, **end: Any) -> ModelResponse:
    assembly = Assembly(ENDPOINT, output_limit=output_limit)
    response = {"object": "response", "status": "completed", "output": list(items), **end}
    assembly.add(json.dumps(response).encode())
    return assembly.finish()[1]


def sent_back(made: ModelResponse, endpoint: Endpoint = ENDPOINT, refused: frozenset[str] = NOTHING) -> list[Any]:
    message = Message("assistant", made.text, made.tool_calls, dialect_state=made.dialect_state)
    items: list[Any] = encode_request(ModelRequest("", (message,)), endpoint, refused)["input"]
    return items


def test_a_history_with_a_tool_round_is_encoded_as_items() -> None:
    messages = (
        Message("system", "Be brief."),
        Message("user", "echo x"),
        Message("assistant", "Let me.", (ToolCall("c1", "echo", '{"text":"x"}'),)),
        Message("tool", "x\ud800", tool_call_id="c1"),
    )
    options = RunOptions(temperature=0.5, max_output_tokens=9, sampling={"top_p": 0.1, "stop": ["x"]})
    body = encode_request(ModelRequest("", messages, options=options), ENDPOINT, NOTHING)
    assert body == {
        "model": "big-1",
        "instructions": "Be brief.",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"summary": "auto"},
        "temperature": 0.5,
        "top_p": 0.1,
        "max_output_tokens": 9,
        "input": [
            {"role": "user", "content": "echo x"},
            {"role": "assistant", "content": "Let me."},
            {"type": "function_call", "call_id": "c1", "name": "echo", "arguments": '{"text":"x"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "x?"},
        ],
    }


def test_tools_and_parallel_calls() -> None:
    spec = ToolSpec("echo", "Say it again.", {"type": "object"})
    request = ModelRequest("", (), (spec,), parallel_tool_calls=False)
    body = encode_request(request, ENDPOINT, NOTHING)
    fields = {"name": "echo", "description": "Say it again.", "parameters": {"type": "object"}}
    assert body["tools"] == [{"type": "function", **fields, "strict": False}]
    assert body["parallel_tool_calls"] is False
    last = encode_request(ModelRequest("", (), (spec,), may_call_tools=False), ENDPOINT, NOTHING)
    assert last["tool_choice"] == "none" and "parallel_tool_calls" not in last


def test_parts_are_encoded_and_audio_is_left_to_its_note() -> None:
    parts = tuple(
        LoadedPart(kind, mime_type, name, 3, "", "", data=b"abc")
        for kind, mime_type, name in (
            ("image", "image/png", "a.png"),
            ("file", "application/pdf", "a.pdf"),
            ("audio", "audio/wav", "a.wav"),
        )
    )
    request = ModelRequest("", (Message("user", "See", parts=parts),))
    assert encode_request(request, ENDPOINT, NOTHING)["input"][0]["content"] == [
        {"type": "input_text", "text": "See"},
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,YWJj"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,YWJj"},
    ]


def test_a_picture_of_a_tool_is_in_its_output() -> None:
    picture = LoadedPart("image", "image/png", "a.png", 3, "", "", data=b"abc")
    messages = Message("assistant", "", (ToolCall("c", "echo", "{}"),)), Message("tool", "1", (), "c", (picture,))
    assert encode_request(ModelRequest("", messages), ENDPOINT, NOTHING)["input"][1]["output"] == [
        {"type": "input_text", "text": "1"},
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,YWJj"},
    ]


def test_a_schema_is_sent_or_described() -> None:
    schema = {"type": "object", "title": "Answer"}
    request = ModelRequest("", (Message("system", "Be brief."),), options=RunOptions(output_schema=schema))
    body = encode_request(request, ENDPOINT, NOTHING)
    assert body["text"]["format"]["schema"] == schema and "Answer" not in body["instructions"]
    described = encode_request(request, ENDPOINT, frozenset({"text"}))
    assert "text" not in described and json.dumps(schema) in described["instructions"]
    refusal = {"message": "Unsupported value: 'text.format' is not supported", "param": "text.format"}
    assert find_refused(refusal, optional_parts(body)) == "text"


def test_ids_of_other_dialects_are_shortened_alike_in_call_and_result() -> None:
    long = "x" * 100
    messages = Message("assistant", "", (ToolCall(long, "echo", "{}"),)), Message("tool", "1", tool_call_id=long)
    call, result = encode_request(ModelRequest("", messages), ENDPOINT, NOTHING)["input"]
    assert call["call_id"] == result["call_id"] and len(call["call_id"]) <= 64


def test_reasoning_goes_back_where_it_was() -> None:
    second = {**CALL, "call_id": "c2"}
    items = sent_back(made_of(REASONING, TEXT, CALL, {**REASONING, "id": "rs_2"}, second))
    assert [item["type"] for item in items] == ["reasoning", "message", "function_call", "reasoning", "function_call"]
    assert items[0] == {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    assert items[1] == {"type": "message", "role": "assistant", "content": "Hm.", "phase": "commentary"}
    assert [item["call_id"] for item in items if item["type"] == "function_call"] == ["c1", "c2"]


@pytest.mark.parametrize(
    "endpoint", [Endpoint("https://api.openai.com/v1", "big-2"), Endpoint("http://127.0.0.1:1/v1", "big-1")]
)
def test_reasoning_never_goes_to_another_model_or_server(endpoint: Endpoint) -> None:
    assert [item.get("type") for item in sent_back(made_of(REASONING, CALL), endpoint)] == ["function_call"]


def test_reasoning_that_cannot_be_read_again_is_left_out() -> None:
    made = made_of(REASONING, CALL)
    items = sent_back(made, refused=frozenset({"encrypted_content"}))
    assert [item["type"] for item in items] == ["function_call"]
    body = encode_request(ModelRequest("", (Message("assistant", "", made.tool_calls),)), ENDPOINT, NOTHING)
    assert "encrypted_content" not in optional_parts(body)
    body["input"] = [{"type": "reasoning"}]
    error = {"code": "invalid_encrypted_content", "message": "The encrypted content gAAA could not be verified."}
    assert find_refused(error, optional_parts(body)) == "encrypted_content"
    unsupported = {"message": "Encrypted content is not supported with this model.", "param": "include"}
    assert find_refused(unsupported, optional_parts(body)) == "include"


def test_nothing_is_kept_that_the_server_does_not_need() -> None:
    without_content = {**REASONING, "encrypted_content": None}
    assert made_of(without_content, CALL).dialect_state is None
    assert made_of(CALL, REASONING).dialect_state is None  # nothing follows it
    assert made_of(REASONING, TEXT).dialect_state is None  # an answer


def test_an_answer_without_room_is_an_overflow() -> None:
    cut = {"incomplete_details": {"reason": "max_output_tokens"}, "status": "incomplete", "usage": {"input_tokens": 7}}
    with pytest.raises(ProviderError) as caught:
        made_of(**cut)
    assert (caught.value.code, caught.value.request_tokens) == ("model_context_overflow", 7)
    assert made_of(output_limit=16, **cut).finish_reason == "length"


@pytest.mark.parametrize("details", [None, {"reason": "max_output_tokens"}])
def test_an_answer_that_was_cut_while_the_model_was_reasoning_is_no_overflow(details: Any) -> None:
    usage = {"input_tokens": 7, "output_tokens": 512, "output_tokens_details": {"reasoning_tokens": 512}}
    made = made_of(incomplete_details=details, status="incomplete", usage=usage)
    assert (made.text, made.finish_reason, made.usage.reasoning_tokens) == ("", "length", 512)


@pytest.mark.parametrize(
    "payload",
    [b"[1]", b'{"type":"response.output_text.delta","delta":7}', b'{"type":"response.output_item.done","item":1}']
    + [b'{"type":"response.function_call_arguments.delta","output_index":"x","delta":null}', b'{"type":["x"]}'],
)
def test_events_of_a_wrong_form_are_ignored(payload: bytes) -> None:
    assembly = Assembly(ENDPOINT)
    assert assembly.add(payload) == []
    assembly.add(b'{"type":"response.completed","response":null}')
    assert assembly.finish()[1].text == ""


@pytest.mark.parametrize("payload", [b'{"error":{"message":"x"}}', b'{"type":"response.failed"}', b'{"type":"error"}'])
def test_failures_of_every_form_are_errors(payload: bytes) -> None:
    with pytest.raises(ProviderError):
        Assembly(ENDPOINT).add(payload)
