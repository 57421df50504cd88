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


def test_a_compacted_conversation_goes_on_with_its_summary(client: OpenAI) -> None:
    first = client.responses.create(model="default", input="echo the key is under the mat")
    compacted = client.responses.compact(model="default", previous_response_id=first.id)
    user, summary = [item.model_dump(warnings=False) for item in compacted.output]
    assert user["content"][0]["text"] == "echo the key is under the mat"
    assert compacted.usage.output_tokens and "mat" not in summary["encrypted_content"]
    following: Any = [user, summary, {"role": "user", "content": "echo again"}]
    assert client.responses.create(model="default", input=following).output_text
    again = client.responses.compact(model="default", input=following)
    assert [item.type for item in again.output] == ["message", "message", "compaction"]
    with pytest.raises(openai.BadRequestError) as refused:
        foreign: Any = [{**summary, "encrypted_content": "x"}, following[-1]]
        client.responses.create(model="default", input=foreign)
    assert refused.value.code == "invalid_encrypted_content"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"model": "default"}, 400),
        ({"model": "default", "input": [{"role": "system", "content": "Be brief."}]}, 400),
        ({"model": "nobody", "input": "hi"}, 404),
        ({"model": "default", "previous_response_id": "resp_" + "0" * 32}, 404),
    ],
)
def test_what_is_no_conversation_is_not_compacted(client: OpenAI, body: dict[str, Any], status: int) -> None:
    with pytest.raises(openai.APIStatusError) as refused:
        client.responses.compact(**body)
    assert refused.value.status_code == status


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"input": "hi"}, 400, "model"),
        ({"model": "default"}, 400, "input"),
        ({"model": "default", "input": []}, 400, "input"),
        ({"model": "nobody", "input": "hi"}, 404, None),
        ({"model": "default", "input": "hi", "previous_response_id": "resp_" + "0" * 32}, 404, "previous_response_id"),
    ],
)
def test_unusable_inputs_are_not_counted(client: OpenAI, body: dict[str, Any], status: int, param: str | None) -> None:
    with pytest.raises(openai.APIStatusError) as refused:
        client.responses.input_tokens.count(**body)
    assert refused.value.status_code == status and refused.value.param == param
