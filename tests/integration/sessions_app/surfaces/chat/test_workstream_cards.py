"""Workstreams on the chat page, live and after a reload, and for viewers of other protocols."""

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply, ScriptedProvider
from agents_app.types import RunOptions
from audit_app.kernel.database import in_db
from sessions_app.live_view.viewer import Viewer, cursor_now
from sessions_app.models import Session
from sessions_app.services import cancel_session_runs
from sessions_app.surfaces.agent_messages.wire_format import AgentMessageType
from tests.integration.sessions_app.surfaces.chat.chat_tab import Tab, cookie_of
from tests.support.agents import TURN_ENDS, AgentCaller
from tests.support.engine import EngineRig
from tests.support.team_script import TeamScript
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


def call(tool: str, **arguments: Any) -> ToolCall:
    return ToolCall(f"{tool}_1", tool, json.dumps(arguments))


def launch(workstream: str, **arguments: Any) -> ToolCall:
    return call("launch_workstream", id=workstream, instruction=f"Task {workstream}", **arguments)


def team(rig: EngineRig, main: list[Reply], **of_children: list[Reply]) -> None:
    rig.agent(Reply(), tool_profile="teams")
    ScriptedProvider.scripts["script"] = TeamScript(main, of_children)


def page(rig: EngineRig, session_id: Any) -> str:
    browser = Client()
    browser.force_login(rig.owner)
    return browser.get(f"/chat/{session_id}").content.decode()


class Watched:
    """A tab with all frames that it got."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self.frames: list[dict[str, Any]] = []

    async def until(self, look: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """Return the first frame, also of those that came already, that the function accepts."""
        async with asyncio.timeout(60):
            while not (found := next(filter(look, self.frames), None)):
                message = await self.tab.receive()
                assert message is not None, f"closed with {self.tab.close_code}"
                self.frames += message.get("acts", ())
            return found


async def test_a_workstream_is_shown_live_and_the_same_after_a_reload(rig: EngineRig) -> None:
    question = call("ask_user", question="Which <currency>?", options=["EUR", "USD"])
    await in_db(
        team,
        rig,
        [Reply(tool_calls=(launch("prices", name="Pricing"),)), Reply(("Waiting.",)), Reply(("All done.",))],
        Pricing=[Reply(("I have to ask.",), tool_calls=(question,)), Reply(("Prices **in** EUR.",))],
    )
    accepted = await in_db(rig.send, "go")
    session = await in_db(Session.objects.get, pk=accepted.session_id)
    async with Tab(session, await in_db(cookie_of, rig.owner)) as tab:
        seen = Watched(tab)
        asked = await seen.until(lambda frame: frame["do"] == "workstream" and "asks a question" in frame["say"])
        child = await in_db(Run.objects.get, parent_id=accepted.run_id)
        launched = next(frame for frame in seen.frames if frame["do"] == "workstream")
        card = next(frame for frame in seen.frames if frame["do"] == "call" and frame["run"] == launched["run"])
        assert (launched["run"], launched["id"]) == (str(accepted.run_id), str(child.pk))
        assert launched["call"] == card["call"]
        assert "is-quiet" in card["html"], "the card of the workstream stands for the call"
        assert "Pricing" in asked["head"] and not asked["body"]
        form = next(frame for frame in seen.frames if frame["do"] == "call" and frame["run"] == str(child.pk))
        assert "Asked by this workstream" in form["html"] and "Which &lt;currency&gt;?" in form["html"]
        reloaded = await in_db(page, rig, session.id)
        inside = reloaded[reloaded.index(f'id="workstream-{child.pk}"') :]
        assert "I have to ask." in inside and "Which &lt;currency&gt;?" in inside and "asks a question" in inside
        assert f'id="call-{card["call"]}"' not in reloaded
        await in_db(rig.send, "EUR", session=session)
        ended = await seen.until(lambda frame: frame["do"] == "workstream" and frame["body"])
        assert "Prices <strong>in</strong> EUR." in ended["body"] and "is-done" in ended["head"]
        answer = await seen.until(lambda frame: frame["do"] == "answer")
    reloaded = await in_db(page, rig, session.id)
    for html in (answer["html"], reloaded):
        assert html.index(f'id="workstream-{child.pk}"') < html.index("in</strong> EUR.") < html.index("All done.")
    assert answer["say"] == ""


async def test_a_page_that_comes_late_gets_the_text_of_a_workstream_and_other_viewers_never(rig: EngineRig) -> None:
    go_on = threading.Event()
    await in_db(
        team,
        rig,
        [Reply(tool_calls=(launch("a"),)), Reply(("Waiting.",)), Reply(("Done.",))],
        a=[Reply(("First. ",), tool_calls=(launch("b"),)), Reply(("Second ", "half."), held_by=go_on)],
        b=[Reply(("Inner.",), hangs=True)],
    )
    accepted = await in_db(rig.send, "go")
    session = await in_db(Session.objects.get, pk=accepted.session_id)
    cookie = await in_db(cookie_of, rig.owner)
    texts: list[str] = []
    async with Viewer(session.id) as other, Tab(session, cookie) as first:
        reading = asyncio.create_task(_collect(other, texts))
        seen = Watched(first)
        await _see_texts_of_children(seen, str(accepted.run_id))
        async with Tab(session, cookie, await in_db(cursor_now, session.id)) as late:
            await _see_texts_of_children(Watched(late), str(accepted.run_id))
        html = await in_db(page, rig, session.id)
        assert html.index("First.") < html.index("Task b")
        await in_db(cancel_session_runs, session, reason="Stopped.")
        await seen.until(lambda frame: frame["do"] == "answer")
        reading.cancel()
    assert "Waiting." in "".join(texts) and not any("Second" in text or "Inner" in text for text in texts)


async def _see_texts_of_children(seen: Watched, root: str) -> None:
    for text in ("Second ", "Inner."):
        frame = await seen.until(lambda frame, text=text: frame["do"] == "text" and text in str(frame))
        assert frame["run"] != root


async def _collect(viewer: Viewer, texts: list[str]) -> None:
    async for frame in viewer.frames():
        texts += [str(event.payload.get("text", "")) for event in frame if event.seq is None]


async def test_the_tasks_of_a_network_are_cards_before_its_answer(rig: EngineRig) -> None:
    go_on = threading.Event()
    replies = {"plan": [Reply(("A *plan*.",))], "write": [Reply(("All ", "of it."), held_by=go_on)]}
    await in_db(team, rig, [Reply()], **replies)
    definition = "name: net\ntasks:\n- name: plan\n- {name: write, depends_on: [plan], prompt: Write it.}\n"
    network = {"name": "net", "version": 1, "definition": definition, "context": {}}
    accepted = await in_db(rig.send, "Go", run=RunOptions(network=network))
    session = await in_db(Session.objects.get, pk=accepted.session_id)
    async with Tab(session, await in_db(cookie_of, rig.owner)) as tab:
        seen = Watched(tab)
        await seen.until(lambda frame: frame["do"] == "text" and "All " in frame["text"])
        html = await in_db(page, rig, session.id)
        assert "A <em>plan</em>." in html and html.index("is-done") < html.index("Write it.")
        go_on.set()
        answer = await seen.until(lambda frame: frame["do"] == "answer")
    assert answer["html"].count('class="workstream"') == 2
    assert answer["html"].index("</details>") < answer["html"].rindex("All of it.")


def _ends_turn(message: dict[str, Any]) -> bool:
    return message["t"] in TURN_ENDS and "w" not in message


async def test_the_stream_of_an_agent_run_has_the_stored_messages_of_its_workstreams(rig: EngineRig) -> None:
    go_on, caller = threading.Event(), await in_db(AgentCaller, rig.owner)
    main = [Reply(tool_calls=(launch("a"),), held_by=go_on, pieces=("Now.",)), Reply(("Waiting.",)), Reply(("Done.",))]
    await in_db(team, rig, main, a=[Reply(("Let me see.",), tool_calls=(call("echo", text="x"),)), Reply(("Alpha.",))])
    run = await in_db(caller.start, "go")
    async with caller.stream(f"agents/{run['id']}/stream") as stream:
        await stream.begun()
        go_on.set()
        messages = list(await stream.until_true(lambda seen: any(_ends_turn(one) for one in seen)))
    kept = [one for one in messages if one["t"] != AgentMessageType.STREAMING_CHUNK]
    assert kept == await in_db(caller.messages, run["id"])
    assert {"Let me see.", "Alpha."} <= {one["m"] for one in kept if one.get("w") == "a"}
    whole = [one["t"] for one in kept if one.get("w") == "a" and one["m"] == "Alpha."]
    assert whole == [AgentMessageType.UPDATE, AgentMessageType.ANSWER, AgentMessageType.COMPLETE]
    live = {one["i"] for one in messages if one["t"] == AgentMessageType.STREAMING_CHUNK and one.get("w") == "a"}
    assert live <= {one["d"]["activity_id"] for one in kept if one.get("w") == "a" and "activity_id" in one["d"]}
