"""The real `openai` client about what a model would read: the tokens of an input, and its summary."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.support.live_server import LiveKomand

WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {"at": {}}}}


@pytest.fixture(scope="module")
def client(live_komand: LiveKomand) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{live_komand.url}/v1", api_key=live_komand.api_key, max_retries=0, timeout=60) as client:
        yield client


def test_the_tokens_of_an_input_are_counted_with_all_that_the_model_reads(client: OpenAI) -> None:
    count = client.responses.input_tokens.count
    plain = count(model="default", input="echo hi").input_tokens
    assert count(model="default", input="echo hi " * 100).input_tokens > plain + 100
    assert count(model="default", input="echo hi", instructions="Rhyme. " * 50).input_tokens > plain + 50
    assert count(model="default", input="echo hi", tools=[WEATHER]).input_tokens > plain  # type: ignore[list-item]
    first = client.responses.create(model="default", input="echo " + "many words " * 100)
    alone = count(previous_response_id=first.id).input_tokens
    continued = count(input="echo " + "hi " * 100, previous_response_id=first.id).input_tokens
    assert continued > alone + 20
    # Once a call of the conversation was counted by the model's server, the estimate is corrected by it.
    second = client.responses.create(model="default", input="echo " + "hi " * 100, previous_response_id=first.id)
    assert second.usage and second.usage.input_tokens == pytest.approx(continued, rel=0.2)


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"input": "hi"}, 400, "model"),
        ({"model": "default"}, 400, "input"),
        ({"model": "default", "input": []}, 400, "input"),
        ({"model": "nobody", "input": "hi"}, 404, None),
        ({"model": "default", "input": "hi", "previous_response_id": "resp_" + "0" * 32}, 404, None),
    ],
)
def test_unusable_inputs_are_not_counted(client: OpenAI, body: dict[str, Any], status: int, param: str | None) -> None:
    with pytest.raises(openai.APIStatusError) as refused:
        client.responses.input_tokens.count(**body)
    assert refused.value.status_code == status and refused.value.param == param
