"""Admin of tool executions: read, filtered and stopped; never edited."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from unfold.contrib.filters.admin import ChoicesDropdownFilter, DropdownFilter
from unfold.decorators import display
from unfold.enums import ActionVariant

from audit_app.admin_base import columns, links
from audit_app.admin_base.base import ReadOnlyAdmin, acting, get_or_404
from audit_app.admin_base.dialogs import back_to
from audit_app.admin_base.filters import KeyDateFilter
from audit_app.admin_base.html import json_block
from audit_app.admin_base.permissions import granted_by
from audit_app.admin_base.theme import Dialog, act, button
from audit_app.kernel.redact import masked_arguments
from audit_app.kernel.safe_text import clipped, took, visible
from tools_app import registry, services
from tools_app.models import IS_OPEN, ToolExecution
from tools_app.receipts import receipts
from tools_app.rights import CANCEL_EXECUTIONS
from tools_app.types import ExecutionStatus

PAGE = "admin:tools_app_toolexecution_change"
STATUS_TONES = {
    ExecutionStatus.PENDING.value: "info",
    ExecutionStatus.RUNNING.value: "info",
    ExecutionStatus.COMPLETED.value: "success",
    ExecutionStatus.FAILED.value: "danger",
    ExecutionStatus.TIMED_OUT.value: "danger",
    ExecutionStatus.CANCELLED.value: "warning",
    ExecutionStatus.UNKNOWN.value: "warning",
}
OPEN = (ExecutionStatus.PENDING.value, ExecutionStatus.RUNNING.value)
# Longer outputs are truncated; the database and the API have the rest.
SHOWN_CHARACTERS = 20_000

links.register_page("execution", PAGE)


def count_open() -> dict[str, int]:
    """Return the number of pending and running executions, by status. Statuses without any are missing."""
    rows = ToolExecution.objects.filter(IS_OPEN).order_by()
    return dict(rows.values_list("status").annotate(Count("id")))


class ToolFilter(DropdownFilter):
    """Filters by a built-in tool."""

    title = "tool"
    parameter_name = "tool"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in registry.tools.names()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ToolExecution]) -> QuerySet[ToolExecution]:
        return queryset.filter(tool=self.value()) if self.value() else queryset


@admin.register(ToolExecution)
class ToolExecutionAdmin(ReadOnlyAdmin):
    empty_text = "Calls of tools appear here when agents make them."
    list_display = ("name", "state", "asked", "length", "agent", "run", "problem")
    list_filter = (("status", ChoicesDropdownFilter), ToolFilter, ("created_at", KeyDateFilter))
    named = {"agent_id": "agent"}
    search_fields = ("=tool", "=agent_id", "=request_id", "error")
    search_ids = ("id", "run_id")
    search_help_text = "Search tools, agents, errors or an id"
    actions_detail: Any = ("stop", "check_receipt")
    fieldsets = (
        (None, {"fields": (("name", "state"), ("agent", "run"), ("asked", "started"), ("completed", "length"))}),
        ("Call", {"fields": ("pretty_arguments", "decision_text", ("effect", "risk"))}),
        ("Result", {"fields": ("pretty_output", "problem", "suspect", "brought", "proof", "receipt_text")}),
        ("More", {"fields": (("timeout_seconds", "attempts"), ("step", "call_index"), "call", "request_id")}),
    )

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        """Offer `stop` for open executions, `check_receipt` for others."""
        execution = self.get_object(request, object_id)
        hidden = "check_receipt" if execution is None or execution.status in OPEN else "stop"
        shown = super().get_actions_detail(request, object_id)
        return [one for one in shown if one.action_name != f"tools_app_toolexecution_{hidden}"]

    @act(
        "Stop",
        path="stop",
        icon="stop_circle",
        permissions=["stop"],
        variant=ActionVariant.DANGER,
        dialog=Dialog("Stop this execution?", "The model receives an error: the call was cancelled.", "Stop it"),
    )
    def stop(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        execution = get_or_404(self, request, object_id)
        with acting(request):
            stopped = services.cancel_execution(execution.pk)
        if stopped:
            messages.success(request, "The execution was stopped.")
        else:
            messages.info(request, "The execution had already ended.")
        return back_to(request, PAGE, object_id)

    @button("Check the receipt", path="check-receipt", icon="verified_user", permissions=["view"])
    def check_receipt(self, request: HttpRequest, object_id: str) -> HttpResponse:
        execution = get_or_404(self, request, object_id)
        verdict = receipts.check_stored(execution)
        (messages.success if verdict.is_valid else messages.error)(request, verdict.reason)
        return HttpResponseRedirect(reverse(PAGE, args=[object_id]))

    has_stop_permission = granted_by(CANCEL_EXECUTIONS)

    name = columns.text("Tool", "tool")
    state = columns.column("Status", lambda execution: execution.status, label=STATUS_TONES)
    asked = columns.time("Asked", "created_at")
    started = columns.column("Started", lambda execution: f"{took(execution.created_at, execution.started_at)} later")
    completed = columns.time("Ended", "completed_at")
    length = columns.column("Took", lambda execution: took(execution.started_at, execution.completed_at))
    agent = columns.named("Agent", "agent", "agent_id")
    run = columns.link("Run", "run", "run_id")
    problem = columns.column("Error", lambda execution: visible(clipped(execution.error or "", 500)) or "–")

    brought = columns.column(
        "Brings in from outside", lambda row: visible(row.origins.replace("\n", ", ")) or "nothing"
    )

    @display(description="Injection guard")
    def suspect(self, execution: ToolExecution) -> str:
        """Return the result of the injection guard. A result withheld from the model is shown only here."""
        if not execution.suspicion:
            return "–"
        found = f"looks like an attack on the model ({execution.suspicion} of 100)"
        return found if not execution.withheld else json_block(clipped(execution.withheld, SHOWN_CHARACTERS))

    @display(description="Proof", label={"proved": "success", "none": "info", "changed": "danger"})
    def proof(self, execution: ToolExecution) -> str:
        """Return the result of verifying the receipt now."""
        if not execution.receipt:
            return "none"
        return "proved" if receipts.check_stored(execution).is_valid else "changed"

    receipt_text = columns.text("Receipt", "receipt", empty="–")
    pretty_arguments = columns.column("Arguments", lambda execution: json_block(masked_arguments(execution.arguments)))
    pretty_output = columns.column(
        "Output", lambda execution: json_block(clipped(execution.output, SHOWN_CHARACTERS)) if execution.output else "–"
    )
    decision_text = columns.text("Policy", "decision")
    call = columns.text("Id of the call", "call_id")
