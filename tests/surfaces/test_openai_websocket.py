"""Responses over a WebSocket, and responses that are not stored, with the real `openai` client."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import openai
import pytest
from openai import OpenAI
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from tests.fakes.model_server import ModelServer
from tests.support.live_server import LiveKomand, wait_for

# The client opens its connections in a way that websockets 17.1 deprecates.
pytestmark = pytest.mark.filterwarnings(r"ignore:connect\(\) must be used:DeprecationWarning")

WEATHER: Any = [{"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}]


@pytest.fixture(scope="module")
def client(live_komand: LiveKomand) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{live_komand.url}/v1", api_key=live_komand.api_key, max_retries=0, timeout=60) as client:
        yield client


def _turn(connection: Any, **request: Any) -> list[Any]:
    """Send a request and return the events up to its end."""
    connection.response.create(**{"model": "default", **request})
    return _rest(connection)


def _rest(connection: Any) -> list[Any]:
    events: list[Any] = []
    for event in connection:
        events.append(event)
        if event.type in ("response.completed", "response.failed", "response.incomplete", "error"):
            break
    return events


def _last(connection: Any, **request: Any) -> Any:
    return _turn(connection, **request)[-1]


def test_a_connection_answers_one_response_after_the_other(client: OpenAI) -> None:
    with client.responses.connect() as connection:
        events = _turn(connection, input="what is 17*23?")
        streamed = list(client.responses.create(model="default", input="what is 17*23?", stream=True))
        kinds = [event.type for event in events if not event.type.endswith("delta")]
        assert kinds == [event.type for event in streamed if not event.type.endswith("delta")]
        first = events[-1].response
        text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        assert first.output_text == text and "391" in text
        connection.response.create(model="default", input="echo two", previous_response_id=first.id)
        connection.response.create(model="default", input="echo three")
        second, third = (_rest(connection)[-1].response for _ in range(2))
        assert second.previous_response_id == first.id and third.previous_response_id is None
    assert client.responses.retrieve(first.id).output_text == text
    with client.responses.connect() as connection:  # another connection continues what is stored
        assert _last(connection, input="echo four", previous_response_id=second.id).type == "response.completed"


def test_what_is_not_stored_goes_on_only_with_its_connection(client: OpenAI, model_server: ModelServer) -> None:
    with client.responses.connect() as connection:
        first = _last(connection, input="remember cobalt", store=False).response
        assert first.store is False
        for read in (client.responses.retrieve, client.responses.input_items.list, client.responses.delete):
            with pytest.raises(openai.NotFoundError):
                read(first.id)
        second = _last(connection, input="echo what was it?", store=False, previous_response_id=first.id).response
        sent = next(call.messages for call in model_server.requests if "what was it?" in str(call.messages))
        assert [message["content"] for message in sent[1:]][::2] == ["remember cobalt", "echo what was it?"]
        stored = _last(connection, input="echo keep it", previous_response_id=second.id).response
        assert client.responses.retrieve(stored.id).to_dict()["store"] is True
        gone = _last(connection, input="echo x", store=False, previous_response_id=first.id)
        assert (gone.type, gone.status, gone.error.code) == ("error", 400, "previous_response_not_found")
        assert gone.error.param == "previous_response_id"
    with client.responses.connect() as connection:
        gone = _last(connection, input="echo x", previous_response_id=second.id)
        assert gone.error.code == "previous_response_not_found"
        assert _last(connection, input="echo y", previous_response_id=stored.id).type == "response.completed"


def test_calls_of_a_clients_tools_are_answered_on_the_connection(client: OpenAI) -> None:
    with client.responses.connect() as connection:
        asked: Any = {"store": False, "tools": WEATHER}
        first = _last(connection, input="[[tool=get_weather args={}]]", **asked).response
        (call,) = first.output
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"}
        second = _last(connection, input=[output], previous_response_id=first.id, **asked).response
        assert "18 degrees" in second.output_text and second.store is False
        third = _last(connection, input="echo on", previous_response_id=second.id, **asked)
        assert third.type == "response.completed"


def test_a_warm_up_is_continued_by_its_id(client: OpenAI, model_server: ModelServer) -> None:
    with client.responses.connect() as connection:
        events = _turn(connection, input="the colour is red", generate=False)
        assert [event.type for event in events] == ["response.created", "response.in_progress", "response.completed"]
        warm = events[-1].response
        assert warm.output == [] and warm.store is False
        answer = _last(connection, input="echo which colour?", previous_response_id=warm.id).response
        assert answer.previous_response_id == warm.id
    sent = str(next(call.messages for call in model_server.requests if "which colour?" in str(call.messages)))
    assert "the colour is red" in sent


def test_a_client_that_leaves_stops_no_run(client: OpenAI, model_server: ModelServer) -> None:
    with client.responses.connect() as connection:
        connection.response.create(model="default", input="[[tokens=20 rate=100 hold=10]]")
        response_id = next(event.response.id for event in connection if event.type == "response.created")
    model_server.go_on()
    wait_for(lambda: client.responses.retrieve(response_id).status == "completed", what="the answer")


def test_a_runs_worker_that_dies_is_not_seen_on_the_connection(
    client: OpenAI, live_komand: LiveKomand, model_server: ModelServer
) -> None:
    model_server.script("tokens=60 rate=100 hang=20")  # the first attempt; the second goes by the message
    with client.responses.connect() as connection:
        connection.response.create(model="default", input="[[tokens=60]]", store=False)
        next(event for event in connection if event.type == "response.output_text.delta")
        live_komand.kill_runs()
        events = _rest(connection)
    assert events[-1].type == "response.completed" and len(events[-1].response.output_text.split()) == 60


def test_errors_of_requests_leave_the_connection_open(client: OpenAI) -> None:
    with client.responses.connect() as connection:
        unknown = _last(connection, model="nobody", input="hi")
        assert (unknown.status, unknown.error.code) == (404, "model_not_found")
        connection.send_raw("no JSON")
        assert next(iter(connection)).error.code == "malformed_json"
        connection.send_raw(json.dumps({"type": "response.cancel"}))
        assert next(iter(connection)).error.code == "unknown_event"
        connection.response.steer(input="faster", previous_response_id="resp_x")
        assert next(iter(connection)).error.code == "steering_not_supported"
        failed = _last(connection, input="[[status=400]]")
        assert failed.type == "response.failed"
        assert _last(connection, input="echo on").type == "response.completed"


def test_only_valid_credentials_open_a_connection(client: OpenAI, live_komand: LiveKomand) -> None:
    stranger = client.with_options(api_key="sk-user-wrong")
    with pytest.raises(InvalidStatus) as refused:
        stranger.responses.connect().enter()
    assert refused.value.response.status_code == 403
    reader = live_komand.manage("create_api_key", "--user", "admin", "--name", "r", "--scope", "read").stdout.strip()
    with client.with_options(api_key=reader).responses.connect() as connection:
        assert _last(connection, input="hi").error.code == "read_only_key"
    address = f"{live_komand.url.replace('http', 'ws')}/v1/responses?access_token={live_komand.api_key}"
    with pytest.raises((InvalidStatus, ConnectionClosed)), closing(connect(address)) as socket:
        socket.recv(timeout=60)


def test_a_response_that_is_not_stored_is_answered_and_then_unknown(client: OpenAI) -> None:
    include: Any = ["reasoning.encrypted_content"]
    response = client.responses.create(model="default", input="what is 17*23?", store=False, include=include)
    assert response.to_dict()["store"] is False and "391" in response.output_text
    streamed = list(client.responses.create(model="default", input="echo hi", store=False, stream=True))[-1].response
    for one in (response, streamed):
        with pytest.raises(openai.NotFoundError) as refused:
            client.responses.retrieve(one.id)
        assert refused.value.code == "response_not_found"
        with pytest.raises(openai.NotFoundError) as refused:
            client.responses.create(model="default", input="and now?", previous_response_id=one.id)
        assert (refused.value.code, refused.value.param) == ("previous_response_not_found", "previous_response_id")
        reference: Any = [{"type": "item_reference", "id": one.output[-1].id}, {"role": "user", "content": "x"}]
        with pytest.raises(openai.NotFoundError):
            client.responses.create(model="default", input=reference)
    again: Any = [
        {"role": "user", "content": "what is 17*23?"},
        *response.output,
        {"role": "user", "content": "echo x"},
    ]
    assert client.responses.create(model="default", input=again, store=False).status == "completed"
    key = {"Idempotency-Key": "unstored-1"}
    twice = [client.responses.create(model="default", input="x", store=False, extra_headers=key) for _ in range(2)]
    assert twice[0].id == twice[1].id
    for more in ({"background": True}, {"conversation": client.conversations.create().id}):
        with pytest.raises(openai.BadRequestError) as refused_body:
            client.responses.create(model="default", input="x", store=False, **more)  # type: ignore[arg-type]
        assert refused_body.value.param == "store"
