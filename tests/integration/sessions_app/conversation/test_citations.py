"""Citations from a tool's sources to each surface: the engine, the stored turns, the page and the APIs."""

import json
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone

from agents_app.providers.kinds.scripted import Reply
from audit_app.kernel import context
from audit_app.models import Event
from sessions_app import selectors
from sessions_app.identity.principal import Principal
from sessions_app.models import Attachment, ChannelAccount, Turn
from sessions_app.surfaces.mcp.offers import caller_sessions, runs
from sessions_app.surfaces.openai.endpoint import load
from sessions_app.surfaces.openai.responses import of_transcript
from sessions_app.surfaces.signalr import commands
from sessions_app.surfaces.signalr.commands import HubSubscription
from tests.support.engine import EngineRig, until
from tests.support.rest import RestCaller
from tools_app.executions import result_sources
from tools_app.registry import tools
from tools_app.storage import memories
from tools_app.types import Effect, Risk, Tool, ToolCall, ToolContext, ToolSpec

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

TEXT = "Alice drives a <b>red</b> car."
ID = result_sources.stamped({"sources": [{"uri": "memory:car", "quote": TEXT}]})["sources"][0]["cite"]
RECALL = ToolCall("call_1", "memory_recall", json.dumps({"query": "car"}))


def cite(rig: EngineRig, *after: Reply) -> Turn:
    """An answer that cites what the run recalled."""
    script = rig.agent(Reply(("Let me see.",), tool_calls=(RECALL,)), Reply((f"It is red [{ID}].",)), *after)
    holder = memories.Holder("default", context.actor.get())
    memories.store(holder, memories.Written("car", TEXT, uuid4()))
    rig.wait(rig.send("which car?").run_id)
    asked = script.requests[1].messages
    assert "square brackets" in asked[0].content and f'"cite": "{ID}"' in asked[-1].content
    return Turn.objects.get(is_answer=True)


def test_an_answers_markers_become_its_citations_and_a_fact(rig: EngineRig) -> None:
    turn = cite(rig)
    (citation,) = selectors.citations_of(turn)
    assert (str(citation.id), citation.number, citation.uri, citation.quote) == (ID, 1, "memory:car", TEXT)
    assert turn.content[citation.offset : citation.end] == f"[{ID}]"
    told = list(Event.objects.order_by("seq"))
    assert [event.type for event in told][-3:] == ["citations.added", "message.completed", "run.completed"]
    assert told[-3].payload == {"turn_id": str(turn.pk), "citations": turn.citations} and told[-3].step == 1


class Page(Tool):
    """A tool whose result cannot be stored unchanged."""

    spec = ToolSpec("page", "Reads.", {"type": "object"}, effect=Effect.READ, risk=Risk.LOW)

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        return {"sources": [{"uri": "https://example.org/", "title": "a\0b", "quote": "c\0d"}]}


def test_a_source_with_a_character_that_no_database_takes_is_cited(rig: EngineRig) -> None:
    cite_id = result_sources.stamped({"sources": [{"uri": "https://example.org/", "quote": "c\0d"}]})["sources"][0][
        "cite"
    ]
    rig.agent(Reply(tool_calls=(ToolCall("c", "page", "{}"),)), Reply((f"It is so [{cite_id}].",)))
    with tools.override(Page()):
        rig.wait(rig.send().run_id)
    (citation,) = selectors.citations_of(until(lambda: Turn.objects.filter(is_answer=True).first()))
    assert (citation.title, citation.quote) == ("ab", "cd")


def test_every_surface_shows_them(rig: EngineRig) -> None:
    turn = cite(rig)
    session, run_id = turn.session, turn.run_id
    answer = RestCaller(rig.owner).get(f"sessions/{session.key}/history").data[-1]
    assert answer["citations"] == [
        {
            "id": ID,
            "number": 1,
            "uri": "memory:car",
            "title": "car",
            "quote": TEXT,
            "offset": 10,
            "length": 38,
            "sourceOffset": None,
        }
    ]
    context, stored = load(run_id)
    (*_, shown) = of_transcript(context, *stored)["output"]
    assert shown["content"][0]["annotations"] == [
        {"type": "url_citation", "start_index": 10, "end_index": 48, "url": "memory:car", "title": "car"}
    ]
    message = commands.read_message(HubSubscription(session.pk, session.key, "default", "", run_id), run_id)
    (cited,) = message["citations"]
    assert message["text"][cited["offset"] :][: cited["length"]] == f"[{ID}]"
    page = Client()
    page.force_login(rig.owner)
    html = page.get(f"/chat/{session.pk}").content.decode()
    assert 'It is red <span class="cited">[1]</span>.' in html
    assert "Alice drives a &lt;b&gt;red&lt;/b&gt; car." in html.split('class="sources"')[1]


def test_programs_over_mcp_read_what_people_read(rig: EngineRig) -> None:
    turn = cite(rig)
    principal = Principal(rig.owner, "api_key", frozenset({"chat"}))
    assert turn.run_id
    run = runs.outcome_of(principal, turn.run_id, turn.session.key)
    assert run["text"] == "It is red [1].\n\n[1] car: memory:car"
    history = caller_sessions.history_of(principal, turn.session.key, 50)
    texts = [told["text"] for told in history["turns"]]
    assert (texts[0], texts[1], texts[-1]) == ("which car?", "Let me see.", run["text"])


def test_a_later_run_may_cite_what_an_earlier_one_found_and_nobody_elses(rig: EngineRig) -> None:
    foreign = "11111111-1111-4111-8111-111111111111"
    cite(rig, Reply((f"Red, as I said [{ID}, {foreign}]",)))
    rig.wait(rig.send("sure?").run_id)
    turn = Turn.objects.filter(is_answer=True).latest("ordinal")
    assert [str(citation.id) for citation in selectors.citations_of(turn)] == [ID]


def test_an_attached_file_can_be_cited(rig: EngineRig) -> None:
    rig.agent(Reply(("Hello.",)))
    rig.wait(rig.send("look").run_id)
    asked, account = Turn.objects.get(role="user"), ChannelAccount.objects.create(channel="fake", account_id="a")
    file = Attachment.objects.create(
        turn=asked,
        account=account,
        kind="file",
        filename="cars.txt",
        status="stored",
        text="Red cars.",
        until=timezone.now(),
        created_at=timezone.now(),
    )
    rig.agent(Reply((f"Cars [{file.pk}]",)))
    rig.wait(rig.send("what does it say?").run_id)
    (citation,) = selectors.citations_of(Turn.objects.filter(is_answer=True).latest("ordinal"))
    assert (citation.uri, citation.title, citation.quote) == (f"attachment:{file.pk}", "cars.txt", "Red cars.")
