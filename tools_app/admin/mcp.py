"""Admin of MCP servers: configured and refreshed, and their tools rated and approved."""

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from unfold.admin import TabularInline
from unfold.contrib.filters.admin import ChoicesDropdownFilter
from unfold.decorators import display
from unfold.enums import ActionVariant

from audit_app.admin_base import columns, links
from audit_app.admin_base.base import AuditedAdmin, ConditionalAdmin, acting, get_or_404, reported
from audit_app.admin_base.dialogs import back_to
from audit_app.admin_base.html import json_block
from audit_app.admin_base.permissions import granted_by, never
from audit_app.admin_base.theme import Dialog, act
from audit_app.kernel.safe_text import clipped, visible
from tools_app.mcp_client import discovery, servers
from tools_app.models import McpServer, McpTool
from tools_app.rights import MANAGE_MCP_SERVERS

PAGE = "admin:tools_app_mcpserver_change"
STATES = {"unknown": "info", "ok": "success", "failing": "danger"}
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


_CONNECTION_FIELDS = ("environment", "url", "headers", "is_enabled")


@admin.register(McpServer)
class McpServerAdmin(ConditionalAdmin, AuditedAdmin):  # type: ignore[misc]  # the theme widens Django's types
    noun = "McpServer"
    list_display = ("name", "transport", "health", "tool_count", "default_risk", "is_enabled")
    list_filter = (("state", ChoicesDropdownFilter), "is_enabled")
    list_filter_submit = True
    search_fields = ("name", "command", "url")
    inlines = (ToolInline,)
    actions_detail: Any = ("refresh_tools", "approve_tools")
    conditional_fields = {
        **dict.fromkeys(("command", "arguments", "environment"), "transport == 'stdio'"),
        **dict.fromkeys(("url", "headers"), "transport != 'stdio'"),
    }
    readonly_fields = ("health", "problem", "greeting_text")
    fieldsets = (
        (None, {"fields": (("name", "transport"), ("command", "arguments"), *_CONNECTION_FIELDS)}),
        ("Its tools", {"fields": (("default_risk", "default_effect"), ("connect_seconds", "call_seconds"))}),
        ("Health", {"fields": ("health", "problem", "greeting_text")}),
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

    health = columns.column("Health", lambda server: server.state, label=STATES)

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
