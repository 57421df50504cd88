import json
from typing import Any

import pytest

from agents_app.providers.base import ProviderError
from agents_app.providers.chat_completions import response_builder
from agents_app.providers.chat_completions.response_builder import Assembly
from agents_app.providers.errors import Endpoint
from agents_app.types import ModelResponse, ReasoningDelta, TextDelta, Usage
from tools_app.types import ToolCall

DONE = b"[DONE]"


def chunk(delta: Any = None, finish_reason: str | None = None, **more: Any) -> bytes:
    return json.dumps(
        {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish_reason}], **more}
    ).encode()


def assembled(*payloads: bytes) -> tuple[list[TextDelta | ReasoningDelta], ModelResponse]:
    assembly = Assembly(Endpoint("http://models.example/v1", "m"))
    deltas = [delta for payload in payloads for delta in assembly.add(payload)]
    last, response = assembly.finish()
    return deltas + last, response


def test_text_reasoning_and_usage_become_one_response() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    deltas, response = assembled(
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "Hm."}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk({}, "stop"),
        json.dumps({"choices": [], "usage": usage}).encode(),
        DONE,
    )
    assert deltas == [ReasoningDelta("Hm."), TextDelta("Hel"), TextDelta("lo")]
    assert response == ModelResponse("Hello", "Hm.", (), "stop", Usage(5, 2))


def test_a_tool_call_sets_the_finish_reason_whatever_the_server_calls_it() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "echo", "arguments": "{}"}}
    for reason in ("tool_calls", "stop", "function_call"):
        _, response = assembled(chunk({"tool_calls": [call]}), chunk({}, reason))
        assert (response.tool_calls, response.finish_reason) == ((ToolCall("a", "echo", "{}"),), "tool_calls")


def test_a_response_cut_by_its_limit_keeps_the_reason_and_the_invalid_call() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "echo", "arguments": '{"te'}}
    _, response = assembled(chunk({"tool_calls": [call]}, "length"), DONE)
    assert response.finish_reason == "length" and response.tool_calls[0].arguments == '{"te'


@pytest.mark.parametrize("end", [(chunk({}, "stop"),), (DONE,)], ids=["no-done", "no-finish-reason"])
def test_one_sign_of_the_end_is_enough(end: tuple[bytes, ...]) -> None:
    assert assembled(chunk({"content": "x"}), *end)[1].finish_reason == "stop"


@pytest.mark.parametrize("payloads", [(), (chunk({"content": "x"}),)], ids=["empty", "in-mid-text"])
def test_a_stream_without_any_sign_of_its_end_was_cut(payloads: tuple[bytes, ...]) -> None:
    with pytest.raises(ProviderError) as caught:
        assembled(*payloads)
    assert caught.value.code == "model_stream_cut" and caught.value.retryable


@pytest.mark.parametrize("payload", [b'{"choices": [', b"\xff\xfe\xfd", b"nonsense", b"[" * 100_000])
def test_broken_data_ends_the_stream(payload: bytes) -> None:
    with pytest.raises(ProviderError) as caught:
        assembled(payload)
    assert caught.value.code == "model_stream_cut"


@pytest.mark.parametrize(
    "odd",
    [
        3,
        None,
        [],
        {},
        {"choices": None},
        {"choices": [None]},
        {"choices": [{"delta": None}]},
        {"choices": [{"delta": {"content": 3, "tool_calls": 3}}], "usage": 3},
        {"usage": {"prompt_tokens": "x"}},
    ],
)
def test_odd_but_harmless_chunks_are_passed_over(odd: Any) -> None:
    assert assembled(json.dumps(odd).encode(), chunk({"content": "x"}, "stop"))[1].text == "x"


def test_content_in_parts_and_refusals_are_text() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
    assert assembled(chunk({"content": parts}), chunk({"refusal": "no"}, "stop"))[1].text == "abno"


def test_a_whole_answer_is_taken_like_a_chunk() -> None:
    message = {"role": "assistant", "content": "Hi", "tool_calls": None}
    whole = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
    assert assembled(whole)[1] == ModelResponse("Hi", finish_reason="stop")


def test_a_whole_answer_needs_no_finish_reason() -> None:
    whole = {"object": "chat.completion", "choices": [{"message": {"content": "Hi"}}]}
    assert assembled(json.dumps(whole).encode())[1].text == "Hi"


def test_only_the_first_choice_counts() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "other"}}]}
    assert assembled(json.dumps(other).encode(), chunk({"content": "x"}, "stop"))[1].text == "x"


def test_an_error_object_in_the_stream_is_raised() -> None:
    with pytest.raises(ProviderError) as caught:
        assembled(chunk({"content": "x"}), json.dumps({"error": {"message": "overloaded", "code": 503}}).encode())
    assert caught.value.code == "model_error" and "overloaded" in caught.value.message


def test_an_answer_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_builder, "MAX_CHARACTERS", 10)
    with pytest.raises(ProviderError) as caught:
        assembled(chunk({"content": "x" * 6}), chunk({"content": "x" * 6}))
    assert not caught.value.retryable


def test_too_many_calls_are_refused() -> None:
    calls = [{"index": number, "function": {"name": "echo"}} for number in range(response_builder.MAX_CALLS + 1)]
    with pytest.raises(ProviderError) as caught:
        assembled(chunk({"tool_calls": calls}))
    assert not caught.value.retryable


def test_the_deltas_joined_are_the_text_even_when_a_character_is_split() -> None:
    deltas, response = assembled(
        chunk({"content": "a\ud83d"}), chunk({"content": "\ude00"}), chunk({"content": "\ud83d"}, "stop")
    )
    assert "".join(delta.text for delta in deltas) == response.text == "a😀�"
