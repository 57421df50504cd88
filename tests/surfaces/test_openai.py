"""The real `openai` client against the whole of Komand: completions, streams, responses, errors."""

from collections.abc import Iterator

import openai
import pytest
from openai import OpenAI

from tests.fakes.model_server import ModelServer
from tests.live import LiveKomand, wait_for


@pytest.fixture(scope="module")
def api_key(live_komand: LiveKomand) -> str:
    made = live_komand.manage("create_api_key", "--user", "admin", "--name", "openai client")
    return made.stdout.strip()


@pytest.fixture(scope="module")
def client(live_komand: LiveKomand, api_key: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{live_komand.url}/v1", api_key=api_key, max_retries=0, timeout=60) as client:
        yield client


def _ask(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def test_agents_are_models(client: OpenAI) -> None:
    assert "default" in [model.id for model in client.models.list()]
    assert client.models.retrieve("default").owned_by == "komand"
    with pytest.raises(openai.NotFoundError) as refused:
        client.models.retrieve("nobody")
    assert refused.value.code == "model_not_found"


def test_a_completion_has_the_answer_after_its_tools_ran(client: OpenAI) -> None:
    completion = client.chat.completions.create(model="default", messages=_ask("what is 17*23?"))
    (choice,) = completion.choices
    assert choice.finish_reason == "stop" and "391" in (choice.message.content or "")
    assert completion.usage and completion.usage.total_tokens > 0


def test_a_stream_says_what_the_completion_says(client: OpenAI) -> None:
    stream = client.chat.completions.create(
        model="default", messages=_ask("[[tokens=20 rate=200]]"), stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert len(text.split()) >= 19
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage and chunks[-1].usage.completion_tokens > 0


def test_what_was_said_before_is_known_and_instructions_are_followed(client: OpenAI, model_server: ModelServer) -> None:
    history = [*_ask("My name is Ada."), {"role": "assistant", "content": "Hello Ada."}, *_ask("echo who am I?")]
    system = [{"role": "system", "content": "Answer in rhymes."}]
    client.chat.completions.create(model="default", messages=[*system, *history], temperature=0.5)  # type: ignore[list-item]
    sent = next(call.body for call in model_server.requests if call.body.get("temperature") == 0.5)
    assert "Answer in rhymes." in sent["messages"][0]["content"]
    assert [message["content"] for message in sent["messages"][1:]] == [message["content"] for message in history]


def test_a_session_can_be_gone_on_with(client: OpenAI) -> None:
    first = client.chat.completions.with_raw_response.create(model="default", messages=_ask("echo one"))
    session = first.headers["x-komand-session"]
    again = client.chat.completions.with_raw_response.create(
        model="default", messages=_ask("echo two"), metadata={"session_id": session}
    )
    assert again.headers["x-komand-session"] == session


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "messages"),
        ({"n": 2}, "n"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"temperature": 9}, "temperature"),
    ],
)
def test_what_cannot_be_done_is_said(client: OpenAI, change: dict[str, object], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.post("/chat/completions", body={"model": "default", "messages": _ask("hi"), **change}, cast_to=object)
    assert refused.value.param == param


def test_a_wrong_key_is_told_as_the_client_expects(live_komand: LiveKomand) -> None:
    with OpenAI(base_url=f"{live_komand.url}/v1", api_key="sk-user-wrong", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError) as refused:
            client.chat.completions.create(model="default", messages=_ask("hi"))
        assert refused.value.code == "invalid_api_key"


def test_a_failing_model_is_an_error_of_the_completion_and_of_the_stream(client: OpenAI) -> None:
    with pytest.raises(openai.APIStatusError) as refused:
        client.chat.completions.create(model="default", messages=_ask("[[status=400]]"))
    assert refused.value.status_code == 502 and "model" in refused.value.message
    with pytest.raises(openai.APIError):
        list(client.chat.completions.create(model="default", messages=_ask("[[status=400]]"), stream=True))


def test_a_response_shows_its_tool_calls_and_can_be_read_again(client: OpenAI) -> None:
    response = client.responses.create(model="default", input="what is 17*23?", metadata={"ticket": "7"})
    assert response.status == "completed" and "391" in response.output_text
    assert [item.type for item in response.output] == ["mcp_call", "message"]
    again = client.responses.retrieve(response.id)
    assert again.output_text == response.output_text and again.metadata == {"ticket": "7"}
    (asked,) = client.responses.input_items.list(response.id)
    assert asked.type == "message" and asked.content[0].text == "what is 17*23?"  # type: ignore[union-attr]


def test_a_response_goes_on_from_another_also_when_others_did(client: OpenAI) -> None:
    first = client.responses.create(model="default", input="echo one")
    second = client.responses.create(model="default", input="echo two", previous_response_id=first.id)
    branch = client.responses.create(model="default", input="echo three", previous_response_id=first.id)
    assert second.previous_response_id == branch.previous_response_id == first.id


def test_a_streamed_response_can_be_resumed_without_gap_or_double(client: OpenAI) -> None:
    stream = client.responses.create(model="default", input="[[tokens=40 rate=100]]", stream=True, background=True)
    seen, response_id = [], ""
    for event in stream:
        seen.append(event)
        if event.type == "response.created":
            response_id = event.response.id
        if sum(event.type == "response.output_text.delta" for event in seen) == 3:
            break
    stream.close()
    rest = list(client.responses.retrieve(response_id, stream=True, starting_after=seen[-1].sequence_number))
    text = "".join(event.delta for event in [*seen, *rest] if event.type == "response.output_text.delta")
    assert rest[-1].type == "response.completed" and text == rest[-1].response.output_text
    numbers = [event.sequence_number for event in [*seen, *rest]]
    assert numbers == sorted(set(numbers))


def test_a_background_response_can_be_cancelled(client: OpenAI) -> None:
    response = client.responses.create(model="default", input="[[tokens=400 rate=20]]", background=True)
    assert response.status == "queued"
    cancelled = client.responses.cancel(response.id)
    assert cancelled.id == response.id
    wait_for(lambda: client.responses.retrieve(response.id).status == "cancelled", what="the end")


def test_who_leaves_a_stream_stops_the_run(client: OpenAI) -> None:
    stream = client.responses.create(model="default", input="[[tokens=400 rate=20]]", stream=True)
    response_id = next(event.response.id for event in stream if event.type == "response.created")
    stream.close()
    wait_for(lambda: client.responses.retrieve(response_id).status == "cancelled", what="the end")
