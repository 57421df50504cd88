"""MCP servers from an operator's and an agent's view: added, offered, called, and withdrawn when they change."""

import asyncio
import json
import sys
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command

from agents_app.providers.kinds.scripted import Reply
from agents_app.types import RunStatus
from audit_app import stream
from audit_app.event_types import NewEvent
from audit_app.kernel.errors import Conflict, InvalidInput, NotFound
from audit_app.models import AuditEntry
from tests.support.engine import EngineRig, until
from tests.support.mcp import BAD, LoopThread
from tools_app import catalogue, services
from tools_app.events import TOOL_PROGRESS
from tools_app.mcp_client import discovery, mcp_tools, servers
from tools_app.mcp_client.config import Greeting
from tools_app.mcp_client.listed_tool import read_tool
from tools_app.mcp_client.mcp_tools import _ProgressReporter
from tools_app.models import Approval, McpServer, McpTool
from tools_app.policy.rules import AgentPolicy, SessionPolicy
from tools_app.secrets import credentials
from tools_app.types import ExecutionStatus, ToolCall, ToolContext

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


def add(how: str = "fine", **settings: Any) -> McpServer:
    """Add a test server by its behaviour, and list its tools once."""
    defaults = {"name": "srv", "command": sys.executable, "arguments": ["-S", BAD, how], "connect_seconds": 30}
    server = servers.add_server(**{**defaults, **settings})
    discovery.refresh(server)
    return server


def offered(policy: AgentPolicy | None = None) -> list[str]:
    """Return the MCP tools offered to an agent's model."""
    specs = services.specs_for(policy or AgentPolicy(agent_id="default"))
    return [spec.name for spec in specs if spec.server]


def mcp(*words: str) -> str:
    out = StringIO()
    call_command("mcp", *words, stdout=out)
    return out.getvalue()


def let_agent_act(idle: EngineRig) -> Any:
    """Return the transcript of a run whose model calls the server's tool once."""
    idle.agent(Reply(tool_calls=(ToolCall("c1", "mcp__srv__act", "{}"),)), Reply(("Done.",)))
    idle.start()
    return idle.wait(idle.send("act").run_id, 30)


def test_an_operator_sets_a_server_up_from_the_command_line():
    output = mcp("add", "srv", "--risk", "low", "--command", sys.executable, "-S", BAD, "fine")
    assert "srv was added." in output and "New: act" in output
    assert "srv  stdio  works  1 tools" in mcp("list")
    assert "act  offered  risk low  effect once" in mcp("show", "srv")
    assert "Connected to fine 1, protocol 2025-06-18." in mcp("test", "srv")
    mcp("disable", "srv")
    assert offered() == []
    mcp("enable", "srv")
    assert offered() == ["mcp__srv__act"]
    mcp("remove", "srv")
    assert not McpServer.objects.exists()
    with pytest.raises(CommandError, match="no MCP server"):
        mcp("test", "srv")


def test_a_server_that_does_not_work_is_kept_with_the_reason():
    with pytest.raises(CommandError, match="its process ended"):
        mcp("add", "srv", "--command", sys.executable, "-S", BAD, "dies")
    server = McpServer.objects.get()
    assert server.state == "failing"
    assert "no licence found" in server.last_error


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"name": "Bad Name"}, "name"),
        ({"name": "two__parts"}, "name"),
        ({"command": " "}, "command"),
        ({"arguments": "-y"}, "arguments"),
        ({"arguments": ["--key", "{{credential:KEY}}"]}, "environment"),
        ({"environment": {"A": 1}}, "environment"),
        ({"environment": {"A": "1\n2"}}, "environment"),
        ({"transport": "streamable_http", "url": "ftp://host/"}, "url"),
        ({"transport": "sse", "url": "http://user@host/"}, "url"),
        ({"transport": "sse", "url": "https://аpple.com/mcp"}, "ASCII"),
        ({"transport": "sse", "url": "http://[::1/mcp"}, "url"),
        ({"transport": "sse", "url": "http://host:99999/mcp"}, "url"),
        ({"transport": "sse", "url": "http://host/{{credential:KEY}}"}, "headers"),
        ({"transport": "sse", "url": "http://host/", "headers": {"A\r\nB": "1"}}, "headers"),
        ({"transport": "websocket"}, "transport"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, problem):
    with pytest.raises(InvalidInput, match=problem):
        servers.add_server(**{"name": "srv", "command": "program", **settings})
    assert not McpServer.objects.exists()


def test_a_name_is_taken_once():
    servers.add_server(name="srv", command="program")
    with pytest.raises(Conflict):
        servers.add_server(name="srv", command="other")


def test_a_tool_that_changes_is_taken_away_until_it_is_approved_anew():
    server = add()
    assert offered() == ["mcp__srv__act"]
    servers.change_server(server, environment={"TOOL_VERSION": "2"})
    _, listed = discovery.refresh(server)
    assert listed.changed == ("act",)
    assert McpTool.objects.get().status == "changed"
    assert offered() == [] and catalogue.find_tool("mcp__srv__act", "default") is None
    assert servers.approve_tools(server) == ("act",)
    assert offered() == ["mcp__srv__act"]
    with pytest.raises(NotFound):
        servers.approve_tools(server, ["other"])
    actions = AuditEntry.objects.filter(action__startswith="Mcp").order_by("at").values_list("action", flat=True)
    assert list(actions) == [
        "McpServerCreated",
        "McpToolsListed",
        "McpServerUpdated",
        "McpToolsListed",
        "McpToolsApproved",
    ]


def test_tools_that_come_later_wait_and_those_that_go_are_not_offered():
    server = add()
    servers.change_server(server, arguments=["-S", BAD, "odd-tools"])
    discovery.refresh(server)
    assert {tool.name: tool.status for tool in server.tools.all()} == {"a.b": "new", "a_b": "new", "act": "offered"}
    servers.approve_tools(server, ["a.b"])
    assert [name[:14] for name in offered()] == ["mcp__srv__act", "mcp__srv__a_b_"]
    servers.change_server(server, arguments=["-S", BAD, "fine"])
    discovery.refresh(server)
    assert offered() == ["mcp__srv__act"]
    assert server.tools.get(name="a.b").status == "gone"


def test_a_server_that_lists_other_tools_each_time_is_not_remembered_for_ever():
    server = add()
    for number in range(5):
        tool = read_tool({"name": f"new{number}", "inputSchema": {"type": "object"}})
        servers.store_listing(server.id, [tool], Greeting("", "", ""))
        McpTool.objects.filter(name="new1").update(risk="high")
    assert {row.name: row.status for row in server.tools.all()} == {"act": "gone", "new1": "gone", "new4": "new"}


def test_what_comes_after_an_empty_first_listing_waits_for_an_operator():
    server = servers.add_server(name="srv", command="program")
    tool = read_tool({"name": "act", "inputSchema": {"type": "object"}})
    servers.store_listing(server.id, [], Greeting("", "", ""))
    servers.store_listing(server.id, [tool], Greeting("", "", ""))
    assert server.tools.get().status == "new" and offered() == []


def test_an_agent_has_the_tools_of_the_servers_that_its_policy_names():
    add()
    assert offered(AgentPolicy(mcp_servers=())) == []
    assert offered(AgentPolicy(mcp_servers=("other",))) == []
    assert offered(AgentPolicy(mcp_servers=("srv",))) == ["mcp__srv__act"]
    assert offered(AgentPolicy(tools=("echo",))) == []
    for named, names in (((), []), (("other",), []), (("srv",), ["mcp__srv__act"])):
        message = SessionPolicy(mcp_servers=named)
        assert [spec.name for spec in services.specs_for(AgentPolicy(), message) if spec.server] == names


def test_an_operator_rates_each_tool(idle):
    server = add(default_risk="medium")
    tool = catalogue.find_tool("mcp__srv__act", "default")
    assert (tool.spec.risk, tool.spec.effect) == ("medium", "once")
    McpTool.objects.update(risk="low", effect="read")
    servers.touch_tools(server)
    tool = catalogue.find_tool("mcp__srv__act", "default")
    assert (tool.spec.risk, tool.spec.effect) == ("low", "read")


def test_an_agent_calls_a_servers_tool(idle):
    add(default_risk="low")
    transcript = let_agent_act(idle)
    assert transcript.run.status is RunStatus.COMPLETED
    assert (transcript.executions[0].status, transcript.executions[0].output) == ("Completed", '"acted"')
    assert McpServer.objects.get().state == "ok"


def test_a_high_risk_call_waits_for_a_person(idle):
    add()
    idle.agent(Reply(tool_calls=(ToolCall("c1", "mcp__srv__act", "{}"),)), Reply(("Done.",)))
    idle.start()
    idle.send("act")
    until(lambda: Approval.objects.filter(status="pending").exists())


def test_a_tool_that_changed_since_it_was_listed_is_not_called(idle):
    server = add(default_risk="low")
    McpServer.objects.filter(pk=server.pk).update(environment={"TOOL_VERSION": "2"})
    transcript = let_agent_act(idle)
    assert "has changed since an operator approved it" in transcript.executions[0].error
    assert McpTool.objects.get().status == "changed"


def test_an_unreachable_server_is_reported_to_the_model_and_to_operators(idle):
    server = add(default_risk="low")
    McpServer.objects.filter(pk=server.pk).update(arguments=["-S", BAD, "dies"])
    transcript = let_agent_act(idle)
    assert transcript.executions[0].error == "The MCP server srv does not work: its process ended."
    server.refresh_from_db()
    assert server.state == "failing" and "its process ended" in server.last_error


def test_a_crash_during_a_call_reports_that_it_may_have_taken_effect(idle):
    add("crash", default_risk="low")
    transcript = let_agent_act(idle)
    assert transcript.executions[0].status is ExecutionStatus.FAILED
    assert "Whether the call took effect is not known" in transcript.executions[0].error


def test_a_credential_reaches_the_process_and_nobody_else(idle):
    server = add("key", default_risk="low")
    McpServer.objects.filter(pk=server.pk).update(environment={"API_KEY": "{{credential:SRV_KEY}}"})
    credentials.store_credential("SRV_KEY", "hush-hush-123", owner_id=None)
    transcript = let_agent_act(idle)
    assert transcript.executions[0].output == '"a key of 13 characters"'
    entry = AuditEntry.objects.filter(action="CredentialAccessed").last()
    assert entry.details["purpose"] == "MCP server srv"
    assert not AuditEntry.objects.filter(details__icontains="hush-hush").exists()


def test_a_missing_credential_is_named(idle):
    server = add("key", default_risk="low")
    McpServer.objects.filter(pk=server.pk).update(environment={"API_KEY": "{{credential:GONE}}"})
    transcript = let_agent_act(idle)
    assert "There is no credential 'GONE'" in transcript.executions[0].error
    assert "There is no credential 'GONE'" in McpServer.objects.get().last_error


def test_a_credential_that_changes_renews_the_connections_that_use_it():
    server = servers.add_server(name="srv", command="program", environment={"A": "{{credential:KEY}}"})
    other = servers.add_server(name="other", command="program")
    credentials.store_credential("KEY", "hush-hush-123", owner_id=None)
    assert servers.list_live() == {server.id: 1, other.id: 0}


async def test_progress_is_sent_to_viewers_now_and_then(monkeypatch):
    sent: list[NewEvent] = []
    monkeypatch.setattr(stream, "send_passing", sent.append)
    monkeypatch.setattr(mcp_tools, "_PROGRESS_SECONDS", 60)
    context = ToolContext(uuid4(), uuid4(), uuid4(), "default", "user:1", "key", 10)
    reporter = _ProgressReporter(context)
    for step in range(100):
        await reporter.report(step, 200, "x" * 1000)
    assert len(sent) == 1
    progress = TOOL_PROGRESS.payload(sent[0])
    assert (sent[0].type, progress["fraction"], len(progress["text"])) == (TOOL_PROGRESS, 0.0, 200)
    assert json.dumps(progress)


def test_a_process_calls_tools_from_several_event_loops():
    add(default_risk="low")
    tool = catalogue.find_tool("mcp__srv__act", "default")
    context = ToolContext(uuid4(), uuid4(), uuid4(), "default", "user:1", "key", 10)

    async def call() -> Any:
        try:
            return await tool.run({}, context)
        finally:
            await mcp_tools.connections.aclose()

    lasting = LoopThread()
    assert lasting.run(tool.run({}, context)) == "acted"
    assert [asyncio.run(tool.run({}, context)), asyncio.run(call())] == ["acted", "acted"]
    assert lasting.run(call()) == "acted" and not mcp_tools.connections._pools
    lasting.close()


def test_a_server_that_was_deleted_meanwhile_is_not_found(db: None) -> None:
    server = servers.add_server(name="gone", command=sys.executable)
    McpServer.objects.all().delete()
    with pytest.raises(NotFound, match="no MCP server 'gone'"):
        servers.change_server(server, is_enabled=False)
