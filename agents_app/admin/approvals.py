"""The queue of tool calls that wait for a person: read with everything the decision needs, decided once."""

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from unfold.contrib.filters.admin import ChoicesDropdownFilter
from unfold.decorators import display
from unfold.enums import ActionVariant
from unfold.forms import BaseDialogForm
from unfold.widgets import UnfoldAdminTextInputWidget

from agents_app import services
from audit_app.adminkit import links
from audit_app.adminkit.base import ReadOnlyAdmin, acting
from audit_app.adminkit.dialogs import back_to
from audit_app.adminkit.filters import KeyDateFilter
from audit_app.adminkit.text import json_block, summary, took, visible
from audit_app.adminkit.theme import act
from audit_app.kernel.errors import AppError
from tools_app.models import Approval
from tools_app.types import ApprovalStatus

PAGE = "admin:tools_app_approval_change"
TONES = {"pending": "warning", "approved": "success", "denied": "danger", "expired": "danger", "cancelled": "info"}

links.register_page("approval", PAGE)


def count_pending() -> int:
    """How many calls wait for a decision now."""
    return Approval.objects.filter(status=ApprovalStatus.PENDING.value).count()


class DecisionForm(BaseDialogForm):
    """What the one who decides adds."""

    note = forms.CharField(
        required=False, max_length=300, widget=UnfoldAdminTextInputWidget, help_text="Told to the model and recorded."
    )


@admin.register(Approval)
class ApprovalAdmin(ReadOnlyAdmin):
    list_display = ("asked", "state", "tool", "call", "risk", "agent", "run", "left", "who")
    list_filter = (("status", ChoicesDropdownFilter), ("created_at", KeyDateFilter))
    list_select_related = False
    search_fields = ("=execution__tool", "=execution__agent_id", "decided_by", "note")
    search_ids = ("id", "run_id", "execution_id")
    search_help_text = "An id, or words of the last 30 days"
    actions_detail: Any = ("approve", "deny")
    fieldsets = (
        (None, {"fields": (("tool", "state"), ("agent", "run"), ("risk", "execution_link"), "why")}),
        ("Call", {"fields": ("arguments",)}),
        ("Decision", {"fields": (("asked", "left"), ("who", "decided"), "remark")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Approval]:
        return super().get_queryset(request).prefetch_related("execution")

    def has_decide_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perm("tools_app.change_approval")

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        """None once it is decided."""
        approval = self.get_object(request, object_id)
        is_pending = approval is not None and approval.status == ApprovalStatus.PENDING
        return super().get_actions_detail(request, object_id) if is_pending else []

    @act(
        "Approve",
        path="approve",
        icon="check_circle",
        permissions=["decide"],
        variant=ActionVariant.PRIMARY,
        question="Let this call run?",
        explanation="It runs at once, with exactly the arguments shown here.",
        submit="Approve",
        form_class=DecisionForm,
    )
    def approve(self, request: HttpRequest, form: DecisionForm, object_id: str) -> HttpResponse:
        return self._decide(request, form, object_id, approve=True)

    @act(
        "Deny",
        path="deny",
        icon="cancel",
        permissions=["decide"],
        variant=ActionVariant.DANGER,
        question="Deny this call?",
        explanation="The model is told that a person denied it, and goes on without it.",
        submit="Deny",
        form_class=DecisionForm,
    )
    def deny(self, request: HttpRequest, form: DecisionForm, object_id: str) -> HttpResponse:
        return self._decide(request, form, object_id, approve=False)

    def _decide(self, request: HttpRequest, form: DecisionForm, object_id: str, *, approve: bool) -> HttpResponse:
        actor, note = f"user:{request.user.pk}", form.cleaned_data["note"]
        try:
            with acting(request):
                services.decide_approval(UUID(object_id), approve=approve, actor=actor, note=note)
            messages.success(request, "The call is approved." if approve else "The call is denied.")
        except AppError as error:
            messages.error(request, error.message)
        return back_to(request, PAGE, object_id)

    @display(description="Asked")
    def asked(self, approval: Approval) -> str:
        return f"{timezone.localtime(approval.created_at):%Y-%m-%d %H:%M:%S}"

    @display(description="Status", label=TONES)
    def state(self, approval: Approval) -> str:
        return approval.status

    @display(description="Tool")
    def tool(self, approval: Approval) -> str:
        return visible(approval.execution.tool)

    @display(description="Call")
    def call(self, approval: Approval) -> str:
        return summary(approval.execution.arguments)

    @display(description="Arguments")
    def arguments(self, approval: Approval) -> str:
        return json_block(approval.execution.arguments)

    @display(description="Risk")
    def risk(self, approval: Approval) -> str:
        return f"{approval.execution.risk} ({approval.execution.effect})"

    @display(description="Agent")
    def agent(self, approval: Approval) -> str:
        return links.link("agent", approval.execution.agent_id)

    @display(description="Run")
    def run(self, approval: Approval) -> str:
        return links.link("run", approval.run_id)

    @display(description="Execution")
    def execution_link(self, approval: Approval) -> str:
        return links.link("execution", approval.execution_id)

    @display(description="Why it asks")
    def why(self, approval: Approval) -> str:
        return visible(approval.reason)

    @display(description="Time left")
    def left(self, approval: Approval) -> str:
        now = timezone.now()
        if approval.status != ApprovalStatus.PENDING or approval.expires_at <= now:
            return "–"
        return took(now, approval.expires_at)

    @display(description="Decided by")
    def who(self, approval: Approval) -> str:
        return visible(approval.decided_by) or "–"

    @display(description="Decided")
    def decided(self, approval: Approval) -> str:
        return f"{timezone.localtime(approval.decided_at):%Y-%m-%d %H:%M:%S}" if approval.decided_at else "–"

    @display(description="Note")
    def remark(self, approval: Approval) -> str:
        return visible(approval.note) or "–"
