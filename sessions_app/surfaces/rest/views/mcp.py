"""MCP servers, for operators with the right to set them up: a server can be a command that runs on this machine."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from audit_app.kernel.errors import Forbidden
from sessions_app.surfaces.base.timestamps import iso
from sessions_app.surfaces.rest.views.base import KomandView, ok
from tools_app.mcp_client import discovery, servers
from tools_app.models import McpServer, McpTool
from tools_app.secrets.credentials import find_references


class McpServerBody(serializers.Serializer[Any]):
    """What fits together is checked where servers are stored."""

    name = serializers.CharField(max_length=24)
    transport = serializers.ChoiceField(required=False, choices=McpServer.TRANSPORTS)
    command = serializers.CharField(required=False, max_length=500, allow_blank=True)
    arguments = serializers.ListField(required=False, child=serializers.CharField(max_length=1000), max_length=100)
    environment = serializers.DictField(required=False, child=serializers.CharField(max_length=4000))
    url = serializers.CharField(required=False, max_length=500, allow_blank=True)
    headers = serializers.DictField(required=False, child=serializers.CharField(max_length=4000))
    isEnabled = serializers.BooleanField(required=False, source="is_enabled")  # noqa: N815
    defaultRisk = serializers.ChoiceField(  # noqa: N815
        required=False, source="default_risk", choices=McpServer.RISKS
    )
    defaultEffect = serializers.ChoiceField(  # noqa: N815
        required=False, source="default_effect", choices=McpServer.EFFECTS
    )
    connectSeconds = serializers.IntegerField(  # noqa: N815
        required=False, source="connect_seconds", min_value=1, max_value=300
    )
    callSeconds = serializers.IntegerField(  # noqa: N815
        required=False, source="call_seconds", min_value=1, max_value=1800
    )


class ToolNamesBody(serializers.Serializer[Any]):
    tools = serializers.ListField(child=serializers.CharField(max_length=128), default=None, allow_null=True)


class McpView(KomandView):
    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        user = self.principal.user
        if not (user.is_staff and user.has_perm("tools_app.change_mcpserver")):
            raise Forbidden("Only an operator who may set up MCP servers can do this.")


class McpServerList(McpView):
    def get(self, request: Request) -> Response:
        page, rows = self.page(), McpServer.objects.prefetch_related("tools")
        return ok([_server(row) for row in rows[page.offset : page.offset + page.size]], page.meta(len(rows)))

    def post(self, request: Request) -> Response:
        return ok(_server(servers.add_server(**self.body(McpServerBody))))


class McpServerDetail(McpView):
    def get(self, request: Request, name: str) -> Response:
        return ok(_server(servers.get_server(name)))

    def put(self, request: Request, name: str) -> Response:
        fields = self.body(McpServerBody, partial=True)
        fields.pop("name", None)  # part of its tools' names, which agents and executions remember
        return ok(_server(servers.change_server(servers.get_server(name), **fields)))

    def delete(self, request: Request, name: str) -> Response:
        servers.remove_server(servers.get_server(name))
        return ok(None)


class McpServerRefresh(McpView):
    def post(self, request: Request, name: str) -> Response:
        """Reach the server now and store what it lists. 503 with the reason when it cannot be reached."""
        server = servers.get_server(name)
        found, listed = discovery.refresh(server)
        server.refresh_from_db()
        changes = {"new": listed.new, "changed": listed.changed, "gone": listed.gone, "leftOut": found.skipped}
        return ok({**_server(server), "changes": changes})


class McpServerApprove(McpView):
    def post(self, request: Request, name: str) -> Response:
        """Accept the named tools as they are listed now; all of them when none are named."""
        server = servers.get_server(name)
        approved = servers.approve_tools(server, self.body(ToolNamesBody)["tools"])
        return ok({**_server(server), "approved": approved})


def _server(row: McpServer) -> dict[str, Any]:
    """A server with its tools. Of variables and headers only references to credentials are shown."""
    return {
        "name": row.name,
        "transport": row.transport,
        "command": row.command,
        "arguments": row.arguments,
        "environment": _hidden(row.environment),
        "url": row.url,
        "headers": _hidden(row.headers),
        "isEnabled": row.is_enabled,
        "defaultRisk": row.default_risk,
        "defaultEffect": row.default_effect,
        "connectSeconds": row.connect_seconds,
        "callSeconds": row.call_seconds,
        "state": row.state,
        "lastError": row.last_error or None,
        "reachedAt": iso(row.reached_at),
        "tools": [_tool(tool) for tool in row.tools.all()],
    }


def _tool(row: McpTool) -> dict[str, Any]:
    return {
        "name": row.name,
        "description": row.description,
        "state": row.status,
        "claims": row.hints,
        "risk": row.risk or None,
        "effect": row.effect or None,
        "parameters": row.parameters,
    }


def _hidden(texts: dict[str, str]) -> dict[str, str]:
    return {name: text if find_references(text) else "***" for name, text in texts.items()}
