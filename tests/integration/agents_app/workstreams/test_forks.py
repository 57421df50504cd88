"""Workstreams that begin with the conversation of their parent."""

import json
import re
from typing import Any

import pytest
from django.conf import settings

from agents_app.models import Run, RunMessage, Step
from agents_app.prompt.tool_output_markers import sign_of
from agents_app.providers.kinds.scripted import Reply, ScriptedProvider
from agents_app.runs import request_view
from agents_app.types import Message
from sessions_app import integrity_checks
from sessions_app.models import Turn
from tests.support.engine import EngineRig
from tests.support.team_script import TeamScript
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

TASK = "Of the task in the conversation above, do this part only:\n\nOnly the tides."


def call(tool: str, **arguments: Any) -> Reply:
    return Reply(tool_calls=(ToolCall(tool, tool, json.dumps(arguments)),))


def launch(name: str, task: str, **arguments: Any) -> Reply:
    return call("launch_workstream", id=name, instruction=task, **arguments)


def team(rig: EngineRig, main: list[Reply], **children: list[Reply]) -> TeamScript:
    rig.agent(Reply(("Noted.",)), tool_profile="teams")
    first = rig.wait(rig.send("The harbour is Cuxhaven.").run_id)
    assert first.answer == "Noted."
    script = ScriptedProvider.scripts["script"] = TeamScript([Reply(), *main], children)
    return script


def own_part(messages: tuple[Message, ...]) -> list[tuple[str, str]]:
    """Return role and text of the messages after the system message, without the signs of markers and receipts."""
    texts = ((each.role, re.sub(r"\[receipt [^\]]+\]", "", each.content).strip()) for each in messages)
    return [(role, text) for role, text in texts if role != "system"]


def test_a_fork_sees_the_conversation_up_to_its_launch_and_then_its_task(rig: EngineRig) -> None:
    main = [call("echo", text="low at six"), launch("a", "Only the tides.", fork=True), call("wait_workstreams")]
    script = team(rig, [*main, Reply(("Told.",))], a=[Reply(), Reply(), Reply(("High at noon.",))])
    accepted = rig.send("When is high tide?")
    ended = rig.wait(accepted.run_id)
    assert ended.answer == "Told." and "High at noon." in str(script.requests_of("main")[-1].messages)
    sign = sign_of(settings.SECRET_KEY, accepted.session_id)
    child = Run.objects.get(parent_id=accepted.run_id)
    [request] = script.requests_of("a")
    roles, texts = zip(*own_part(request.messages), strict=True)
    assert roles == ("user", "assistant", "user", "assistant", "tool", "user")
    assert (*texts[:3], texts[5]) == ("The harbour is Cuxhaven.", "Noted.", "When is high tide?", TASK)
    assert "low at six" in texts[4] and texts[4].count(f"[tool output {sign}]") == 1
    assert [call.name for call in request.messages[4].tool_calls] == ["echo"]
    # Nothing of it is stored again.
    assert [each.text for each in RunMessage.objects.filter(run=child)] == [TASK]
    assert not Turn.objects.filter(run=child).exists() and integrity_checks.find_violations() == []
    shown = request_view.view_request(child.pk)
    assert [part.text for part in shown.parts if part.kind == "history"][0] == "The harbour is Cuxhaven."


def test_a_fork_of_a_fork_sees_the_conversations_of_both(rig: EngineRig) -> None:
    main = [launch("a", "Only the tides.", fork=True), call("wait_workstreams"), Reply(("Told.",))]
    of_a = [Reply(), launch("b", "Only the moon.", fork=True), call("wait_workstreams"), Reply(("Both.",))]
    script = team(rig, main, a=of_a, b=[Reply(), Reply(("Full.",))])
    rig.wait(rig.send("When is high tide?").run_id)
    [request] = script.requests_of("b")
    text = "\n".join(content for _, content in own_part(request.messages))
    places = [text.index(part) for part in ("Cuxhaven", "When is high tide?", "Only the tides.", "Only the moon.")]
    assert places == sorted(places) and [text.count(part) for part in ("Cuxhaven", "Only the tides.")] == [1, 1]


def test_the_conversation_of_a_fork_is_not_its_own_to_compact(rig: EngineRig, monkeypatch: pytest.MonkeyPatch) -> None:
    main = [launch("a", "Only the tides.", fork=True), call("wait_workstreams"), Reply(("Told.",))]
    script = team(rig, main, a=[Reply(("Noon.",)), Reply(("Noon.",))])
    monkeypatch.setattr(settings, "KOMAND_COMPACT_AT_TURNS", 2)  # the run itself has two before it, its fork three
    rig.wait(rig.send("When?").run_id)
    assert len(script.requests_of("a")) == 1
    assert {step.kind for step in Step.objects.filter(run__parent__isnull=False)} == {Step.MODEL}
