"""MCP servers over REST: only for operators with the permission, with secrets masked."""

import sys

import pytest

from agents_app.rights import CHANGE_AGENTS
from tests.support.mcp import BAD
from tests.support.rest import RestCaller, make_agent, make_user
from tests.support.rights import make_operator
from tools_app.models import McpServer
from tools_app.rights import MANAGE_MCP_SERVERS

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]

SERVER = {
    "name": "srv",
    "command": sys.executable,
    "arguments": ["-S", BAD, "fine"],
    "environment": {"PLAIN": "in the clear", "KEY": "{{credential:SRV}}"},
}


@pytest.fixture
def operator() -> RestCaller:
    return RestCaller(make_operator("operator", MANAGE_MCP_SERVERS, CHANGE_AGENTS))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "mcp/servers"),
        ("POST", "mcp/servers"),
        ("GET", "mcp/servers/srv"),
        ("PUT", "mcp/servers/srv"),
        ("DELETE", "mcp/servers/srv"),
        ("POST", "mcp/servers/srv/refresh"),
        ("POST", "mcp/servers/srv/approve"),
        ("GET", "mcp/servers/srv/authorization"),
        ("POST", "mcp/servers/srv/authorization"),
        ("DELETE", "mcp/servers/srv/authorization"),
    ],
)
def test_users_without_the_permission_are_refused(operator: RestCaller, method: str, path: str) -> None:
    operator.post("mcp/servers", SERVER)
    for stranger in (make_user("bob"), make_user("carol", is_staff=True)):
        answer = RestCaller(stranger)(method, path, SERVER if method in ("POST", "PUT") else None)
        assert answer.status == 403
    assert McpServer.objects.count() == 1


def test_a_server_is_added_refreshed_approved_changed_and_removed(operator: RestCaller) -> None:
    made = operator.post("mcp/servers", {**SERVER, "environment": {}})
    assert (made.status, made.data["state"], made.data["tools"]) == (200, "unknown", [])
    refreshed = operator.post("mcp/servers/srv/refresh")
    assert refreshed.data["changes"]["new"] == ["act"]
    assert [(tool["name"], tool["state"]) for tool in refreshed.data["tools"]] == [("act", "offered")]
    operator.put("mcp/servers/srv", {"environment": {"TOOL_VERSION": "2"}, "defaultRisk": "low"})
    assert operator.post("mcp/servers/srv/refresh").data["tools"][0]["state"] == "changed"
    assert operator.post("mcp/servers/srv/approve", {"tools": ["act"]}).data["approved"] == ["act"]
    assert operator.get("mcp/servers").data[0]["defaultRisk"] == "low"
    assert operator.delete("mcp/servers/srv").status == 200
    assert operator.get("mcp/servers/srv").status == 404


def test_secrets_are_masked(operator: RestCaller) -> None:
    made = operator.post("mcp/servers", SERVER)
    assert made.data["environment"] == {"PLAIN": "***", "KEY": "{{credential:SRV}}"}


def test_an_unreachable_server_is_503_with_the_reason(operator: RestCaller) -> None:
    operator.post("mcp/servers", {**SERVER, "environment": {}, "arguments": ["-S", BAD, "dies"]})
    answer = operator.post("mcp/servers/srv/refresh")
    assert (answer.status, answer.meta["code"]) == (503, "server_unreachable")
    assert "its process ended" in answer.error


def test_invalid_settings_are_400(operator: RestCaller) -> None:
    assert operator.post("mcp/servers", {"name": "Bad Name", "command": "x"}).status == 400
    assert operator.post("mcp/servers", {"name": "srv"}).error == "command: required for a stdio server."
    operator.post("mcp/servers", SERVER)
    assert operator.post("mcp/servers", SERVER).status == 409


@pytest.mark.parametrize("wanted", ["none", "inherit", [], ["srv", "other"]])
def test_an_agent_lists_its_mcp_servers(operator: RestCaller, wanted: object) -> None:
    make_agent()
    changed = operator.put("agents/default", {"mcpServers": wanted})
    assert (changed.status, changed.data["mcpServers"]) == (200, wanted)
    assert operator.get("agents/default").data["mcpServers"] == wanted


@pytest.mark.parametrize("wanted", ["all", None, 7, [7], {"mode": "none"}])
def test_invalid_mcp_servers_are_refused(operator: RestCaller, wanted: object) -> None:
    make_agent()
    assert operator.put("agents/default", {"mcpServers": wanted}).status == 400
