"""Tools of a client, with the real `openai` client against a whole installation: both protocols, whole and streamed."""

import json
import signal
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.fakes.model_server import ModelServer
from tests.support.live_server import LiveKomand, wait_for

WEATHER: dict[str, Any] = {
    "name": "get_weather",
    "description": "Read the weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
CHAT_TOOLS: Any = [{"type": "function", "function": WEATHER}]
TOOLS: Any = [{"type": "function", **WEATHER}]
ASK = '[[tool=get_weather args={"city":"Oslo"}]]'


@pytest.fixture(scope="module")
def client(live_komand: LiveKomand) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{live_komand.url}/v1", api_key=live_komand.api_key, max_retries=0, timeout=60) as client:
        yield client


def _chat(client: OpenAI, messages: list[Any], **more: Any) -> Any:
    return client.chat.completions.create(model="default", messages=messages, tools=CHAT_TOOLS, **more)


def _first(client: OpenAI, text: str = ASK, **more: Any) -> tuple[list[Any], Any]:
    """Return the messages so far, with the calls, and the answer that has them."""
    asked = [{"role": "user", "content": text}]
    answer = _chat(client, asked, **more)
    return [*asked, answer.choices[0].message.model_dump(exclude_none=True)], answer


def _output(call: Any, text: str) -> dict[str, str]:
    return {"role": "tool", "tool_call_id": call.id, "content": text}


def test_a_completion_returns_the_call_and_goes_on_with_its_output(client: OpenAI, model_server: ModelServer) -> None:
    messages, first = _first(client)
    (choice,) = first.choices
    assert choice.finish_reason == "tool_calls" and choice.message.content is None
    (call,) = choice.message.tool_calls
    assert call.function.name == "get_weather" and json.loads(call.function.arguments) == {"city": "Oslo"}
    offered = [tool["function"] for tool in model_server.requests[-1].body["tools"]]
    assert WEATHER in offered
    answer = _chat(client, [*messages, _output(call, "18 degrees")])
    assert "18 degrees" in answer.choices[0].message.content and answer.choices[0].finish_reason == "stop"
    assert answer.id.startswith(first.id) and answer.id != first.id
    sent = model_server.requests[-1].messages
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool"]
    assert "18 degrees" in sent[-1]["content"]


def test_the_same_outputs_get_the_same_answer(client: OpenAI, model_server: ModelServer) -> None:
    messages, first = _first(client)
    messages.append(_output(first.choices[0].message.tool_calls[0], "3 degrees"))
    answers = [_chat(client, messages).choices[0].message.content for _ in range(2)]
    count = model_server.count
    streamed = _chat(client, messages, stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in streamed)
    assert {*answers, text} == {answers[0]} and "3 degrees" in text and model_server.count == count


def test_a_stream_returns_the_calls(client: OpenAI) -> None:
    text = '[[tools=[["get_weather",{"city":"Oslo"}],["get_weather",{"city":"Rome"}]]]]'
    chunks = list(_chat(client, [{"role": "user", "content": text}], stream=True))
    calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
    assert [(call.index, json.loads(call.function.arguments)["city"]) for call in calls] == [(0, "Oslo"), (1, "Rome")]
    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "tool_calls"


def test_the_outputs_of_a_step_come_together(client: OpenAI) -> None:
    messages, first = _first(client, '[[tools=[["get_weather",{"city":"Oslo"}],["get_weather",{"city":"Rome"}]]]]')
    one, two = first.choices[0].message.tool_calls
    with pytest.raises(openai.BadRequestError) as refused:
        _chat(client, [*messages, _output(one, "1")])
    assert refused.value.code == "missing_tool_output"
    answer = _chat(client, [*messages, _output(one, "1"), _output(two, '{"degrees": 2}')])
    assert answer.choices[0].finish_reason == "stop"


def test_tools_of_the_agent_and_of_the_client_in_one_step(client: OpenAI, model_server: ModelServer) -> None:
    messages, first = _first(client, '[[tools=[["calculator",{"expression":"6*7"}],["get_weather",{"city":"Oslo"}]]]]')
    (call,) = first.choices[0].message.tool_calls
    assert call.function.name == "get_weather"
    assert _chat(client, [*messages, _output(call, "warm")]).choices[0].finish_reason == "stop"
    results = [message["content"] for message in model_server.requests[-1].messages if message["role"] == "tool"]
    assert "42" in results[0] and "warm" in results[1]


def test_a_response_returns_the_call_and_is_continued(client: OpenAI, model_server: ModelServer) -> None:
    first = client.responses.create(model="default", input=ASK, tools=TOOLS)
    assert first.status == "completed" and [item.type for item in first.output] == ["function_call"]
    call: Any = first.output[0]
    assert call.name == "get_weather" and json.loads(call.arguments) == {"city": "Oslo"}
    assert [tool.type for tool in first.tools] == ["function"] and first.usage
    outputs: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": "9 degrees"}]
    second = client.responses.create(model="default", input=outputs, previous_response_id=first.id, tools=TOOLS)
    assert "9 degrees" in second.output_text and [item.type for item in second.output] == ["message"]
    assert second.id != first.id
    assert client.responses.retrieve(first.id).output[0].type == "function_call"
    assert client.responses.retrieve(second.id).output_text == second.output_text
    third = client.responses.create(model="default", input='[[text="Bye."]]', previous_response_id=second.id)
    assert third.output_text == "Bye."
    roles = [message["role"] for message in model_server.requests[-1].messages]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]


def test_a_streamed_response_returns_the_call(client: OpenAI) -> None:
    asked: list[Any] = [{"role": "user", "content": ASK}]
    events = list(client.responses.create(model="default", input=asked, tools=TOOLS, stream=True))
    kinds = [event.type for event in events if "function_call" in event.type or "item" in event.type]
    assert kinds == [
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
    ]
    numbers = [event.sequence_number for event in events]
    assert numbers == sorted(set(numbers))
    last: Any = events[-1]
    call = last.response.output[0]
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "cold"}
    whole = [*asked, call.model_dump(), output]
    rest = list(client.responses.create(model="default", input=whole, tools=TOOLS, stream=True))
    text = "".join(event.delta for event in rest if event.type == "response.output_text.delta")
    assert "cold" in text and rest[-1].type == "response.completed" and rest[-1].response.output_text == text


def test_a_call_outlives_the_worker(client: OpenAI, live_komand: LiveKomand) -> None:
    messages, first = _first(client)
    for process in live_komand.status()["processes"]:
        if process["name"].startswith(("runs", "web")):
            live_komand.kill(process["name"], signal.SIGKILL)
    wait_for(lambda: _answers(client, messages, first), 120, "the answer after a crash")


def _answers(client: OpenAI, messages: list[Any], first: Any) -> bool:
    try:
        answer = _chat(client, [*messages, _output(first.choices[0].message.tool_calls[0], "rain")])
    except (openai.APIConnectionError, openai.InternalServerError):
        return False
    return "rain" in answer.choices[0].message.content


def test_a_client_that_goes_on_without_the_outputs_gets_an_answer(client: OpenAI) -> None:
    first = client.responses.create(model="default", input=ASK, tools=TOOLS)
    second = client.responses.create(model="default", input='[[text="All right."]]', previous_response_id=first.id)
    assert second.output_text == "All right."
    outputs: Any = [{"type": "function_call_output", "call_id": first.output[0].call_id, "output": "late"}]  # type: ignore[union-attr]
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="default", input=outputs, previous_response_id=first.id, tools=TOOLS)
    assert refused.value.code == "unknown_tool_call"


def test_calls_of_another_server_are_taken_from_the_conversation(client: OpenAI, model_server: ModelServer) -> None:
    call = {"id": "call_abc", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "How warm is it?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_abc", "content": "21 degrees"},
    ]
    answer = _chat(client, messages)
    assert "21 degrees" in answer.choices[0].message.content
    assert [message["role"] for message in model_server.requests[-1].messages][1:] == ["user", "assistant", "tool"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"tools": [{"type": "web_search"}]}, "unsupported_tool"),
        ({"tools": [{"type": "function", "function": {"name": "calculator"}}]}, "tool_name_taken"),
        ({"tools": [CHAT_TOOLS[0], CHAT_TOOLS[0]]}, "invalid_value"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "nothing"}}}]},
            "invalid_value",
        ),
        ({"tools": CHAT_TOOLS, "tool_choice": {"type": "function", "function": {"name": "other"}}}, "invalid_value"),
        ({"messages": [{"role": "tool", "tool_call_id": f"call_{'0' * 32}", "content": "x"}]}, "unknown_tool_call"),
    ],
)
def test_unusable_tools_and_outputs_are_refused(client: OpenAI, change: dict[str, Any], code: str) -> None:
    body = {"model": "default", "messages": [{"role": "user", "content": "hi"}], **change}
    with pytest.raises(openai.BadRequestError) as refused:
        client.post("/chat/completions", body=body, cast_to=object)
    assert refused.value.code == code


def test_a_tool_choice_reaches_the_model_once(client: OpenAI, model_server: ModelServer) -> None:
    named: Any = {"type": "function", "function": {"name": "get_weather"}}
    messages, first = _first(client, tool_choice=named)
    assert model_server.requests[-1].body["tool_choice"] == named
    _chat(client, [*messages, _output(first.choices[0].message.tool_calls[0], "18")])
    assert "tool_choice" not in model_server.requests[-1].body
