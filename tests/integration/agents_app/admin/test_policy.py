"""Rules, permissions, the emergency stop and the dry run in the admin."""

from uuid import uuid4

import pytest

from agents_app.models import Agent
from audit_app.models import AuditEntry
from tests.integration.agents_app.admin.test_agents import agent_form
from tools_app.models import Approval, ToolExecution
from tools_app.policy import emergency_stop, grants

AGENTS = "/admin/agents_app/agent/"
CONTROL = "/admin/tools_app/control/"
pytestmark = [pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


def test_rules_are_typed_one_a_line(pages, agent):
    rules = {"denied_tools": "echo\n\n web_fetch(url=https://evil.example/*) \necho", "denied_hosts": "Evil.example"}
    answer = pages.post(f"{AGENTS}{agent.pk}/change/", agent_form(agent, **rules, actions_per_hour=7))
    assert answer.status_code == 302
    agent.refresh_from_db()
    assert agent.denied_tools == ["echo", "web_fetch(url=https://evil.example/*)"]
    assert (agent.denied_hosts, agent.budgets) == (["evil.example"], {"actionsPerHour": 7})
    page = pages.get(f"{AGENTS}{agent.pk}/change/").content.decode()
    assert "web_fetch(url=https://evil.example/*)" in page
    entry = AuditEntry.objects.get(action="AgentUpdated")
    assert "Denied calls" in entry.details["fields"] or "denied_tools" in entry.details["fields"]


def test_a_rule_that_cannot_be_used_is_not_saved(pages, agent):
    answer = pages.post(f"{AGENTS}{agent.pk}/change/", agent_form(agent, always_ask="web fetch"))
    assert "is not a pattern" in answer.content.decode()
    assert Agent.objects.get().always_ask == []


@pytest.mark.parametrize(
    ("fields", "call", "seen"),
    [
        ({}, ("echo", '{"text": "x"}'), ["allow", "autonomy: supervised", "low"]),
        ({"denied_tools": ["echo(text=x*)"]}, ("echo", '{"text": "x"}'), ["deny", "deniedTools: echo(text=x*)"]),
        ({"always_ask": ["echo"]}, ("echo", '{"text": "x"}'), ["ask", "alwaysAsk: echo", "no: it always asks"]),
        ({"always_ask": ["ask_user"]}, ("ask_user", '{"question": "Why?"}'), ["The call is itself a question"]),
        ({}, ("echo", '{"text": 5}'), ["unfit", "must be string"]),
        ({}, ("echo", '{"text": '), ["unfit", "not valid JSON"]),
        ({"budgets": {"actionsPerHour": 0}}, ("echo", '{"text": "x"}'), ["deny", "budgets"]),
        ({"denied_tools": ["<b>(("]}, ("echo", '{"text": "x"}'), ["deny", "unreadable rule"]),
    ],
)
def test_the_dry_run_shows_the_verdict_and_runs_nothing(pages, agent, fields, call, seen):
    Agent.objects.update(**fields)
    posted = {"tool": call[0], "arguments": call[1], "actor": "user:1"}
    page = pages.post(f"{AGENTS}{agent.pk}/rehearsal/", posted).content.decode()
    for text in seen:
        assert text in page
    assert "<b>" not in page
    assert not ToolExecution.objects.exists()
    assert not Approval.objects.exists()


def test_the_page_is_reached_from_the_agent_by_those_who_may_change_it(pages, staff, agent):
    assert f"{AGENTS}{agent.pk}/rehearsal/" in pages.get(f"{AGENTS}{agent.pk}/change/").content.decode()
    assert "Test permissions of" in pages.get(f"{AGENTS}{agent.pk}/rehearsal/").content.decode()
    assert staff("agents_app.view_agent").get(f"{AGENTS}{agent.pk}/rehearsal/").status_code == 403


def test_everything_is_stopped_after_a_question(pages, agent, operator):
    assert "Stop all agents?" in pages.get(f"{CONTROL}stop-all/").content.decode()
    assert emergency_stop.why_stopped("default") == ""
    pages.post(f"{CONTROL}stop-all/", {"reason": "a leak", "_form_submitted": "1"})
    assert "a leak" in emergency_stop.why_stopped("default")
    assert "a leak" in pages.get(CONTROL).content.decode()
    assert "All agents stopped" in pages.get("/admin/").content.decode()
    pages.post(f"{CONTROL}resume-all/", {"reason": "", "_form_submitted": "1"})
    assert emergency_stop.why_stopped("default") == ""
    assert AuditEntry.objects.get(action="EmergencyStop").actor == f"user:{operator.pk}"


def test_one_agent_is_stopped_from_its_page(pages, staff, agent):
    pages.post(f"{AGENTS}{agent.pk}/stop/", {"reason": "", "_form_submitted": "1"})
    assert [view.scope for view in emergency_stop.list_stopped()] == ["default"]
    page = pages.get(f"{AGENTS}{agent.pk}/change/").content.decode()
    assert f"{AGENTS}{agent.pk}/resume/" in page
    assert staff("agents_app.view_agent").post(f"{AGENTS}{agent.pk}/resume/", {"reason": ""}).status_code == 403
    pages.post(f"{AGENTS}{agent.pk}/resume/", {"reason": "", "_form_submitted": "1"})
    assert emergency_stop.list_stopped() == ()


def test_a_permission_is_listed_and_revoked(pages, agent):
    grants.make_grant(
        "launch(<i>)",
        ToolExecution(agent_id="default", session_id=uuid4(), session_key="WebChat:default:1"),
        approval_id=uuid4(),
        actor="user:1",
    )
    (grant,) = grants.list_grants("default")
    page = pages.get("/admin/tools_app/grant/").content.decode()
    assert "launch(&lt;i&gt;)" in page
    assert "<i>" not in page
    pages.post(f"/admin/tools_app/grant/{grant.id}/revoke/", {"_form_submitted": "1"})
    assert grants.list_grants("default") == ()
    assert "revoked" in pages.get(f"/admin/tools_app/grant/{grant.id}/change/").content.decode()
