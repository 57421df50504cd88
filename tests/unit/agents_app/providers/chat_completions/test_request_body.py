from typing import Any

import pytest

from agents_app.providers.chat_completions.request_body import encode_request, optional_parts
from agents_app.providers.errors import Endpoint
from agents_app.types import LoadedPart, Message, MessagePart, ModelRequest, RunOptions
from tools_app.types import ToolCall, ToolSpec

ENDPOINT = Endpoint("http://models.example/v1", "m")


def test_a_history_with_a_tool_round_is_encoded_as_the_protocol_wants_it() -> None:
    call = ToolCall("c1", "echo", '{"text":"x"}')
    messages = (
        Message("system", "Be brief."),
        Message("user", "echo x"),
        Message("assistant", "", (call,)),
        Message("tool", "x", tool_call_id="c1"),
    )
    body = encode_request(ModelRequest("", messages), ENDPOINT)
    function = {"name": "echo", "arguments": '{"text":"x"}'}
    assert body == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "echo x"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": function}],
            },
            {"role": "tool", "content": "x", "tool_call_id": "c1"},
        ],
    }


def test_tools_are_offered_with_their_schema() -> None:
    spec = ToolSpec("echo", "Say it again.", {"type": "object"})
    body = encode_request(ModelRequest("", (), (spec,)), ENDPOINT, frozenset({"stream_options"}))
    assert body["tools"] == [
        {
            "type": "function",
            "function": {"name": "echo", "description": "Say it again.", "parameters": {"type": "object"}},
        }
    ]
    assert "stream_options" not in body


def test_text_that_is_not_unicode_can_still_be_sent() -> None:
    body = encode_request(ModelRequest("", (Message("user", "a\ud800ä"),)), ENDPOINT)
    assert body["messages"][0]["content"] == "a?ä"


@pytest.mark.parametrize(
    ("wanted", "may_call", "expected"),
    [(None, True, {}), (True, True, {"parallel_tool_calls": True}), (False, True, {"parallel_tool_calls": False})]
    + [(False, False, {"tool_choice": "none"})],
)
def test_parallel_calls_are_the_servers_default_on_or_off(
    wanted: bool | None, may_call: bool, expected: dict[str, Any]
) -> None:
    request = ModelRequest("", (), (ToolSpec("echo", "", {}),), may_call_tools=may_call, parallel_tool_calls=wanted)
    body = encode_request(request, ENDPOINT)
    assert {name: body[name] for name in ("parallel_tool_calls", "tool_choice") if name in body} == expected
    assert "parallel_tool_calls" not in encode_request(ModelRequest("", (), parallel_tool_calls=False), ENDPOINT)


@pytest.mark.parametrize(
    ("server", "names"),
    [
        ("https://api.openai.com/v1", {"max_completion_tokens"}),
        ("http://127.0.0.1:11434/v1", {"max_completion_tokens", "max_tokens"}),
    ],
)
def test_the_longest_answer_has_the_names_that_the_server_may_know(server: str, names: set[str]) -> None:
    request = ModelRequest("", (), options=RunOptions(max_output_tokens=7))
    body = encode_request(request, Endpoint(server, "m"))
    assert {name for name in body if name.startswith("max_")} == names
    assert set(optional_parts(body)) == {"stream_options", *names}


def test_parts_are_encoded_behind_the_text() -> None:
    def part(kind: str, mime_type: str, name: str) -> LoadedPart:
        return LoadedPart(kind, mime_type, name, 3, "id", "Attached", data=b"abc")

    parts = (part("image", "image/png", "a.png"), part("audio", "audio/mpeg", ""), part("file", "application/pdf", "b"))
    unloaded = MessagePart("image", "image/png", "c.png", 3, "id", "Attached")
    messages = (Message("user", "Look.", parts=(*parts, unloaded)), Message("user", "No.", parts=(unloaded,)))
    body = encode_request(ModelRequest("", messages), ENDPOINT)
    assert [message["content"] for message in body["messages"]] == [
        [
            {"type": "text", "text": "Look."},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,YWJj"}},
            {"type": "input_audio", "input_audio": {"data": "YWJj", "format": "mp3"}},
            {"type": "file", "file": {"filename": "b", "file_data": "data:application/pdf;base64,YWJj"}},
        ],
        "No.",
    ]


def test_sampling_is_sent_as_it_is_named() -> None:
    wanted = {"top_p": 0.5, "presence_penalty": 1, "frequency_penalty": -1, "stop": ["END"]}
    body = encode_request(ModelRequest("", (), options=RunOptions(sampling=wanted)), ENDPOINT)
    assert wanted.items() <= body.items()
