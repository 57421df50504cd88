import asyncio
import threading

import pytest

from agents_app.providers.base import ProviderError
from agents_app.providers.kinds.scripted import Reply, ScriptedProvider
from tests.fakes.streams import Streamed, collect, request_of
from tests.support.conditions import happens


async def test_replies_come_in_order_and_the_last_one_repeats() -> None:
    script = ScriptedProvider.play("in-order", Reply(pieces=("a", "b")), Reply(pieces=("c",)))
    provider = ScriptedProvider(default_model="in-order")
    answers = [(await collect(provider, request_of(text))).response.text for text in "123"]
    assert answers == ["ab", "c", "c"]
    assert [request.messages[0].content for request in script.requests] == ["1", "2", "3"]


async def test_an_error_comes_after_the_pieces() -> None:
    ScriptedProvider.play("fails", Reply(pieces=("half",), error="model_rate_limited", retry_after_seconds=3))
    streamed = Streamed()
    with pytest.raises(ProviderError) as caught:
        await collect(ScriptedProvider(), request_of("x", model="fails"), streamed)
    assert streamed.texts == ["half"]
    assert (caught.value.retryable, caught.value.retry_after_seconds) == (True, 3)


async def test_the_last_piece_is_kept_back_until_it_may_go() -> None:
    may_go, streamed = threading.Event(), Streamed()
    ScriptedProvider.play("held", Reply(pieces=("One ", "two."), held_by=may_go))
    answering = asyncio.create_task(collect(ScriptedProvider(), request_of("x", model="held"), streamed))
    await happens(lambda: streamed.texts)
    assert streamed.texts == ["One "] and not answering.done()
    may_go.set()
    assert (await answering).texts == ["One ", "two."]


async def test_a_script_can_be_json() -> None:
    provider = ScriptedProvider(default_model='[{"tool_calls": [["echo", {"text": "x"}]]}, {"text": "done"}]')
    first, second = [(await collect(provider, request_of("x"))).response for _ in range(2)]
    assert (first.tool_calls[0].name, first.tool_calls[0].arguments) == ("echo", '{"text": "x"}')
    assert (first.finish_reason, second.text) == ("tool_calls", "done")


@pytest.mark.parametrize(
    "name", ["nobody-knows-me", "[3]", '[{"surprise": 1}]', '[{"pieces": 3}]', '[{"held_by": 3}]', ""]
)
async def test_an_unknown_script_is_a_clear_error(name: str) -> None:
    with pytest.raises(ProviderError, match="There is no script"):
        await collect(ScriptedProvider(default_model=name), request_of("x"))
