"""MCP servers in the admin: created, connected, rated and approved."""

import json
import sys

import pytest

from audit_app.models import AuditEntry
from tests.support.mcp import BAD
from tools_app.mcp_client import discovery, servers
from tools_app.models import McpServer

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]

SERVERS = "/admin/tools_app/mcpserver/"
YES = {"_form_submitted": "True"}


def fields(**changed):
    given = {
        "name": "srv",
        "transport": "stdio",
        "command": sys.executable,
        "arguments": json.dumps(["-S", BAD, "fine"]),
        "environment": "{}",
        "url": "",
        "headers": "{}",
        "is_enabled": "on",
        "default_risk": "high",
        "default_effect": "once",
        "connect_seconds": "10",
        "call_seconds": "60",
        "tools-TOTAL_FORMS": "0",
        "tools-INITIAL_FORMS": "0",
    }
    return {**given, **changed}


@pytest.fixture
def server():
    made = servers.add_server(name="srv", command=sys.executable, arguments=["-S", BAD, "fine"])
    discovery.refresh(made)
    return made


def test_a_server_is_made_and_recorded(pages):
    pages.post(f"{SERVERS}add/", fields())
    assert McpServer.objects.get().command == sys.executable
    assert AuditEntry.objects.filter(action="McpServerCreated", actor__startswith="user:").count() == 1


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"command": ""}, "required for a stdio server"),
        ({"environment": '{"A": 1}'}, "must be a single line of text"),
        ({"arguments": '["{{credential:K}}"]'}, "put credentials into the environment"),
        ({"transport": "sse", "url": "ftp://x"}, "must have the form https"),
    ],
)
def test_an_invalid_value_is_reported_beside_its_field(pages, changed, expected):
    assert expected in pages.post(f"{SERVERS}add/", fields(**changed)).content.decode()
    assert not McpServer.objects.exists()


def test_its_tools_are_refreshed_and_approved_by_buttons(pages, server):
    servers.change_server(server, environment={"TOOL_VERSION": "2"})
    page = f"{SERVERS}{server.pk}"
    shown = pages.post(f"{page}/refresh/", YES, follow=True).content.decode()
    assert "1 tools are listed, 1 of them changed." in shown and "Acts, version 2." in shown
    assert server.tools.get().status == "changed"
    assert "Approved: act." in pages.post(f"{page}/approve/", YES, follow=True).content.decode()
    assert server.tools.get().status == "offered"


def test_an_unreachable_server_is_reported(pages, server):
    servers.change_server(server, arguments=["-S", BAD, "dies"])
    shown = pages.post(f"{SERVERS}{server.pk}/refresh/", YES, follow=True).content.decode()
    assert "its process ended" in shown and "no licence found" in shown


def test_a_tool_is_rated_and_agents_are_offered_it_so(pages, server):
    tool = server.tools.get()
    row = {
        "tools-TOTAL_FORMS": "1",
        "tools-INITIAL_FORMS": "1",
        "tools-0-id": str(tool.pk),
        "tools-0-server": str(server.pk),
        "tools-0-is_enabled": "on",
        "tools-0-risk": "low",
        "tools-0-effect": "read",
    }
    before = McpServer.objects.get().tools_version
    pages.post(f"{SERVERS}{server.pk}/change/", fields(**row))
    tool.refresh_from_db()
    assert (tool.risk, tool.effect) == ("low", "read")
    assert McpServer.objects.get().tools_version > before


def test_staff_without_the_right_see_no_buttons(staff, server):
    browser = staff("tools_app.view_mcpserver", "tools_app.view_mcptool")
    assert "Refresh tools" not in browser.get(f"{SERVERS}{server.pk}/change/").content.decode()
    assert browser.post(f"{SERVERS}{server.pk}/refresh/", YES).status_code in (302, 403)
    assert "srv" in browser.get(SERVERS).content.decode()


def test_a_new_server_shows_nothing_that_is_known_later(pages) -> None:
    page = pages.get("/admin/tools_app/mcpserver/add/").content.decode()
    assert 'name="command"' in page and "Last error" not in page and "MCP tools" not in page


def test_a_page_that_may_only_be_viewed_compares_no_fields(staff, pages, server):
    page = f"{SERVERS}{server.pk}/change/"
    viewed = staff("tools_app.view_mcpserver", name="viewer").get(page)
    assert viewed.status_code == 200 and 'x-show="transport' not in viewed.content.decode()
    assert 'x-show="transport' in pages.get(page).content.decode()
