"""Conversations of the Responses API, with the real `openai` client against a whole installation."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.fakes.model_server import ModelServer
from tests.support.live_server import LiveKomand

WEATHER: Any = [{"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}]


@pytest.fixture(scope="module")
def client(live_komand: LiveKomand) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{live_komand.url}/v1", api_key=live_komand.api_key, max_retries=0, timeout=60) as client:
        yield client


def _said(text: str, role: str = "user") -> Any:
    return {"type": "message", "role": role, "content": text}


def _ids(client: OpenAI, conversation: str, **query: Any) -> list[str]:
    return [item.id for item in client.conversations.items.list(conversation, order="asc", **query)]  # type: ignore[misc]


def test_a_conversation_is_created_changed_and_deleted(client: OpenAI) -> None:
    made = client.conversations.create(metadata={"topic": "demo"}, items=[_said("echo hello")])
    assert made.object == "conversation" and made.id.startswith("conv_") and made.metadata == {"topic": "demo"}
    assert client.conversations.retrieve(made.id) == made
    changed = client.conversations.update(made.id, metadata={"topic": "other"})
    assert client.conversations.retrieve(made.id) == changed and changed.metadata == {"topic": "other"}
    gone = client.conversations.delete(made.id)
    assert (gone.id, gone.deleted, gone.object) == (made.id, True, "conversation.deleted")
    for request in (client.conversations.retrieve, client.conversations.items.list, client.conversations.delete):
        with pytest.raises(openai.NotFoundError) as refused:
            request(made.id)
        assert refused.value.code == "conversation_not_found"


def test_responses_read_and_extend_a_conversation(client: OpenAI, model_server: ModelServer) -> None:
    first = [_said("Rhyme.", "system"), _said("I am Ada of 17."), _said("Hello Ada.", "assistant")]
    made = client.conversations.create(items=first)
    response = client.responses.create(model="default", conversation=made.id, input="what is 17*23?")
    assert response.conversation and response.conversation.id == made.id and "391" in response.output_text
    sent = next(call.messages for call in model_server.requests if "I am Ada of 17." in str(call.messages))
    assert "Rhyme." in sent[0]["content"]
    assert [message["content"] for message in sent[1:4]] == ["I am Ada of 17.", "Hello Ada.", "what is 17*23?"]
    earlier = [_said("One more thing."), _said("Yes?", "assistant")]
    again = client.responses.create(
        model="default", conversation={"id": made.id}, input=[*earlier, _said("echo and now?")]
    )
    assert again.status == "completed"
    items = list(client.conversations.items.list(made.id, order="asc"))
    texts = [(item.role, item.content[0].text) for item in items if item.type == "message"]
    assert [text for _, text in texts[:5]] == [
        "Rhyme.",
        "I am Ada of 17.",
        "Hello Ada.",
        "what is 17*23?",
        response.output_text,
    ]
    assert [role for role, _ in texts] == ["system", "user", "assistant", *["user", "assistant"] * 3]
    assert {item.id for item in (*response.output, *again.output)} <= {item.id for item in items}
    assert client.responses.retrieve(again.id) == again
    count = client.responses.input_tokens.count
    assert count(conversation=made.id, input="hi " * 200).input_tokens > count(conversation=made.id).input_tokens + 20
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.delete(again.id)
    assert refused.value.code == "response_in_conversation"


def test_items_are_listed_in_pages_added_and_read_one_by_one(client: OpenAI) -> None:
    made = client.conversations.create()
    assert _ids(client, made.id) == []
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "found"}
    added: Any = [*(_said(f"message {number}") for number in range(7)), call, output]
    created = client.conversations.items.create(made.id, items=added)
    client.responses.create(model="default", conversation=made.id, input="echo last")
    ids = _ids(client, made.id)
    assert [item.id for item in created.data] == ids[:9] and len(ids) == 11
    assert [item.type for item in created.data[7:]] == ["function_call", "function_call_output"]
    page = client.conversations.items.list(made.id, limit=4)
    assert [item.id for item in page.data] == ids[:-5:-1] and page.has_more
    assert [item.id for item in client.conversations.items.list(made.id, limit=4)] == ids[::-1]
    assert _ids(client, made.id, after=ids[5], limit=2) == ids[6:]
    for item_id in ids:
        found = client.conversations.items.retrieve(item_id, conversation_id=made.id)
        assert found.id == item_id
    other = client.conversations.create()
    for unknown in (ids[0], ids[-1], "msg_x", "fc_" + "0" * 32):
        with pytest.raises(openai.NotFoundError):
            client.conversations.items.retrieve(unknown, conversation_id=other.id)
    with pytest.raises(openai.BadRequestError, match="20 items"):
        client.conversations.items.create(made.id, items=[_said("x")] * 21)


def test_a_removed_message_is_not_sent_to_the_model(client: OpenAI, model_server: ModelServer) -> None:
    made = client.conversations.create(items=[_said("the secret is tin"), _said("the colour is red")])
    response = client.responses.create(model="default", conversation=made.id, input="what is 17*23?")
    secret = _ids(client, made.id)[0]
    answer = next(item for item in response.output if item.type == "message")
    for item_id in (secret, answer.id):
        assert client.conversations.items.delete(item_id, conversation_id=made.id).id == made.id
    call = next(item for item in response.output if item.type == "mcp_call")
    with pytest.raises(openai.BadRequestError) as refused:
        client.conversations.items.delete(call.id, conversation_id=made.id)
    assert refused.value.code == "not_removable"
    client.responses.create(model="default", conversation=made.id, input="echo without it")
    sent = str(next(call.messages for call in model_server.requests if "echo without it" in str(call.messages)))
    assert "the colour is red" in sent and "the secret is tin" not in sent and answer.content[0].text not in sent
    assert not {secret, answer.id} & {*_ids(client, made.id)}


def test_calls_of_a_clients_tools_are_answered_within_the_conversation(client: OpenAI) -> None:
    made = client.conversations.create()
    asked: Any = {"model": "default", "conversation": made.id, "tools": WEATHER}
    first = client.responses.create(input="[[tool=get_weather args={}]]", **asked)
    (call,) = first.output
    output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees"}
    second = client.responses.create(input=[output], **asked)
    assert "18 degrees" in second.output_text
    items = list(client.conversations.items.list(made.id, order="asc"))
    assert [item.type for item in items] == ["message", "function_call", "function_call_output", "message"]
    assert items[1].id == call.id and items[2].output == "18 degrees"
    elsewhere = client.conversations.create()
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="default", conversation=elsewhere.id, input=[output])
    assert refused.value.code == "unknown_tool_call"


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"previous_response_id": "resp_" + "0" * 32}, "conversation"),
        ({"metadata": {"session_id": "x"}}, "conversation"),
        ({"conversation": 7}, "conversation"),
    ],
)
def test_a_response_has_one_place_to_continue(client: OpenAI, change: dict[str, Any], param: str) -> None:
    made = client.conversations.create()
    with pytest.raises(openai.BadRequestError) as refused:
        client.post(
            "/responses", body={"model": "default", "input": "x", "conversation": made.id} | change, cast_to=object
        )
    assert refused.value.param == param
