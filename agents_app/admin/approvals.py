"""The queue of tool calls that need approval, with the information for each decision."""

from dataclasses import replace
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from unfold.contrib.filters.admin import ChoicesDropdownFilter
from unfold.decorators import display
from unfold.enums import ActionVariant
from unfold.forms import BaseDialogForm
from unfold.widgets import UnfoldAdminTextInputWidget

from agents_app import services
from agents_app.admin.pending_approvals import arguments_of, changes_of, read_waiting, time_left
from audit_app import fresh_login
from audit_app.admin_base import columns, links
from audit_app.admin_base.base import ReadOnlyAdmin, get_or_404, reported
from audit_app.admin_base.dialogs import back_to
from audit_app.admin_base.filters import KeyDateFilter
from audit_app.admin_base.names import name_of
from audit_app.admin_base.permissions import granted_by
from audit_app.admin_base.theme import Dialog, act
from audit_app.fresh_login import ALLOW_HIGH_RISK
from audit_app.kernel.redact import masked, masked_for_approver
from audit_app.kernel.safe_text import summary, visible
from tools_app import selectors
from tools_app.models import Approval
from tools_app.policy import seen_values
from tools_app.rights import ALLOW_ALWAYS, DECIDE_APPROVALS
from tools_app.types import ApprovalStatus, ApprovalView, Decision, Risk
from tools_app.types.approvals import outcome_of
from tools_app.types.tools import risk_label

PAGE = "admin:tools_app_approval_change"
TONES = {"pending": "warning", "approved": "success", "denied": "danger", "expired": "danger", "cancelled": "info"}

links.register_page("approval", PAGE)


def count_pending() -> int:
    return Approval.objects.filter(status=ApprovalStatus.PENDING.value).count()


class DecisionForm(BaseDialogForm):
    """The note of a decision."""

    note = forms.CharField(
        required=False,
        max_length=300,
        widget=UnfoldAdminTextInputWidget,
        help_text="Sent to the model and stored in the audit log.",
    )


def _done(decided: ApprovalView) -> str:
    if decided.status is ApprovalStatus.PENDING:
        return "Allowed by 1 of 2 people. Another person has to allow the call, too."
    return "The call is denied." if decided.status is ApprovalStatus.DENIED else "The call is allowed."


def _button(
    decision: Decision, path: str, icon: str, dialog: Dialog, variant: ActionVariant = ActionVariant.DEFAULT
) -> Any:
    """Declare the button of a decision, with the label of the dialog's submit button."""
    dialog = replace(dialog, form_class=DecisionForm)

    permission = "allow_always" if decision is Decision.ALLOW_ALWAYS else "decide"

    @act(dialog.submit, path=path, icon=icon, permissions=[permission], variant=variant, dialog=dialog)
    def decide(page: Any, request: HttpRequest, form: DecisionForm, object_id: str) -> HttpResponse:
        actor, note = f"user:{request.user.pk}", form.cleaned_data["note"]
        approval = get_or_404(page, request, object_id)
        if decision is not Decision.DENY and approval.execution.risk == Risk.HIGH:
            fresh_login.require(request, ALLOW_HIGH_RISK)
        with reported(request):
            decided = services.decide_approval(approval.pk, decision=decision, actor=actor, note=note)
            messages.success(request, _done(decided))
        return back_to(request, PAGE, object_id)

    return decide


@admin.register(Approval)
class ApprovalAdmin(ReadOnlyAdmin):
    empty_text = "Requests appear here when an agent wants to do something that needs your approval."
    list_display = ("requested", "state", "tool", "call", "risk", "agent", "left", "who")
    named = {"execution.agent_id": "agent", "execution.session_id": "session", "decided_by": "actor"}
    list_filter = (("status", ChoicesDropdownFilter), ("created_at", KeyDateFilter))
    prefetched = ("execution",)
    search_fields = ("=execution__tool", "=execution__agent_id", "decided_by", "note")
    search_ids = ("id", "run_id", "execution_id")
    search_help_text = "Search tools, agents, people, notes or an id"
    list_before_template: Any = "admin/tools_app/approval/waiting.html"
    actions_detail: Any = tuple(choice.value for choice in Decision)
    fieldsets = (
        (
            None,
            {
                "fields": (
                    ("tool", "state"),
                    ("agent", "session"),
                    ("run", "execution_link"),
                    ("risk", "why"),
                    "has_read",
                )
            },
        ),
        ("Call", {"fields": ("changes", "arguments", "wider")}),
        ("Decision", {"fields": (("requested", "left"), ("who", "decided"), "remark")}),
    )

    has_decide_permission = granted_by(DECIDE_APPROVALS)
    has_allow_always_permission = granted_by(DECIDE_APPROVALS, ALLOW_ALWAYS)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        """Show the waiting requests above the list, unless the list is filtered."""
        waiting: Any = () if request.GET else read_waiting(request.user)
        return super().changelist_view(request, {**(extra_context or {}), "waiting": waiting})

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        """Return the decisions that the request offers; none once it is decided."""
        approval = self.get_object(request, object_id)
        if approval is None or approval.status != ApprovalStatus.PENDING:
            return []
        names = {f"tools_app_approval_{choice}" for choice in approval.choices}
        return [action for action in super().get_actions_detail(request, object_id) if action.action_name in names]

    allow_once = _button(
        Decision.ALLOW_ONCE,
        "approve",
        "check_circle",
        Dialog("Allow this call?", "It runs at once, with exactly the arguments shown here.", "Allow once"),
        ActionVariant.PRIMARY,
    )
    allow_run = _button(
        Decision.ALLOW_RUN,
        "approve-run",
        "done_all",
        Dialog(
            "Allow such calls until this run ends?",
            "This call runs at once. The page shows which other calls are allowed with it.",
            "Allow for this run",
        ),
    )
    allow_always = _button(
        Decision.ALLOW_ALWAYS,
        "approve-always",
        "verified_user",
        Dialog(
            "Always allow such calls of this agent?",
            "This call runs at once. The page shows which other calls are allowed from now on.",
            "Always allow",
        ),
    )
    deny = _button(
        Decision.DENY,
        "deny",
        "cancel",
        Dialog("Deny this call?", "The model receives the denial and continues without the call.", "Deny"),
        ActionVariant.DANGER,
    )

    requested = columns.time("Requested", "created_at")
    state = columns.column("Status", lambda approval: approval.status, label=TONES)
    tool = columns.column("Tool", lambda approval: visible(approval.execution.tool))
    call = columns.column("Call", lambda approval: summary(masked_for_approver(approval.execution.arguments)))
    arguments = columns.column("Arguments", arguments_of)
    changes = columns.column("Changes", lambda approval: changes_of(selectors.approval_view(approval)) or "–")

    @display(description="“For this run” and “always” would allow")
    def wider(self, approval: Approval) -> str:
        scopes = (
            (approval.run_pattern, f"for this run; {seen_values.LIMIT}"),
            (approval.pattern, "always, for this agent"),
        )
        shown = [f"{visible(masked(pattern))} ({when})" for pattern, when in scopes if pattern]
        return " · ".join(shown) or "–"

    risk = columns.column("Risk", lambda approval: risk_label(approval.execution.risk, approval.execution.effect))
    agent = columns.named("Agent", "agent", "execution.agent_id")
    run = columns.link("Run", "run", "run_id")
    session = columns.named("Session", "session", "execution.session_id")
    execution_link = columns.link("Execution", "execution", "execution_id")
    why = columns.text("Reason for approval", "reason")
    has_read = columns.column(
        "The run has read", lambda approval: visible(approval.origins.replace("\n", ", ")) or "nothing from outside"
    )

    @display(description="Time left")
    def left(self, approval: Approval) -> str:
        return time_left(approval.expires_at, timezone.now()) if approval.status == ApprovalStatus.PENDING else "–"

    @display(description="Decision")
    def who(self, approval: Approval) -> str:
        if approval.status == ApprovalStatus.PENDING and approval.first_allowed_by:
            return f"1 of 2: {visible(approval.first_allowed_by)}"
        decided_by = name_of(approval, "decided_by") or approval.decided_by
        people = " and ".join(part for part in (approval.first_allowed_by, decided_by) if part)
        return visible(outcome_of(approval.status, approval.decision, people))

    decided = columns.time("Decided", "decided_at")
    remark = columns.text("Note", "note", empty="–")
