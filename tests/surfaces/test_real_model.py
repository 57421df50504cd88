"""A real model behind a server of this machine, at KOMAND_TEST_MODEL_URL: see docs/models.md."""

import json
import os
from collections.abc import AsyncIterator

import pytest

from agents_app.providers import registry
from agents_app.providers.base import Provider, ProviderError
from agents_app.types import Message, ModelRequest
from tests.fakes.streams import collect, request_of
from tools_app.types import ToolSpec

pytestmark = [pytest.mark.real_model, pytest.mark.timeout(600)]

URL = os.environ.get("KOMAND_TEST_MODEL_URL", "")
KIND = os.environ.get("KOMAND_TEST_MODEL_KIND", "openai")
CONTEXT = int(os.environ.get("KOMAND_TEST_MODEL_CONTEXT", "4096"))
_TOWN = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = ToolSpec("weather", "Return the weather of a city.", _TOWN)


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    if not URL:
        pytest.skip("KOMAND_TEST_MODEL_URL is not set")
    made = registry.load(KIND)(base_url=URL, default_model=os.environ.get("KOMAND_TEST_MODEL", "default"))
    yield made
    await made.aclose()


async def test_it_answers(provider: Provider) -> None:
    streamed = await collect(provider, request_of("Say hello in one short sentence.", total_seconds=300.0))
    response = streamed.response
    assert response.text.strip() and "".join(streamed.texts) == response.text
    assert response.usage.input_tokens > 0 and response.usage.output_tokens > 0


async def test_it_calls_a_tool_and_reads_its_result_or_answers(provider: Provider) -> None:
    request = request_of("What is the weather in Bern? Use the tool.", tools=(WEATHER,), total_seconds=300.0)
    made = (await collect(provider, request)).response
    if not made.tool_calls:
        assert made.text.strip()  # small models fail to
        return
    assert {call.name for call in made.tool_calls} == {"weather"}
    assert all(isinstance(json.loads(call.arguments), dict) for call in made.tool_calls)
    own = Message("assistant", made.text, made.tool_calls, reasoning=made.reasoning, dialect_state=made.dialect_state)
    results = [Message("tool", "12 °C, rain", tool_call_id=call.id) for call in made.tool_calls]
    last = ModelRequest("", (*request.messages, own, *results), (WEATHER,), may_call_tools=False, total_seconds=300.0)
    assert (await collect(provider, last)).response.text.strip()


async def test_a_request_that_is_too_long_is_recognised_or_cut_by_the_server(provider: Provider) -> None:
    request = request_of("word " * CONTEXT * 2, total_seconds=300.0)
    try:
        taken = (await collect(provider, request)).response.usage.input_tokens
    except ProviderError as error:
        outcome = error.code
    else:
        outcome = "cut" if taken <= CONTEXT else f"took {taken} tokens"
    assert outcome in ("model_context_overflow", "cut")
