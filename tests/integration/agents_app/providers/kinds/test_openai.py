"""The OpenAI provider over HTTP, with a server that fails in every way."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

import pytest

from agents_app.providers import http_stream
from agents_app.providers.base import ProviderError
from agents_app.providers.kinds.openai import OpenAIProvider
from agents_app.providers.sdk_provider import IDLE_CONNECTIONS
from agents_app.types import Message, ModelRequest, RunOptions, Usage
from tests.fakes.model_server import ModelServer
from tests.fakes.streams import Streamed, collect, request_of
from tests.support.conditions import happens
from tools_app.types import ToolCall, ToolSpec

pytestmark = pytest.mark.one_database

KEY = "sk-test-0123456789abcdef"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture
async def provider(server: ModelServer) -> AsyncIterator[OpenAIProvider]:
    made = OpenAIProvider(base_url=server.base_url, api_key=KEY, default_model="fake")
    yield made
    await made.aclose()


async def failure(provider: OpenAIProvider, text: str, into: Streamed | None = None, **changes: float) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await collect(provider, request_of(text, **changes), into)
    return caught.value


async def failure_of_a_taken_call(
    provider: OpenAIProvider, server: ModelServer, text: str, **limits: float
) -> ProviderError:
    """Return the error of the first call that the server had received when its limit was reached.

    On a busy machine, connecting may take longer than the limit.
    """
    while True:
        error = await failure(provider, text, **limits)
        if server.count:
            return error


async def test_an_answer_streams_with_reasoning_and_usage(provider: OpenAIProvider, server: ModelServer) -> None:
    streamed = await collect(provider, request_of('[[tokens=50 reasoning="Let me see."]]'))
    assert streamed.texts == [f"tok{number} " for number in range(50)]
    assert streamed.reasonings == ["Let me see."]
    response = streamed.response
    assert (response.text, response.finish_reason) == ("".join(streamed.texts), "stop")
    assert response.usage.output_tokens == 50 and response.usage.input_tokens > 0


async def test_the_request_is_what_the_protocol_wants(provider: OpenAIProvider, server: ModelServer) -> None:
    await collect(
        provider, request_of("[[tokens=1]]", model="big-1", tools=(ToolSpec("echo", "d", {"type": "object"}),))
    )
    call = server.requests[-1]
    assert call.path == "/v1/chat/completions" and call.headers["authorization"] == f"Bearer {KEY}"
    assert (call.body["model"], call.body["stream"], call.body["tools"][0]["function"]["name"]) == (
        "big-1",
        True,
        "echo",
    )


async def test_a_whole_tool_round(provider: OpenAIProvider) -> None:
    tools = (ToolSpec("calculator", "", {}), ToolSpec("date_time", "", {}))
    request = request_of("what is 17*23 and what time is it in Tokyo?", tools=tools)
    first = (await collect(provider, request)).response
    assert [call.name for call in first.tool_calls] == ["calculator", "date_time"]
    results = [Message("tool", '{"result": "391"}', tool_call_id=first.tool_calls[0].id)]
    results += [Message("tool", "[Failed] no clock", tool_call_id=first.tool_calls[1].id)]
    history = (*request.messages, Message("assistant", first.text, first.tool_calls), *results)
    second = (await collect(provider, ModelRequest("", history, tools))).response
    assert "391" in second.text and "no clock" in second.text and not second.tool_calls


@pytest.mark.parametrize("style", ["", "split=3", "same_index", "no_ids same_index", "split=1 crlf comments", "json"])
async def test_parallel_tool_calls_in_every_style(provider: OpenAIProvider, style: str) -> None:
    wanted = '[["echo",{"text":"a"}],["calculator",{"expression":"17*23"}]]'
    calls = (await collect(provider, request_of(f"[[tools={wanted} {style}]]"))).response.tool_calls
    assert [(call.name, call.arguments) for call in calls] == [
        ("echo", '{"text": "a"}'),
        ("calculator", '{"expression": "17*23"}'),
    ]
    assert len({call.id for call in calls}) == 2


async def test_broken_arguments_come_as_they_are(provider: OpenAIProvider) -> None:
    (call,) = (await collect(provider, request_of("[[broken_args]]"))).response.tool_calls
    assert call == ToolCall("call_0", "calculator", '{"expression": "17*')


@pytest.mark.parametrize("style", ["crlf", "comments", "nodone", "nofinish", "json", "crlf comments nousage nodone"])
async def test_answers_of_odd_servers_are_taken(provider: OpenAIProvider, style: str) -> None:
    response = (await collect(provider, request_of(f'[[text="Hello there ä😀" {style}]]'))).response
    assert (response.text, response.finish_reason) == ("Hello there ä😀", "stop")


async def test_a_server_that_rejects_the_usage_option_never_receives_it_again(
    provider: OpenAIProvider, server: ModelServer
) -> None:
    for _ in range(2):
        streamed = await collect(provider, request_of("[[tokens=1 refuse_usage]]"))
        assert streamed.response.usage == Usage()
    assert ["stream_options" in call.body for call in server.requests] == [True, False, False]


async def test_a_server_without_response_format_gets_the_schema_as_text(
    provider: OpenAIProvider, server: ModelServer
) -> None:
    schema = {"type": "object", "required": ["n"]}
    request = replace(request_of("[[tokens=1 refuse_schema]]"), options=RunOptions(output_schema=schema))
    for _ in range(2):
        await collect(provider, request)
    assert ["response_format" in call.body for call in server.requests] == [True, False, False]
    assert "stream_options" in server.requests[-1].body
    system = server.messages[0]
    assert system["role"] == "system" and json.dumps(schema) in system["content"]
    await collect(provider, request_of("[[tokens=1]]"))
    assert json.dumps(schema) not in str(server.messages)


async def test_a_request_that_is_refused_for_other_reasons_is_not_repeated_for_ever(
    provider: OpenAIProvider, server: ModelServer
) -> None:
    await failure(provider, "[[status=400]]")
    assert server.count == 2
    await collect(provider, request_of("[[tokens=1]]"))
    await failure(provider, "[[status=400]]")
    assert server.count == 4


@pytest.mark.parametrize(
    ("directive", "code", "retryable"),
    [
        ("status=401 code=invalid_api_key", "model_auth", False),
        ("status=403", "model_auth", False),
        ("status=404 code=model_not_found", "model_bad_request", False),
        ("status=400", "model_bad_request", False),
        ("status=422", "model_bad_request", False),
        ("status=429", "model_rate_limited", True),
        ("status=429 code=insufficient_quota", "model_rate_limited", False),
        ("status=500", "model_error", True),
        ("status=503", "model_error", True),
        ("html", "model_bad_request", False),
        ("cut=0", "model_stream_cut", True),
        ("cut=5", "model_stream_cut", True),
        ("badjson=5", "model_stream_cut", True),
        ("nofinish nodone", "model_stream_cut", True),
        ("error=5", "model_error", True),
        ("error=5 code=rate_limit_exceeded", "model_rate_limited", True),
        ("huge=9000000", "model_error", False),
    ],
)
async def test_every_fault_is_a_clear_error_and_is_not_retried_here(
    provider: OpenAIProvider, server: ModelServer, directive: str, code: str, retryable: bool
) -> None:
    await collect(provider, request_of("[[tokens=1]]"))
    error = await failure(provider, f"[[{directive}]]")
    assert (error.code, error.retryable) == (code, retryable)
    assert server.count == 2 and len(error.message) > 20
    assert KEY not in error.message and "Traceback" not in error.message


async def test_a_wrong_key_is_refused_without_being_shown() -> None:
    with ModelServer(api_key="sk-the-right-one") as server:
        provider = OpenAIProvider(base_url=server.base_url, api_key=KEY, default_model="fake")
        error = await failure(provider, "hello")
        await provider.aclose()
    assert error.code == "model_auth" and KEY not in error.message and "refused the API key" in error.message


async def test_text_before_a_fault_has_been_passed_on(provider: OpenAIProvider) -> None:
    streamed = Streamed()
    await failure(provider, "[[tokens=20 cut=5]]", streamed)
    assert streamed.texts == [f"tok{number} " for number in range(5)] and not streamed.responses


async def test_a_call_that_is_cut_in_its_arguments_is_never_yielded(provider: OpenAIProvider) -> None:
    streamed = Streamed()
    await failure(provider, '[[tool=echo args={"text":"some long text"} split=2 cut=4]]', streamed)
    assert streamed == Streamed()


async def test_the_wait_that_a_server_asks_for_is_passed_on(provider: OpenAIProvider) -> None:
    error = await failure(provider, "[[status=429 retry_after=3]]")
    assert error.retry_after_seconds == 3 and "3 seconds" in error.message
    assert (await failure(provider, "[[status=503 retry_after=2]]")).retry_after_seconds == 2


@pytest.mark.parametrize("directive", ["hang=0", "hang=5", "wait=60"])
async def test_silence_ends_the_call_and_hangs_up(
    provider: OpenAIProvider, server: ModelServer, directive: str
) -> None:
    began = time.monotonic()
    error = await failure_of_a_taken_call(provider, server, f"[[{directive}]]", idle_seconds=0.2)
    assert error.code == "model_timeout" and "sent nothing" in error.message
    assert time.monotonic() - began < 30  # it would be silent for a minute
    await happens(lambda: server.disconnects == server.count)


class Waits:
    """The waits for the server under a call's limits. until: when each of them would have been over, by the loop's
    clock; is_open: one is under way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.until: list[float] = []
        self.is_open = False
        self._wait = http_stream.Clock.wait
        monkeypatch.setattr(http_stream.Clock, "wait", lambda clock: self._watched(clock))

    @asynccontextmanager
    async def _watched(self, clock: http_stream.Clock) -> AsyncIterator[None]:
        async with self._wait(clock) as limit:
            self.until.append(limit.when() or 0.0)
            self.is_open = True
            try:
                yield
            finally:
                self.is_open = False


async def test_a_slow_but_steady_answer_is_not_silence(
    provider: OpenAIProvider, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece restarts the limit."""
    waits, streamed = Waits(monkeypatch), Streamed()
    call = asyncio.create_task(collect(provider, request_of("[[tokens=4 hold=2]]"), streamed))
    await happens(lambda: len(streamed.texts) == 2)
    server.go_on()
    assert (await call).response.text == "tok0 tok1 tok2 tok3 "
    assert len(waits.until) > 2 and waits.until == sorted(set(waits.until))


async def test_the_total_limit_ends_an_answer_that_goes_on_and_on(
    provider: OpenAIProvider, server: ModelServer
) -> None:
    error = await failure_of_a_taken_call(provider, server, "[[tokens=100000 rate=50]]", total_seconds=0.3)
    assert error.code == "model_timeout" and "did not finish" in error.message
    await happens(lambda: server.disconnects == server.count)


async def test_a_reader_that_is_slow_itself_is_no_fault_of_the_server(
    provider: OpenAIProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limits are suspended between its reads."""
    waits = Waits(monkeypatch)
    async with aclosing(provider.stream(request_of("[[tokens=5 rate=50]]"))) as chunks:
        seen = [(chunk.text, waits.is_open) async for chunk in chunks]
    assert len(seen) == 6 and not any(is_open for _, is_open in seen) and len(waits.until) > 1


@pytest.mark.parametrize("directive", ["hang=3", "wait=60"])
async def test_cancelling_the_task_hangs_up(provider: OpenAIProvider, server: ModelServer, directive: str) -> None:
    task = asyncio.create_task(collect(provider, request_of(f"[[{directive}]]")))
    await happens(lambda: server.count == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await happens(lambda: server.disconnects == 1)


async def test_leaving_in_the_middle_hangs_up(provider: OpenAIProvider, server: ModelServer) -> None:
    async with aclosing(provider.stream(request_of("[[tokens=1000 rate=50]]"))) as chunks:
        await anext(chunks)
    await happens(lambda: server.disconnects == 1)


async def test_a_finished_call_leaves_its_connection_to_the_next(
    provider: OpenAIProvider, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_stream, "_END_SECONDS", 30)  # the moment that it waits may be too short for a busy machine
    for _ in range(3):
        await collect(provider, request_of("[[tokens=2]]"))
    assert server.connections == 1 and server.disconnects == 0


@pytest.mark.whole
async def test_two_hundred_streams_at_once(provider: OpenAIProvider, server: ModelServer) -> None:
    calls = [asyncio.create_task(collect(provider, request_of("[[tokens=3 hold=1]]"))) for _ in range(200)]
    await happens(lambda: server.count == 200)
    server.go_on(200)
    assert all(len(answer.texts) == 3 for answer in await asyncio.gather(*calls))
    assert server.connections == 200


async def test_a_burst_leaves_few_idle_connections(
    provider: OpenAIProvider, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call asks the kernel about every idle connection."""
    monkeypatch.setattr(http_stream, "_END_SECONDS", 30)
    burst, surplus = IDLE_CONNECTIONS + 10, 10
    for connections in (burst, burst + surplus):  # the second burst has to open what the first did not leave
        seen = server.count
        calls = [asyncio.create_task(collect(provider, request_of("[[tokens=2 hold=1]]"))) for _ in range(burst)]
        await happens(lambda: server.count == seen + burst)  # noqa: B023 - awaited in this pass
        server.go_on(burst)
        await asyncio.gather(*calls)
        assert server.connections == connections


def test_one_provider_serves_event_loops_one_after_the_other(server: ModelServer) -> None:
    provider = OpenAIProvider(base_url=server.base_url, api_key=KEY, default_model="fake")

    async def ask() -> str:
        streamed = await collect(provider, request_of("[[tokens=2]]"))
        await provider.aclose()
        return streamed.response.text

    assert [asyncio.run(ask()) for _ in range(2)] == ["tok0 tok1 ", "tok0 tok1 "]
