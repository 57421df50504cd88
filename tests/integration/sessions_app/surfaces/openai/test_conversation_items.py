"""The items of a conversation whose responses a real run has made."""

import json

import pytest
from openai.types.conversations import ConversationItem
from pydantic import TypeAdapter

from agents_app import selectors as agents
from agents_app.providers.kinds.scripted import Reply
from agents_app.types import Message
from sessions_app import services
from sessions_app.models import Session
from sessions_app.surfaces.openai import conversation_items, conversations, responses
from sessions_app.surfaces.openai.conversation_items import list_items
from tests.support.engine import EngineRig
from tools_app.types import ToolCall

pytestmark = pytest.mark.django_db(transaction=True)


def test_items_have_the_official_types_and_the_ids_of_their_responses(rig: EngineRig) -> None:
    call = ToolCall("c1", "echo", json.dumps({"text": "x"}))
    rig.agent(Reply(("Let me see.",), reasoning="Hm.", tool_calls=(call,)), Reply(("It is done.",)))
    run_id = rig.send("Do it.").run_id
    rig.wait(run_id)
    session = Session.objects.select_related("agent", "owner").get()
    services.append_history(session, [Message("system", "Rhyme."), Message("assistant", "Once.")])
    page = list_items(session, limit=20, newest_first=False)
    kinds = [item["type"] for item in page.items]
    assert kinds == ["message", "reasoning", "message", "mcp_call", "message", "message", "message"]
    assert [item.get("role") for item in page.items][-2:] == ["system", "assistant"] and not page.has_more
    output = [item["id"] for item in responses.output_of(agents.get_transcript(run_id))]
    assert [item["id"] for item in page.items if item["type"] != "reasoning"][1:4] == output
    for item in page.items:
        TypeAdapter(ConversationItem).validate_python(item)
        assert conversation_items.find_item(session, item["id"]) == item
    for limit in (1, 2, 5):
        found, after, has_more = [], "", True
        while has_more:
            part = list_items(session, limit=limit, newest_first=True, after=after)
            found += part.items
            after, has_more = part.items[-1]["id"] if part.items else after, part.has_more
        assert found == list(page.items)[::-1]


def test_the_output_of_an_open_response_is_no_item_yet(rig: EngineRig) -> None:
    rig.agent(Reply(("Done.",)))
    accepted = rig.send("Do it.")
    session = conversations.access_conversation(rig.owner, conversations.id_of(accepted.session_id))
    assert [item["role"] for item in list_items(session, limit=20, newest_first=True).items] == ["user"]
    rig.wait(accepted.run_id)
    assert [item["role"] for item in list_items(session, limit=20, newest_first=True).items] == ["assistant", "user"]
