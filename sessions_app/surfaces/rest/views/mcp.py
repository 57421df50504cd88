"""MCP servers, for operators with the right to set them up: a server can be a command that runs on this machine."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from audit_app.kernel.errors import Forbidden
from sessions_app.surfaces.rest import agent_responses
from sessions_app.surfaces.rest.requests import McpServerBody, ToolNamesBody
from sessions_app.surfaces.rest.views.base import KomandView, ok
from tools_app.mcp_client import discovery, servers
from tools_app.models import McpServer


class McpView(KomandView):
    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        user = self.principal.user
        if not (user.is_staff and user.has_perm("tools_app.change_mcpserver")):
            raise Forbidden("Only an operator who may set up MCP servers can do this.")


class McpServerList(McpView):
    def get(self, request: Request) -> Response:
        page, rows = self.page(), McpServer.objects.prefetch_related("tools")
        return ok(
            [agent_responses.McpServerOut.of(row) for row in rows[page.offset : page.offset + page.size]],
            page.meta(len(rows)),
        )

    def post(self, request: Request) -> Response:
        return ok(agent_responses.McpServerOut.of(servers.add_server(**self.body(McpServerBody))))


class McpServerDetail(McpView):
    def get(self, request: Request, name: str) -> Response:
        return ok(agent_responses.McpServerOut.of(servers.get_server(name)))

    def put(self, request: Request, name: str) -> Response:
        fields = self.body(McpServerBody, partial=True)
        fields.pop("name", None)  # part of its tools' names, which agents and executions remember
        return ok(agent_responses.McpServerOut.of(servers.change_server(servers.get_server(name), **fields)))

    def delete(self, request: Request, name: str) -> Response:
        servers.remove_server(servers.get_server(name))
        return ok(None)


class McpServerRefresh(McpView):
    def post(self, request: Request, name: str) -> Response:
        """Reach the server now and store what it lists. 503 with the reason when it cannot be reached."""
        server = servers.get_server(name)
        found, listed = discovery.refresh(server)
        server.refresh_from_db()
        changes = {"new": listed.new, "changed": listed.changed, "gone": listed.gone, "left_out": found.skipped}
        return ok(agent_responses.McpServerRefreshedOut.of(server, changes=changes))


class McpServerApprove(McpView):
    def post(self, request: Request, name: str) -> Response:
        """Accept the named tools as they are listed now; all of them when none are named."""
        server = servers.get_server(name)
        approved = servers.approve_tools(server, self.body(ToolNamesBody)["tools"])
        return ok(agent_responses.McpServerApprovedOut.of(server, approved=approved))
