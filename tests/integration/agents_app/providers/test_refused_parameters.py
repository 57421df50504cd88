"""Servers that do not accept an optional part of a request."""

import pytest

from agents_app.providers.base import ProviderError
from agents_app.providers.kinds.openai import OpenAIProvider
from agents_app.types import Message, ModelRequest, RunOptions
from tests.fakes.replay_server import Recorded, ReplayServer
from tests.fakes.streams import collect
from tools_app.types import ToolCall, ToolSpec

pytestmark = pytest.mark.one_database

ANSWER = Recorded(b'data: {"choices":[{"index":0,"delta":{"content":"Yes."},"finish_reason":"stop"}]}\n\n')
ASKS = ModelRequest(
    "big-1",
    (Message("user", "Is it?"),),
    (ToolSpec("echo", "", {}),),
    options=RunOptions(max_output_tokens=9),
    parallel_tool_calls=False,
)


def unsupported(name: str) -> Recorded:
    return Recorded.refusal(400, message=f"Unsupported parameter: '{name}'", param=name, code="unsupported_parameter")


async def test_a_server_that_refuses_several_parts_gets_none_of_them_again() -> None:
    names = ["parallel_tool_calls", "max_tokens", "stream_options"]
    with ReplayServer(*map(unsupported, names), ANSWER) as server:
        provider = OpenAIProvider(base_url=server.base_url)
        for _ in range(2):
            assert (await collect(provider, ASKS)).response.text == "Yes."
        await provider.aclose()
    sent = [[name for name in names if name in body] for body in server.bodies]
    assert sent == [names, names[1:], names[2:], [], []]
    assert server.bodies[-1]["max_completion_tokens"] == 9


async def test_reasoning_that_a_server_does_not_take_back_is_left_out() -> None:
    call = ToolCall("c1", "echo", "{}")
    with ReplayServer(Recorded.refusal(422, message="extra_forbidden: reasoning_content"), ANSWER) as server:
        provider = OpenAIProvider(base_url=server.base_url)
        state = {"dialect": "chat_completions", "server": f"the model server {server.address}", "model": "big-1"}
        state["text_field"] = "reasoning_content"
        own = Message("assistant", "", (call,), reasoning="Hm.", dialect_state=state)
        await collect(provider, ModelRequest("big-1", (own, Message("tool", "a", tool_call_id="c1"))))
        await provider.aclose()
    assert ["reasoning_content" in body["messages"][0] for body in server.bodies] == [True, False]


async def test_a_conversation_that_is_too_long_is_not_sent_again() -> None:
    refusal = Recorded.refusal(400, message="stream_options allowed, but prompt is too long: 9 tokens > 5 maximum")
    with ReplayServer(refusal) as server:
        provider = OpenAIProvider(base_url=server.base_url)
        with pytest.raises(ProviderError) as caught:
            await collect(provider, ASKS)
        await provider.aclose()
    assert (caught.value.code, caught.value.limit_tokens, caught.value.request_tokens) == (
        "model_context_overflow",
        5,
        9,
    )
    assert len(server.bodies) == 1


async def test_a_server_that_refuses_everything_is_asked_a_limited_number_of_times() -> None:
    with ReplayServer(unsupported("tools")) as server:
        provider = OpenAIProvider(base_url=server.base_url)
        with pytest.raises(ProviderError, match="tools"):
            await collect(provider, ASKS)
        await provider.aclose()
    assert len(server.bodies) == 2
