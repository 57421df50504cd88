"""Embeddings: what reaches the provider's server, what is counted, and what is refused."""

import base64
import json
import struct
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest
from channels.routing import URLRouter
from django.contrib.auth.models import User

from agents_app import direct_calls
from agents_app.costs.cost_settings import set_price, set_user_caps
from agents_app.models import Agent, DailyUsage, ModelProvider, Spending
from agents_app.providers import registry
from agents_app.types.prices import Price
from audit_app.kernel.database import in_db
from sessions_app.identity.api_keys import create_api_key
from sessions_app.surfaces.openai import consumers
from tests.fakes.model_server import ModelServer
from tests.support.conditions import eventually
from tests.support.rest import LiveCaller, make_agent
from tools_app.policy import emergency_stop

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

MODEL = "vectors"
Caller = LiveCaller


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture
async def provider(default_agent: Agent, server: ModelServer) -> AsyncIterator[ModelProvider]:
    fields = {"kind": "openai", "base_url": server.base_url, "embedding_model": MODEL}
    row = await in_db(partial(ModelProvider.objects.create, name="own", **fields))
    await in_db(Agent.objects.filter(pk=default_agent.pk).update, provider=row)
    yield row
    await registry.aclose_all()


async def embed(caller: Caller, given: Any, **fields: Any) -> tuple[int, Any]:
    status, text = await caller.ask("POST", "/v1/embeddings", {"model": "default", "input": given, **fields})
    return status, json.loads(text)


async def refused(caller: Caller, given: Any, **fields: Any) -> tuple[int, str]:
    status, body = await embed(caller, given, **fields)
    return status, body["error"]["code"]


async def test_texts_become_vectors_in_their_order(
    caller: Caller, provider: ModelProvider, server: ModelServer, alice: User
) -> None:
    await in_db(set_price, "own", MODEL, Price(1.0, 1.0))
    status, body = await embed(caller, ["a", "bcd"], dimensions=4)
    assert status == 200 and body["model"] == MODEL
    assert [item["embedding"] for item in body["data"]] == [[0.0, 1.0, 0.5, 0.5], [1.0, 3.0, 0.5, 0.5]]
    assert body["usage"] == {"prompt_tokens": 5, "total_tokens": 5}
    [call] = server.requests
    assert call.body == {"model": MODEL, "input": ["a", "bcd"], "dimensions": 4, "encoding_format": "float"}
    await embed(caller, "a text")
    row = await in_db(DailyUsage.objects.get)
    assert (row.agent_id, row.actor, row.provider, row.model) == ("default", f"user:{alice.pk}", "own", MODEL)
    assert (row.calls, row.input_tokens, row.cost_nanos) == (2, 10, 10_000_000)


async def test_base64_is_passed_on_and_made_where_a_server_returns_numbers(
    caller: Caller, provider: ModelProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = base64.b64encode(struct.pack("<3f", 0.0, 2.0, 0.5)).decode()
    _, body = await embed(caller, "ab", encoding_format="base64")
    assert [item["embedding"] for item in body["data"]] == [wanted]
    monkeypatch.setattr("tests.fakes.embeddings._vector", lambda body, index, length: [0.0, 2.0, 0.5])
    _, body = await embed(caller, "ab", encoding_format="base64")
    assert [item["embedding"] for item in body["data"]] == [wanted]
    monkeypatch.setattr("tests.fakes.embeddings._vector", lambda body, index, length: wanted)
    _, body = await embed(caller, "ab")
    assert [item["embedding"] for item in body["data"]] == [[0.0, 2.0, 0.5]]
    monkeypatch.setattr("tests.fakes.embeddings._vector", lambda body, index, length: "AAA")
    assert await refused(caller, "ab") == (502, "model_error")


@pytest.mark.parametrize("tokens", [[1, 2, 3], [[1, 2, 3], [4]]])
async def test_tokens_are_passed_on(caller: Caller, provider: ModelProvider, server: ModelServer, tokens: Any) -> None:
    status, _ = await embed(caller, tokens)
    several = tokens if isinstance(tokens[0], list) else [tokens]
    assert status == 200 and server.requests[-1].body["input"] == several


async def test_a_model_is_named_by_the_agent_or_by_itself(caller: Caller, provider: ModelProvider) -> None:
    assert (await embed(caller, "a", model=MODEL))[0] == 200
    assert (await in_db(DailyUsage.objects.get)).agent_id == "default"
    assert await refused(caller, "a", model="text-embedding-3-small") == (404, "model_not_found")
    await in_db(ModelProvider.objects.update, embedding_model="")
    assert await refused(caller, "a") == (400, "unsupported_model")


async def test_the_model_of_an_agent_that_is_not_shared_is_not_found(caller: Caller, provider: ModelProvider) -> None:
    await in_db(Agent.objects.update, is_shared_with_everyone=False)
    for name in ("default", MODEL):
        assert await refused(caller, "a", model=name) == (404, "model_not_found")


@pytest.mark.parametrize(
    ("given", "fields", "param"),
    [
        ("", {}, "input"),
        ([], {}, "input"),
        (["a", ""], {}, "input[1]"),
        ([1, "a"], {}, "input"),
        ([[]], {}, "input[0]"),
        ([-1], {}, "input[0]"),
        (None, {}, "input"),
        (["a"] * 2049, {}, "input"),
        ("a" * 200_001, {}, "input"),
        ("a", {"dimensions": 0}, "dimensions"),
        ("a", {"dimensions": True}, "dimensions"),
        ("a", {"encoding_format": "int8"}, "encoding_format"),
        ("a", {"model": ""}, "model"),
    ],
)
async def test_what_cannot_be_embedded_is_refused(caller: Caller, given: Any, fields: Any, param: str) -> None:
    status, body = await embed(caller, given, **fields)
    assert (status, body["error"]["param"]) == (400, param)


@pytest.mark.parametrize(
    ("line", "fields", "refusal"),
    [
        ("[[status=429 retry_after=3]]", {}, (502, "model_rate_limited")),
        ("[[status=500]]", {}, (502, "model_error")),
        ("[[html]]", {}, (400, "model_bad_request")),
        ("a", {"dimensions": 9}, (400, "model_bad_request")),
    ],
)
async def test_a_failure_of_the_server_is_an_error(
    caller: Caller, provider: ModelProvider, line: str, fields: Any, refusal: Any
) -> None:
    assert await refused(caller, line, **fields) == refusal
    assert not await in_db(DailyUsage.objects.exists)


async def test_a_stopped_agent_and_a_used_up_limit_refuse_calls(
    caller: Caller, provider: ModelProvider, server: ModelServer, alice: User
) -> None:
    await in_db(set_price, "own", MODEL, Price(1000.0, 1000.0))
    await in_db(set_user_caps, alice.pk, per_day=4.0, per_month=None)
    assert (await embed(caller, "a"))[0] == 200
    status, body = await embed(caller, "a")
    assert (status, body["error"]["code"]) == (402, "budget_exhausted") and "budget" in body["error"]["message"]
    await in_db(set_user_caps, alice.pk, per_day=0, per_month=None)
    await in_db(Agent.objects.update, budgets={"costPerHour": 4})
    assert (await embed(caller, "a"))[0] == 200 and await in_db(Spending.objects.exists)
    assert await refused(caller, "a") == (402, "budget_exhausted")
    await in_db(emergency_stop.stop)
    assert await refused(caller, "a") == (503, "stopped")
    assert len(server.requests) == 2


async def test_texts_count_where_a_server_counts_no_tokens(caller: Caller, provider: ModelProvider) -> None:
    await in_db(set_price, "own", MODEL, Price(1.0, 1.0))
    await in_db(Agent.objects.update, budgets={"costPerHour": 4})
    await embed(caller, "[[nousage]]" + "a" * 3989)
    assert (await in_db(Spending.objects.get)).cost == 1.0


async def test_a_call_that_its_client_leaves_is_recorded(
    caller: Caller, provider: ModelProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = direct_calls._opened

    async def leave(row: ModelProvider) -> Any:
        caller.leave()
        return await opened(row)

    monkeypatch.setattr(direct_calls, "_opened", leave)
    await caller.ask("POST", "/v1/embeddings", {"model": "default", "input": "a"})
    await eventually(DailyUsage.objects.exists)


async def test_a_provider_without_embeddings_says_so(caller: Caller, provider: ModelProvider) -> None:
    await in_db(ModelProvider.objects.update, kind="scripted")
    assert await refused(caller, "a") == (400, "model_bad_request")
    provider.is_enabled = False
    await in_db(provider.save)
    assert await refused(caller, "a") == (400, "model_bad_request")


async def test_the_demo_embeds_the_same_text_alike(default_agent: Agent, alice: User) -> None:
    def make() -> str:
        demo = ModelProvider.objects.create(name="d", kind="demo", embedding_model="demo")
        agent = make_agent("demonstrated")
        Agent.objects.filter(pk=agent.pk).update(provider=demo)
        return create_api_key(alice, "k", scopes=["openai"]).key

    caller = LiveCaller(URLRouter(consumers.routes), bearer=await in_db(make))
    _, body = await embed(caller, ["a red fox", "the red fox", "bonds"], model="demonstrated")
    first, second, third = (item["embedding"] for item in body["data"])
    alike, other = (sum(a * b for a, b in zip(first, each, strict=True)) for each in (second, third))
    assert len(first) == 256 and alike > 0.5 > abs(other) and body["usage"]["prompt_tokens"] == 7
    _, again = await embed(caller, "a red fox", model="demonstrated", dimensions=None)
    assert again["data"][0]["embedding"] == first
    _, short = await embed(caller, [7, 8], model="demonstrated", dimensions=2)
    assert len(short["data"][0]["embedding"]) == 2
