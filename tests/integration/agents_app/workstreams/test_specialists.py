"""Workstreams of other agents: who may be launched, and with which model, prompt, tools and rights."""

import json
import threading
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from django.db.models.functions import Now

from agents_app import services as runs
from agents_app.costs import cost_settings
from agents_app.models import Agent, CostTotal, DailyUsage, Run, Spending
from agents_app.providers.kinds.scripted import Reply, Script, ScriptedProvider
from agents_app.runs import children
from agents_app.runs.children import NewChild
from agents_app.types import Usage
from agents_app.types.child_runs import ChildSpec
from agents_app.types.prices import NANOS, Price
from audit_app.models import AuditEntry
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


def test_what_a_specialist_costs_counts_in_the_caps_of_both_agents(rig: EngineRig) -> None:
    script = team(
        rig, calls(launch("expert")), calls(("wait_workstreams", {})), Reply(("Told.",)), budgets={"costPerDay": 2}
    )
    go_on, spends = threading.Event(), calls(("echo", {"text": "hi"}))
    spends = replace(spends, usage=Usage(2000, 0), pieces=("x",), held_by=go_on)
    specialist("expert", spends, Reply(("Never.",)))
    cost_settings.set_price("scripted", "expert", Price(1.0, 1.0))
    accepted = rig.send("go")
    until(lambda: Run.objects.filter(pk=accepted.run_id, waiting_on="children").exists())
    go_on.set()
    ended = rig.wait(accepted.run_id)
    child = Run.objects.get(parent_id=ended.run.id)
    assert (child.error_code, ended.run.error_code) == ("budget_exhausted", "budget_exhausted")
    assert "The daily budget of the agent default above this workstream is used up." in child.error_message
    assert "The daily budget of this agent is used up." in ended.run.error_message
    totals = dict(CostTotal.objects.values_list("scope", "cost_nanos"))
    assert totals["agent:expert"] == totals["agent:default"] == totals["installation"] == 2 * NANOS
    assert dict(DailyUsage.objects.filter(cost_nanos__gt=0).values_list("agent_id", "cost_nanos")) == {
        "expert": 2 * NANOS
    }
    alert = AuditEntry.objects.get(action="CostAlert")
    assert alert.details["scope"] == "agent:default" and len(script.requests_of("main")) == 2


def test_an_hourly_budget_counts_what_specialists_cost(rig: EngineRig) -> None:
    hourly = {"budgets": {"costPerHour": 2}}
    team(rig, calls(launch("expert")), calls(("wait_workstreams", {})), Reply(("Told.",)), **hourly)
    go_on = threading.Event()
    specialist("expert", Reply(("High.",), usage=Usage(2000, 0), held_by=go_on), **hourly)
    cost_settings.set_price("scripted", "expert", Price(1.0, 1.0))
    accepted = rig.send("go")
    until(lambda: Run.objects.filter(pk=accepted.run_id, waiting_on="children").exists())
    go_on.set()
    ended = rig.wait(accepted.run_id)
    assert "The hourly budget of the agent default is used up." in ended.run.error_message
    assert dict(Spending.objects.values_list("agent__agent_id", "cost")) == {"default": 2.0, "expert": 2.0}


def test_the_emergency_stop_of_an_agent_ends_what_its_specialists_do_after_its_answer(rig: EngineRig) -> None:
    team(rig, calls(launch("expert", background=True)), Reply(("Later.",)))
    expert = specialist("expert", Reply(("Half",), hangs=True))
    rig.wait(rig.send("go").run_id)
    until(lambda: expert.requests)
    runs.stop_agents("default")
    until(lambda: Run.objects.filter(parent__isnull=False, status="cancelled").exists())
    assert Run.objects.get(parent__isnull=False).error_code == "stopped"
    assert Run.objects.count() == 2  # it has started none to report that
    assert integrity_checks.find_violations() == []


@pytest.mark.parametrize("scope", ["default", ""])
def test_the_emergency_stop_ends_all_of_a_tree_as_stopped(rig: EngineRig, scope: str) -> None:
    own = [("launch_workstream", {"id": name, "instruction": name}) for name in ("held", "asks")]
    launches = calls(launch("expert"), *own)
    team(rig)
    hanging, below = Reply(("Half",), hangs=True), {"asks": [calls(("ask_user", {"question": "Which?"}))]}
    script = TeamScript([launches, calls(("wait_workstreams", {}))], {"held": [hanging], **below})
    ScriptedProvider.scripts["script"] = script
    expert = specialist("expert", hanging)
    rig.send("go")
    until(lambda: expert.requests and script.requests_of("held"))
    until(lambda: Run.objects.filter(waiting_on__in=("input", "children")).count() == 2)
    runs.stop_agents(scope)
    until(lambda: not Run.objects.filter(ended_at=None).exists())
    assert set(Run.objects.values_list("status", "error_code")) == {("cancelled", "stopped")}
    assert integrity_checks.find_violations() == []


def test_the_emergency_stop_leaves_specialists_of_others(idle: EngineRig) -> None:
    team(idle, Reply(("Hi.",)))
    specialist("expert", Reply(("Hi.",)))
    specialist("other", Reply(("Hi.",)))
    expert, started = Agent.objects.get(agent_id="expert"), {}
    for agent_id in ("default", "other"):
        root_id = idle.send(agent_id).run_id
        Run.objects.filter(pk=root_id).update(agent=Agent.objects.get(agent_id=agent_id))
        parked = children.start_child(NewChild(uuid4(), root_id, "parked", ChildSpec("parked"), agent=expert))
        Run.objects.filter(pk=parked.pk).update(status="waiting", waiting_on="approval", ready_at=None)
        queued = children.start_child(NewChild(uuid4(), parked.pk, "queued", ChildSpec("queued"), agent=expert))
        Run.objects.filter(pk=root_id).update(status="completed", ended_at=Now(), ready_at=None)
        Run.objects.filter(pk=parked.pk).update(is_on_its_own=True)
        started[agent_id] = [parked.pk, queued.pk]
    runs.stop_agents("default")
    open_ones = set(Run.objects.filter(ended_at=None).values_list("pk", flat=True))
    assert open_ones == set(started["other"])
    assert Run.objects.get(pk=started["default"][0]).error_message == "The agent default is stopped by an operator."
    runs.stop_agents("expert")
    assert not Run.objects.filter(pk=started["other"][0], ended_at=None).exists()
