from agents_app.providers.chat_completions.request_body import encode_request
from agents_app.types import Message, ModelRequest
from tools_app.types import ToolCall, ToolSpec


def test_a_history_with_a_tool_round_is_encoded_as_the_protocol_wants_it() -> None:
    call = ToolCall("c1", "echo", '{"text":"x"}')
    messages = (
        Message("system", "Be brief."),
        Message("user", "echo x"),
        Message("assistant", "", (call,)),
        Message("tool", "x", tool_call_id="c1"),
    )
    body = encode_request(ModelRequest("", messages), model="m", asks_for_usage=True)
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
    body = encode_request(ModelRequest("", (), (spec,)), model="m", asks_for_usage=False)
    assert body["tools"] == [
        {
            "type": "function",
            "function": {"name": "echo", "description": "Say it again.", "parameters": {"type": "object"}},
        }
    ]
    assert "stream_options" not in body


def test_text_that_is_not_unicode_can_still_be_sent() -> None:
    body = encode_request(ModelRequest("", (Message("user", "a\ud800ä"),)), model="m", asks_for_usage=False)
    assert body["messages"][0]["content"] == "a?ä"
