"""The real `openai` client against the whole of Komand: completions, streams, responses, errors."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import httpx2
import openai
import pytest
from openai import OpenAI

from sessions_app.surfaces.base.openapi.operations import STOP_ON_DISCONNECT
from tests.fakes.model_server import ModelServer
from tests.support.live_server import LiveKomand, wait_for
from tests.surfaces.threads.ksapi_client import Client, text_of


@pytest.fixture(scope="module")
def client(live_komand: LiveKomand) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{live_komand.url}/v1", api_key=live_komand.api_key, max_retries=0, timeout=60) as client:
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


def test_a_stream_has_the_text_of_a_completion(client: OpenAI) -> None:
    stream = client.chat.completions.create(
        model="default", messages=_ask("[[tokens=20 rate=200]]"), stream=True, stream_options={"include_usage": True}
    )  # type: ignore[call-overload]
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert len(text.split()) >= 19
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage and chunks[-1].usage.completion_tokens > 0


def test_history_and_instructions_reach_the_model(client: OpenAI, model_server: ModelServer) -> None:
    history = [*_ask("My name is Ada."), {"role": "assistant", "content": "Hello Ada."}, *_ask("echo who am I?")]
    system = [{"role": "system", "content": "Answer in rhymes."}]
    client.chat.completions.create(model="default", messages=[*system, *history], temperature=0.5)  # type: ignore[list-item]
    sent = next(call.body for call in model_server.requests if call.body.get("temperature") == 0.5)
    assert "Answer in rhymes." in sent["messages"][0]["content"]
    assert [message["content"] for message in sent["messages"][1:]] == [message["content"] for message in history]


def test_a_session_can_be_continued(client: OpenAI) -> None:
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
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"temperature": 9}, "temperature"),
    ],
)
def test_unsupported_parameters_are_refused(client: OpenAI, change: dict[str, object], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.post("/chat/completions", body={"model": "default", "messages": _ask("hi"), **change}, cast_to=object)
    assert refused.value.param == param


def test_a_wrong_key_is_an_authentication_error(live_komand: LiveKomand) -> None:
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


def test_a_response_can_be_continued_more_than_once(client: OpenAI) -> None:
    first = client.responses.create(model="default", input="echo one")
    second = client.responses.create(model="default", input="echo two", previous_response_id=first.id)
    branch = client.responses.create(model="default", input="echo three", previous_response_id=first.id)
    assert second.previous_response_id == branch.previous_response_id == first.id


def test_a_streamed_response_can_be_resumed_without_gap_or_duplicate(client: OpenAI, model_server: ModelServer) -> None:
    text = "[[tokens=40 rate=100 hold=20]]"
    stream = client.responses.create(model="default", input=text, stream=True, background=True)
    seen, response_id = [], ""
    for event in stream:
        seen.append(event)
        if event.type == "response.created":
            response_id = event.response.id
        if event.type == "response.output_text.delta":
            break
    stream.close()
    model_server.go_on()
    rest = list(client.responses.retrieve(response_id, stream=True, starting_after=seen[-1].sequence_number))
    text = "".join(event.delta for event in [*seen, *rest] if event.type == "response.output_text.delta")
    assert rest[-1].type == "response.completed" and text == rest[-1].response.output_text
    numbers = [event.sequence_number for event in [*seen, *rest]]
    assert numbers == sorted(set(numbers))


def test_a_background_response_can_be_cancelled(client: OpenAI) -> None:
    response = client.responses.create(model="default", input="[[tokens=400 rate=20]]", background=True)
    assert response.status == "queued"
    cancelled = client.responses.cancel(response.id)
    assert (cancelled.id, cancelled.status) == (response.id, "cancelled")
    assert client.responses.cancel(response.id).status == "cancelled", "cancelling again changes nothing"
    assert client.responses.retrieve(response.id).status == "cancelled"


def test_a_response_has_the_fields_of_the_reference_with_the_values_that_apply(client: OpenAI) -> None:
    labels = {"safety_identifier": "person-1", "prompt_cache_key": "cache-1", "user": "u-1"}
    response = client.responses.create(model="default", input="[[tokens=2]]", top_p=0.5, **labels)  # type: ignore[call-overload]
    whole = response.to_dict()
    assert {name: whole[name] for name in labels} == labels
    assert whole["completed_at"] >= whole["created_at"]
    assert (whole["temperature"], whole["top_p"], whole["top_logprobs"]) == (1.0, 1.0, 0), "top_p is not passed on"
    assert (whole["presence_penalty"], whole["frequency_penalty"], whole["service_tier"]) == (0.0, 0.0, "default")
    assert whole["max_tool_calls"] is None
    assert client.responses.retrieve(response.id).to_dict() == whole
    with pytest.raises(openai.BadRequestError, match="safety_identifier must be a string"):
        client.responses.create(model="default", input="hi", safety_identifier="x" * 600)


def test_items_of_earlier_responses_may_be_referred_to(client: OpenAI, model_server: ModelServer) -> None:
    """The AI SDK's provider sends references from its second request on."""
    first = client.responses.create(model="default", input='[[text="The first answer"]]')
    user = client.responses.input_items.list(first.id).data[0]
    references = [{"type": "item_reference", "id": item.id} for item in (user, *first.output)]
    client.responses.create(model="default", input=[*references, {"role": "user", "content": "and the second turn"}])  # type: ignore[list-item]
    sent = next(call.body["messages"] for call in model_server.requests if "and the second turn" in str(call.body))
    assert [(message["role"], message["content"]) for message in sent if message["role"] != "system"] == [
        ("user", '[[text="The first answer"]]'),
        ("assistant", "The first answer"),
        ("user", "and the second turn"),
    ]
    for unknown in ("msg_" + "0" * 32, "msg_" + "0" * 34, "msg_x", "", "mcp_" + "0" * 32):
        with pytest.raises((openai.NotFoundError, openai.BadRequestError)):
            client.responses.create(model="default", input=[{"type": "item_reference", "id": unknown}])  # type: ignore[list-item]


def test_an_unknown_address_is_refused_in_the_shape_of_this_protocol(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as refused:
        client.moderations.create(input="hi")
    assert refused.value.body["type"] == "invalid_request_error"  # type: ignore[index]


@pytest.mark.parametrize("wish", [{}, {STOP_ON_DISCONNECT.name: "true"}])
def test_a_client_that_leaves_a_stream_stops_run_and_model(
    client: OpenAI, model_server: ModelServer, wish: dict[str, str]
) -> None:
    before = model_server.disconnects
    stream = client.responses.create(model="default", input="[[tokens=400 rate=20]]", stream=True, extra_headers=wish)
    response_id = next(event.response.id for event in stream if event.type == "response.created")
    assert next(event for event in stream if event.type == "response.output_text.delta")
    stream.close()
    wait_for(lambda: client.responses.retrieve(response_id).status == "cancelled", what="the end")
    wait_for(lambda: model_server.disconnects == before + 1, what="the end of the model's answer")


def test_a_client_that_leaves_a_completion_stops_the_model(client: OpenAI, model_server: ModelServer) -> None:
    before, asked = model_server.disconnects, _ask("[[tokens=400 rate=20]]")
    stream = client.chat.completions.create(model="default", messages=asked, stream=True)  # type: ignore[call-overload]
    assert next(chunk for chunk in stream if chunk.choices[0].delta.content)
    stream.close()
    wait_for(lambda: model_server.disconnects == before + 1, what="the end of the model's answer")


def test_a_client_may_leave_and_have_the_answer_continue(client: OpenAI, model_server: ModelServer) -> None:
    before, wish = model_server.disconnects, {STOP_ON_DISCONNECT.name: "false"}
    stream = client.responses.create(model="default", input="[[tokens=40 rate=20]]", stream=True, extra_headers=wish)
    response_id = next(event.response.id for event in stream if event.type == "response.created")
    assert next(event for event in stream if event.type == "response.output_text.delta")
    stream.close()
    wait_for(lambda: client.responses.retrieve(response_id).status == "completed", what="the answer")
    assert len(client.responses.retrieve(response_id).output_text.split()) == 40
    assert model_server.disconnects == before


def _answer_of(chunks: list[Any]) -> str:
    """Return the text of a stream of chunks, which must end once."""
    ends = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    assert ends == ["stop"]
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def test_a_crash_within_an_answer_ends_with_the_stored_text_sent_once(
    client: OpenAI, live_komand: LiveKomand, model_server: ModelServer
) -> None:
    model_server.script("tokens=60 rate=100 hang=20")  # the first attempt; the second goes by the message
    chunks, text, killed = [], "", 0
    for chunk in client.chat.completions.create(model="default", messages=_ask("[[tokens=60]]"), stream=True):
        chunks.append(chunk)
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
        if "tok19" in text and not killed:
            killed = live_komand.kill_runs()
    stored = client.responses.retrieve(f"resp_{chunks[0].id.removeprefix('chatcmpl-')}")
    assert killed and _answer_of(chunks) == stored.output_text and len(stored.output_text.split()) == 60


def test_a_busy_conversation_queues_the_next_response(client: OpenAI, model_server: ModelServer) -> None:
    first = client.responses.create(model="default", input="[[tokens=20 hold=10]]", background=True)
    second = client.responses.create(
        model="default", input="echo second", previous_response_id=first.id, background=True
    )
    assert client.responses.retrieve(second.id).status == "queued"
    model_server.go_on()
    wait_for(lambda: client.responses.retrieve(second.id).status == "completed", what="the second answer")
    assert len(client.responses.retrieve(first.id).output_text.split()) == 20


@pytest.mark.parametrize(("decision", "is_allowed"), [("allow_once", True), ("deny", False)])
def test_a_call_that_waits_for_approval_is_in_progress_until_it_is_decided(
    client: OpenAI, live_komand: LiveKomand, decision: str, is_allowed: bool
) -> None:
    write = '[[tool=write_artifact args={"path":"files/o.txt","content":"hi"}]]'
    asked = client.responses.create(model="default", input=write, background=True)

    def pending() -> Any:
        found = live_komand.get("approvals?status=pending")
        return next((one for one in found if one["runId"] == str(UUID(asked.id.removeprefix("resp_")))), None)

    approval = wait_for(pending, what="the request")
    waiting = client.responses.retrieve(asked.id)
    assert waiting.status == "in_progress" and [item.status for item in waiting.output] == ["in_progress"]  # type: ignore[union-attr]
    decide = f"{live_komand.url}/api/approvals/{approval['approvalId']}/decide"
    headers = {"Authorization": f"Bearer {client.api_key}"}
    httpx2.post(decide, json={"decision": decision}, headers=headers).raise_for_status()
    wait_for(lambda: client.responses.retrieve(asked.id).status == "completed", what="the end")
    call = client.responses.retrieve(asked.id).output[0]
    assert call.type == "mcp_call" and (call.error is None) == is_allowed


def test_a_tool_that_fails_is_an_error_of_its_call(client: OpenAI) -> None:
    response = client.responses.create(model="default", input='[[tool=calculator args={"expression":"1/0"}]]')
    call = response.output[0]
    assert (
        call.type == "mcp_call" and call.error and (response.status, response.output_text != "") == ("completed", True)
    )


def test_a_source_is_an_annotation_of_the_text(client: OpenAI, model_server: ModelServer) -> None:
    fetch = f'[[tool=web_fetch args={{"url":"{model_server.base_url}/models"}}]]'
    found = client.responses.create(model="default", input=fetch)
    call = found.output[0]
    assert call.type == "mcp_call" and call.output
    (source,) = json.loads(call.output)["sources"]
    prompt = f'[[text="So it is [{source["cite"]}]."]]'
    cited = client.responses.create(model="default", input=prompt, previous_response_id=found.id)
    content = cited.output[0].content[0]  # type: ignore[union-attr]
    (annotation,) = content.annotations
    assert (annotation.type, annotation.url) == ("url_citation", source["uri"])
    assert content.text[annotation.start_index : annotation.end_index] == f"[{source['cite']}]"


def test_two_protocols_receive_the_same_text(client: OpenAI, live_komand: LiveKomand) -> None:
    threads = Client(live_komand.url, access_token=live_komand.api_key)
    thread = threads.open("Both")
    with ThreadPoolExecutor(1) as beside:
        streamed = beside.submit(threads.stream, thread)
        stream = client.chat.completions.create(
            model="default",
            messages=_ask("[[tokens=30 rate=100]]"),
            metadata={"session_id": str(thread.id)},
            stream=True,
        )
        answer = _answer_of(list(stream))
        assert answer.strip() == text_of(streamed.result(60)).strip() and len(answer.split()) == 30


@pytest.mark.parametrize("streams", [False, True])
def test_a_question_is_a_message_of_the_response_and_the_next_request_answers_it(client: OpenAI, streams: bool) -> None:
    text = '[[tool=ask_user args={"question":"Which colour?","options":["Red","Blue"]}]]'

    def respond(**request: Any) -> Any:
        if not streams:
            return client.responses.create(model="default", **request)
        events = list(client.responses.create(model="default", stream=True, **request))
        assert events[-1].type == "response.completed"
        streamed = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        assert streamed == events[-1].response.output_text
        numbers = [event.sequence_number for event in events]
        assert numbers == sorted(set(numbers))
        return events[-1].response

    first = respond(input=text)
    assert first.status == "completed" and first.output[-1].type == "message"
    assert first.output_text.startswith("Which colour?") and "2. Blue" in first.output_text
    assert client.responses.retrieve(first.id).output_text == first.output_text
    second = respond(input="2", previous_response_id=first.id)
    assert second.id != first.id and "Blue" in second.output_text and "Which colour?" not in second.output_text
    assert client.responses.retrieve(second.id).output_text == second.output_text
