"""Workstreams of other agents: who may be launched, and with which model, prompt, tools and rights."""

import json
from typing import Any

import pytest

from agents_app.models import Agent, Run
from agents_app.providers.kinds.scripted import Reply, Script, ScriptedProvider
from sessions_app import integrity_checks
from tests.support.engine import EngineRig, until
from tests.support.team_script import TeamScript
from tools_app.models import Approval, ToolExecution
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

STORE = ToolCall("store", "memory_store", json.dumps({"key": "a", "text": "b"}))


def calls(*named: tuple[str, dict[str, Any]]) -> Reply:
    return Reply(tool_calls=tuple(ToolCall(f"c{n}", tool, json.dumps(given)) for n, (tool, given) in enumerate(named)))


def launch(agent: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return "launch_workstream", {"id": agent, "instruction": f"task of {agent}", "agent": agent, **arguments}


def team(rig: EngineRig, *main: Reply, **fields: Any) -> TeamScript:
    """Let the default agent, whose list names `expert`, `hidden` and one that does not exist, reply with `main`."""
    named = {"workstream_agents": ["hidden", "expert", "gone"], **fields}
    rig.agent(Reply(), **{"tool_profile": "teams", **named})
    script = ScriptedProvider.scripts["script"] = TeamScript(main, {})
    return script


def specialist(agent_id: str, *replies: Reply, **fields: Any) -> Script:
    """Create an agent with a model of its own, shared with everyone unless the fields differ."""
    provider = Agent.objects.get(agent_id="default").provider
    given = {"name": agent_id, "provider": provider, "model_id": agent_id, "is_shared_with_everyone": True, **fields}
    Agent.objects.create(agent_id=agent_id, **given)
    return ScriptedProvider.play(agent_id, *replies)


def errors_of(run: Run) -> str:
    return "\n".join(ToolExecution.objects.filter(run_id=run.pk).values_list("error", flat=True))


def test_a_workstream_of_another_agent_has_its_model_its_prompt_and_the_tools_of_both(rig: EngineRig) -> None:
    both = ["echo", "calculator", "launch_workstream", "wait_workstreams", "agents_list"]
    script = team(rig, calls(launch("expert")), calls(("wait_workstreams", {})), Reply(("Told.",)), enabled_tools=both)
    own = {"system_prompt": "You know tides.", "enabled_tools": ["echo", "web_fetch"], "description": "Tides."}
    expert = specialist("expert", Reply(("High at noon.",)), **own)
    ended = rig.wait(rig.send("go").run_id)
    assert ended.answer == "Told." and "High at noon." in str(script.requests_of("main")[-1].messages)
    [request] = expert.requests
    assert [tool.name for tool in request.tools] == ["echo"] and "You know tides." in request.messages[0].content
    child = Run.objects.get(parent_id=ended.run.id)
    assert (child.agent.agent_id, child.actor) == ("expert", ended.run.actor)
    assert integrity_checks.find_violations() == []


def test_only_listed_agents_that_the_person_may_use_are_launched(rig: EngineRig) -> None:
    named = ("hidden", "gone", "other")
    script = team(rig, calls(("agents_list", {}), *map(launch, named)), Reply(("None of them.",)))
    specialist("expert", Reply(("Hi.",)), description="Knows tides.")
    specialist("other", Reply(("Hi.",)))
    specialist("hidden", Reply(("Hi.",)), is_shared_with_everyone=False)
    ended = rig.wait(rig.send("go").run_id)
    assert not Run.objects.filter(parent_id=ended.run.id).exists()
    refused = [f"You may not launch the agent '{name}'. Agents that you may launch: expert." for name in named]
    found = str(script.requests_of("main")[-1].messages)
    assert all(text in found for text in refused) and "Knows tides." in found


@pytest.mark.parametrize("listed", [[], ["expert"]])
def test_only_an_agent_with_a_list_has_the_tool_that_shows_it(rig: EngineRig, listed: list[str]) -> None:
    script = team(rig, Reply(("Hello.",)), workstream_agents=listed)
    rig.wait(rig.send("go").run_id)
    names = [tool.name for tool in script.requests[0].tools]
    assert "launch_workstream" in names and ("agents_list" in names) is bool(listed)


def test_another_agent_may_not_do_without_asking_what_its_parent_may_not(rig: EngineRig) -> None:
    team(rig, calls(launch("expert", deadline_seconds=30)), calls(("wait_workstreams", {})), Reply(("Done.",)))
    specialist("expert", Reply(tool_calls=(STORE,)), Reply(("Stored.",)), autonomy="full")
    rig.send("go")
    until(Approval.objects.exists)
    assert Approval.objects.get().execution.agent_id == "expert"
