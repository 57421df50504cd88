"""Admin of MCP servers: configured and refreshed, and their tools rated and approved."""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import path, reverse
from django.utils import timezone
from unfold.admin import TabularInline
from unfold.contrib.filters.admin import ChoicesDropdownFilter
from unfold.decorators import display
from unfold.enums import ActionVariant

from audit_app.admin_base import columns, links
from audit_app.admin_base.base import AuditedAdmin, ConditionalAdmin, acting, get_or_404, reported
from audit_app.admin_base.dialogs import back_to, to_page
from audit_app.admin_base.html import json_block
from audit_app.admin_base.permissions import granted_by, never
from audit_app.admin_base.theme import Dialog, act
from audit_app.kernel.safe_text import clipped, visible
from tools_app.mcp_client import client_document, discovery, server_authorization, servers
from tools_app.mcp_client.server_authorization import Login
from tools_app.models import McpServer, McpTool
from tools_app.rights import MANAGE_MCP_SERVERS

PAGE = "admin:tools_app_mcpserver_change"
LIST = "admin:tools_app_mcpserver_changelist"
CALLBACK = "tools_app_mcpserver_callback"
STATES = {"unknown": "info", "ok": "success", "failing": "danger", "needs authorization": "warning"}
TOOL_STATES = {"offered": "success", "off": "info", "gone": "info", "new": "warning", "changed": "danger"}

links.register_page("mcp_server", PAGE)


class ToolInline(TabularInline):
    """The tools that the server lists, with everything that a model would read: operators rate and approve them."""

    model = McpTool
    hide_title = True  # the server's raw text
    extra = 0
    can_delete = False
    fields = ("tool", "takes", "claims", "state", "is_enabled", "risk", "effect")
    readonly_fields = ("tool", "takes", "claims", "state")

    has_add_permission = never

    tool = columns.column("Tool", lambda tool: visible(f"{tool.name}: {tool.description or tool.title}"))
    takes = columns.column("Takes", lambda tool: json_block(tool.parameters.get("properties") or {}))
    claims = columns.column("Claims", lambda tool: json_block(tool.hints) if tool.hints else "–")
    state = columns.column("State", lambda tool: tool.status, label=TOOL_STATES)


_CONNECTION_FIELDS = ("environment", "url", "headers", ("oauth_client_id", "oauth_client_secret"), "is_enabled")


@admin.register(McpServer)
class McpServerAdmin(ConditionalAdmin, AuditedAdmin):  # type: ignore[misc]  # the theme widens Django's types
    empty_text = "MCP servers give agents further tools."
    noun = "McpServer"
    list_display = ("name", "transport", "health", "tool_count", "default_risk", "is_enabled")
    list_filter = (("state", ChoicesDropdownFilter), "is_enabled")
    list_filter_submit = True
    search_fields = ("name", "command", "url")
    inlines = (ToolInline,)
    actions_detail: Any = ("refresh_tools", "approve_tools", "authorize", "forget_authorization")
    conditional_fields = {
        **dict.fromkeys(("command", "arguments", "environment"), "transport == 'stdio'"),
        **dict.fromkeys(("url", "headers", "oauth_client_id", "oauth_client_secret"), "transport != 'stdio'"),
    }
    readonly_fields = ("health", "problem", "greeting_text", "authorization_text")
    fieldsets = (
        (None, {"fields": (("name", "transport"), ("command", "arguments"), *_CONNECTION_FIELDS)}),
        ("Its tools", {"fields": (("default_risk", "default_effect"), ("connect_seconds", "call_seconds"))}),
        ("Health", {"fields": ("health", "problem", "greeting_text", "authorization_text")}),
    )

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Leave out what is known of a server that was added already."""
        return super().get_fieldsets(request, obj)[: None if obj else -1]

    def get_inlines(self, request: HttpRequest, obj: McpServer | None) -> Any:
        return self.inlines if obj else ()

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        field: Any = super().formfield_for_dbfield(db_field, request, **kwargs)
        if db_field.name in ("arguments", "environment", "headers"):
            field.widget.attrs["rows"] = 3
        return field

    def get_readonly_fields(self, request: HttpRequest, obj: McpServer | None = None) -> tuple[str, ...]:
        return (*self.readonly_fields, "name") if obj else self.readonly_fields

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        servers.touch_tools(form.instance)

    def delete_model(self, request: HttpRequest, obj: McpServer) -> None:
        self._revoke(request, obj)
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[McpServer]) -> None:
        for server in queryset:
            self._revoke(request, server)
        super().delete_queryset(request, queryset)

    def _revoke(self, request: HttpRequest, server: McpServer) -> None:
        def warn(problem: str) -> None:
            messages.warning(request, f"The tokens of {server} were deleted here, but not revoked: {problem}")

        server_authorization.revoke_on_commit(server, warn)

    has_set_up_permission = granted_by(MANAGE_MCP_SERVERS)
    has_add_permission = has_delete_permission = has_set_up_permission

    @act(
        "Refresh tools",
        path="refresh",
        icon="refresh",
        permissions=["set_up"],
        dialog=Dialog(
            "Connect to this server and list its tools?",
            "Runs the server's command, or connects to its URL. The page waits for the result.",
            "Refresh",
        ),
    )
    def refresh_tools(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        server = get_or_404(self, request, object_id)
        with reported(request):
            found, listed = discovery.refresh(server)
            changes = len(listed.new) + len(listed.changed) + len(listed.gone)
            messages.success(request, f"{len(found.tools)} tools are listed, {changes} of them changed.")
            for name, reason in found.skipped.items():
                messages.warning(request, f"Skipped {name[:60]!r}: {reason}.")
        return back_to(request, PAGE, object_id)

    @act(
        "Approve tools",
        path="approve",
        icon="verified",
        permissions=["set_up"],
        variant=ActionVariant.PRIMARY,
        dialog=Dialog(
            "Approve every tool as it is listed now?",
            "Read the descriptions first: they are sent to agents unchanged.",
            "Approve",
        ),
    )
    def approve_tools(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        server = get_or_404(self, request, object_id)
        with acting(request):
            approved = servers.approve_tools(server)
        messages.success(request, f"Approved: {', '.join(approved) or 'nothing new'}.")
        return back_to(request, PAGE, object_id)

    @act(
        "Authorize",
        path="authorize",
        icon="key",
        permissions=["set_up"],
        dialog=Dialog(
            "Authorize Komand at this server?",
            "You are sent to the server's login. Agents use the server with the rights that you grant there.",
            "Authorize",
        ),
    )
    def authorize(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        server = get_or_404(self, request, object_id)
        with reported(request):
            back = client_document.callback_url(request)
            return to_page(request, server_authorization.begin(server, _login(request), back))
        return back_to(request, PAGE, object_id)

    @act(
        "Forget authorization",
        path="forget",
        icon="key_off",
        permissions=["set_up"],
        dialog=Dialog(
            "Forget the authorization of this server?",
            "Its tokens are deleted here and revoked at the authorization server. The server cannot be used until it "
            "is authorized again.",
            "Forget",
        ),
    )
    def forget_authorization(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        server = get_or_404(self, request, object_id)
        with reported(request):
            if problem := server_authorization.forget(server):
                messages.warning(request, f"The authorization was deleted here, but not revoked: {problem}")
            else:
                messages.success(request, "The authorization was deleted.")
        return back_to(request, PAGE, object_id)

    def get_urls(self) -> list[Any]:
        callback = self.admin_site.admin_view(self.authorization_callback)
        return [path("callback/", callback, name=CALLBACK), *super().get_urls()]

    def authorization_callback(self, request: HttpRequest) -> HttpResponse:
        """Complete an authorization for which the authorization server sends the browser back, and list the tools."""
        if not self.has_set_up_permission(request):
            raise PermissionDenied
        if request.method != "GET":
            return HttpResponseNotAllowed(["GET"])
        with reported(request):
            server = server_authorization.complete(request.GET.dict(), _login(request))
            messages.success(request, f"{server} is authorized.")
            with reported(request):
                found, _ = discovery.refresh(server)
                messages.success(request, f"{len(found.tools)} tools are listed.")
            return HttpResponseRedirect(reverse(PAGE, args=[server.pk]))
        return HttpResponseRedirect(reverse(LIST))

    health = columns.column("Health", lambda server: server.state.replace("_", " "), label=STATES)

    @display(description="Tools")
    def tool_count(self, server: McpServer) -> str:
        states = [tool.status for tool in server.tools.all()]
        waiting = sum(state in ("new", "changed") for state in states)
        return f"{states.count('offered')}" + (f" ({waiting} to approve)" if waiting else "")

    problem = columns.text("Last error", "last_error", empty="–")

    @display(description="Reached")
    def greeting_text(self, server: McpServer) -> str:
        if server.reached_at is None:
            return "never"
        greeting = server.greeting
        who = f"{greeting.get('name', '')} {greeting.get('version', '')}, protocol {greeting.get('protocol', '')}"
        return f"{timezone.localtime(server.reached_at):%Y-%m-%d %H:%M:%S}: {visible(clipped(who, 200))}"

    @display(description="Authorization")
    def authorization_text(self, server: McpServer) -> str:
        known = server_authorization.state_of(server)
        if known.authorized_at is None:
            return "none"
        ends = f", the token ends {timezone.localtime(known.expires_at):%Y-%m-%d %H:%M:%S}" if known.expires_at else ""
        state = f"by {known.issuer}{ends}" if known.status == "authorized" else "no longer accepted"
        rights = f"; rights: {known.scope}" if known.scope else ""
        missing = f"; rights that are missing: {known.missing_scope}" if known.missing_scope else ""
        text = f"{timezone.localtime(known.authorized_at):%Y-%m-%d %H:%M:%S}, {state}{rights}{missing}"
        return visible(clipped(text, 500))


def _login(request: HttpRequest) -> Login:
    return Login(int(request.user.pk or 0), request.session.session_key or "")
