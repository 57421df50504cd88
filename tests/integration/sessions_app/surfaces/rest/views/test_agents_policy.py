"""The policy of agents over REST: rules, budgets, standing grants, session restrictions and the emergency stop."""

from uuid import uuid4

import pytest

from agents_app.models import Agent, Run
from audit_app.models import AuditEntry
from sessions_app.services import NewMessage, receive
from tests.support.rest import RestCaller, make_agent, make_session
from tests.support.rights import make_operator
from tools_app.models import ToolExecution
from tools_app.policy import grants

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey", "default_agent"), pytest.mark.one_database]
RULES = {
    "autonomy": "supervised",
    "allowedTools": ["echo", "http_request(url=https://example.com/*)"],
    "deniedTools": ["mcp__github__*"],
    "alwaysAsk": ["echo(text=*)"],
    "autoApprove": ["calculator"],
    "allowedHosts": ["example.com", "*.example.com:8443"],
    "deniedHosts": ["evil.example"],
    "egressServers": ["wiki"],
    "budgets": {"actionsPerHour": 5, "costPerHour": 2.5, "costPerDay": 9.5, "costPerMonth": 80},
}


@pytest.fixture
def staff():
    return RestCaller(make_operator("carol"))


def test_rules_are_stored_and_shown(staff):
    answer = staff.put("agents/default", RULES)
    assert answer.status == 200
    assert {name: answer.data[name] for name in RULES} == RULES
    assert staff.get("agents/default").data["grants"] == []
    cleared = staff.put(
        "agents/default", {"allowedTools": [], "deniedTools": None, "budgets": {"actionsPerHour": None}}
    )
    assert (cleared.data["allowedTools"], cleared.data["deniedTools"]) == ([], [])
    assert cleared.data["budgets"] == dict.fromkeys(("actionsPerHour", "costPerHour", "costPerDay", "costPerMonth"))
    assert cleared.data["autoApprove"] == ["calculator"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"deniedTools": ["web fetch"]}, "is not a pattern"),
        ({"deniedTools": "echo"}, "deniedTools:"),
        ({"alwaysAsk": ["echo("]}, "is not a pattern"),
        ({"autoApprove": [5, {}]}, "autoApprove"),
        ({"allowedTools": ["e" * 2000]}, "allowedTools"),
        ({"allowedTools": [f"tool{number}" for number in range(201)]}, "allowedTools"),
        ({"allowedHosts": ["https://example.com"]}, "is not a host"),
        ({"egressServers": ["https://wiki.example"]}, "is not the name of an MCP server"),
        ({"autonomy": "wild"}, "autonomy"),
        ({"budgets": {"actionsPerHour": -1}}, "actionsPerHour"),
        ({"budgets": {"costPerHour": "NaN"}}, "costPerHour"),
        ({"budgets": {"perDay": 1}}, "There is no budget"),
        ({"budgets": 5}, "budgets"),
    ],
)
def test_an_invalid_rule_is_400_with_the_reason(staff, change, complaint):
    answer = staff.put("agents/default", change)
    assert answer.status == 400
    assert complaint in answer.error
    assert Agent.objects.get().denied_tools == []


def test_only_operators_configure_calls_to_skip_approval(author, staff):
    bot = {"agentId": "bot", "name": "Bot"}
    assert author.post("agents", {**bot, "autoApprove": ["*"]}).status == 403
    author.post("agents", bot)
    assert author.put("agents/bot", {"autoApprove": ["echo"]}).status == 403
    assert staff.put("agents/bot", {"autoApprove": ["echo"]}).status == 200
    assert author.put("agents/bot", {"autoApprove": ["echo"], "deniedTools": ["echo"]}).status == 200
    assert author.put("agents/bot", {"autoApprove": []}).status == 200


def test_a_standing_grant_is_shown_and_revoked(author, staff):
    session = make_session(author.user)
    grants.make_grant(
        "launch(target=moon)",
        ToolExecution(agent_id="default", session_id=session.pk, session_key=session.key),
        approval_id=uuid4(),
        actor="user:1",
    )
    (grant,) = staff.get("agents/default").data["grants"]
    assert (grant["pattern"], grant["grantedBy"]) == ("launch(target=moon)", "user:1")
    path = f"agents/default/grants/{grant['grantId']}"
    assert author.delete(path).status == 403
    make_agent("other")
    assert staff.delete(path.replace("default", "other")).status == 404
    assert staff.delete(path).status == 200
    assert staff.delete(path).status == 404
    assert staff.get("agents/default").data["grants"] == []


def test_operators_stop_and_resume_everything(author, staff):
    assert author.post("control/stop").status == author.post("control/resume").status == 403
    assert author.get("control").data["stopped"] is False
    assert staff.post("control/stop", {"reason": "a leak"}).data["stopped"] is True
    seen = author.get("control").data
    assert (seen["stopped"], seen["reason"], seen["changedBy"]) == (True, "a leak", f"user:{staff.user.pk}")
    assert staff.post("control/stop", {"reason": "a leak"}).status == 200
    assert staff.post("control/resume").data["stopped"] is False
    entries = staff.get("audit?action=EmergencyStop").data
    assert [entry["actorId"] for entry in entries] == [f"user:{staff.user.pk}"] * 2
    assert entries[0]["details"]["reason"] == "a leak"


def test_one_agent_is_stopped_by_its_id(staff):
    data = staff.post("control/stop", {"agentId": "default"}).data
    assert (data["stopped"], [row["agentId"] for row in data["stoppedAgents"]]) == (False, ["default"])
    assert staff.post("control/stop", {"agentId": "nobody"}).status == 404
    assert staff.post("control/stop", {"reason": "x" * 301}).status == 400


def test_runs_are_not_retried_while_agents_are_stopped(author, staff):
    session = make_session(author.user, turns=1)
    run = Run.objects.create(
        conversation_id=session.pk,
        ordinal=0,
        agent=session.agent,
        status="failed",
        actor="user:1",
        created_at=session.created_at,
        ended_at=session.created_at,
    )
    staff.post("control/stop")
    answer = author.post(f"runs/{run.pk}/retry")
    assert (answer.status, answer.meta["code"]) == (503, "stopped")
    assert Run.objects.count() == 1


def test_restrictions_of_a_session_apply_to_later_runs(author):
    session = make_session(author.user)
    path = f"sessions/{session.pk}/policy"
    assert author.get(path).data == {"readonly": False, "deniedTools": []}
    limits = {"readonly": True, "deniedTools": ["web_fetch", "mcp__*"]}
    assert author.put(path, limits).data == limits == author.get(path).data
    assert AuditEntry.objects.get(action="SessionLimited").details == limits
    session.refresh_from_db()
    receive(
        NewMessage("WebChat", session.account_id, session.sender_id, "", "Hello"), owner=author.user, session=session
    )
    assert Run.objects.get().session_policy == limits
    assert author.put(path, {}).data == {"readonly": False, "deniedTools": []}


def test_an_invalid_restriction_is_refused(author):
    refused = author.put(f"sessions/{make_session(author.user).pk}/policy", {"deniedTools": ["echo("]})
    assert refused.status == 400 and "is not a pattern" in (refused.error or "")
