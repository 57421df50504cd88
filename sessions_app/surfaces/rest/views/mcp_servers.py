"""MCP servers, for users with the right to change them: a server can be a command on this machine."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.rest.objects import mcp_servers as objects
from sessions_app.surfaces.rest.operations import paged
from sessions_app.surfaces.rest.views.base import RestView, ok
from tools_app.mcp_client import discovery, servers
from tools_app.models import McpServer
from tools_app.rights import MANAGE_MCP_SERVERS


class McpView(RestView):
    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        self.require(MANAGE_MCP_SERVERS)


class McpServerList(McpView):
    @paged("List MCP servers", objects.McpServerOut, errors=[403])
    def get(self, request: Request) -> Response:
        return self.page_of(list(McpServer.objects.prefetch_related("tools")), objects.McpServerOut.of)

    @Operation("Add an MCP server", objects.McpServerOut, body=objects.McpServerBody, errors=[409])
    def post(self, request: Request) -> Response:
        return ok(objects.McpServerOut.of(servers.add_server(**self.body())))


class McpServerDetail(McpView):
    @Operation("Read an MCP server", objects.McpServerOut, errors=[403])
    def get(self, request: Request, name: str) -> Response:
        return ok(objects.McpServerOut.of(servers.get_server(name)))

    @Operation("Change an MCP server", objects.McpServerOut, body=objects.McpServerBody, partial=True)
    def put(self, request: Request, name: str) -> Response:
        fields = self.body()
        fields.pop("name", None)  # it is part of the names of its tools, which agents and executions refer to
        return ok(objects.McpServerOut.of(servers.change_server(servers.get_server(name), **fields)))

    @Operation("Remove an MCP server")
    def delete(self, request: Request, name: str) -> Response:
        servers.remove_server(servers.get_server(name))
        return ok(None)


class McpServerRefresh(McpView):
    @Operation("Refresh the tools of an MCP server", objects.McpServerRefreshedOut, streams=True)
    def post(self, request: Request, name: str) -> Response:
        """Connect to the server and store the tools that it lists; 503 with the reason if that fails."""
        server = servers.get_server(name)
        found, listed = discovery.refresh(server)
        server.refresh_from_db()
        changes = {"new": listed.new, "changed": listed.changed, "gone": listed.gone, "left_out": found.skipped}
        return ok(objects.McpServerRefreshedOut.of(server, changes=changes))


class McpServerApprove(McpView):
    @Operation("Approve the tools of an MCP server", objects.McpServerApprovedOut, body=objects.ToolNamesBody)
    def post(self, request: Request, name: str) -> Response:
        """Approve the named tools as they are listed now, or all of them."""
        server = servers.get_server(name)
        approved = servers.approve_tools(server, self.body()["tools"])
        return ok(objects.McpServerApprovedOut.of(server, approved=approved))
