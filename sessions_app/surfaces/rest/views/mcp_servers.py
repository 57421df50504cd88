"""MCP servers, for users with the right to change them: a server can be a command on this machine."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.rest.objects import mcp_servers as objects
from sessions_app.surfaces.rest.operations import paged
from sessions_app.surfaces.rest.views.base import RestView, ok
from tools_app.mcp_client import client_document, discovery, server_authorization, servers
from tools_app.mcp_client.server_authorization import Login
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

    @Operation("Remove an MCP server", objects.McpRevokedOut)
    def delete(self, request: Request, name: str) -> Response:
        """Its tokens are deleted, and revoked where the authorization server can."""
        problem = server_authorization.remove_server(servers.get_server(name))
        return ok(objects.McpRevokedOut.of(None, problem=problem))


class McpServerAuthorization(McpView):
    """The login by OAuth with which the tools of the server are used."""

    @Operation("Read the authorization of an MCP server", objects.McpAuthorizationOut, errors=[403])
    def get(self, request: Request, name: str) -> Response:
        return ok(objects.McpAuthorizationOut.of(server_authorization.state_of(servers.get_server(name))))

    @Operation("Begin the authorization of an MCP server", objects.McpAuthorizationBegunOut, streams=True)
    def post(self, request: Request, name: str) -> Response:
        """Return the address at which you authorize in a browser, in which you are logged in here, too."""
        login = Login(self.principal.user.pk)
        url = server_authorization.begin(servers.get_server(name), login, client_document.callback_url(request))
        return ok(objects.McpAuthorizationBegunOut.of(None, authorization_url=url))

    @Operation("Forget the authorization of an MCP server", objects.McpRevokedOut, streams=True)
    def delete(self, request: Request, name: str) -> Response:
        """Delete the tokens, and revoke them where the authorization server can."""
        problem = server_authorization.forget(servers.get_server(name))
        return ok(objects.McpRevokedOut.of(None, problem=problem))


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
