"""The emergency stop in the admin: its state, and buttons with a confirmation."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from unfold.enums import ActionVariant
from unfold.forms import BaseDialogForm
from unfold.widgets import UnfoldAdminTextInputWidget

from agents_app import services
from audit_app.admin_base import columns
from audit_app.admin_base.base import ReadOnlyAdmin, acting
from audit_app.admin_base.dialogs import back_to
from audit_app.admin_base.permissions import granted_by
from audit_app.admin_base.theme import Dialog, act
from tools_app.models import Control
from tools_app.rights import STOP_AGENTS

PAGE = "admin:tools_app_control_changelist"
TONES = {"stopped": "danger", "running": "success"}


class ReasonForm(BaseDialogForm):
    """The reason, which is shown to users whose messages are refused and stored in the audit log."""

    reason = forms.CharField(
        required=False,
        max_length=300,
        widget=UnfoldAdminTextInputWidget,
        help_text="Shown to users and stored in the audit log.",
    )


def stop(request: HttpRequest, form: ReasonForm, scope: str = "") -> None:
    """Stop all agents, or one, in the name of the operator."""
    with acting(request):
        services.stop_agents(scope, reason=form.cleaned_data["reason"])
    messages.warning(request, f"{scope or 'All agents'} stopped. Active runs were ended.")


def resume(request: HttpRequest, form: ReasonForm, scope: str = "") -> None:
    """Resume all agents, or one, in the name of the operator."""
    with acting(request):
        services.resume_agents(scope, reason=form.cleaned_data["reason"])
    messages.success(request, f"{scope or 'All agents'} resumed. Queued messages are processed.")


@admin.register(Control)
class ControlAdmin(ReadOnlyAdmin):
    list_display = ("what", "state", "why", "who", "when")
    list_display_links = None
    list_filter_submit = False
    actions_list: Any = ("stop_all", "resume_all")

    has_operate_permission = granted_by(STOP_AGENTS)

    @act(
        "Stop all agents",
        path="stop-all",
        icon="emergency_home",
        permissions=["operate"],
        variant=ActionVariant.DANGER,
        dialog=Dialog(
            "Stop all agents?",
            "No message is accepted, active runs end with their partial text, and tool calls are killed. "
            "Queued messages wait.",
            "Stop all agents",
            ReasonForm,
        ),
    )
    def stop_all(self, request: HttpRequest, form: ReasonForm) -> HttpResponse:
        stop(request, form)
        return back_to(request, PAGE)

    @act(
        "Resume all agents",
        path="resume-all",
        icon="play_circle",
        permissions=["operate"],
        dialog=Dialog(
            "Resume all agents?",
            "Messages are accepted again, and queued messages are processed. Agents that were stopped "
            "individually stay stopped.",
            "Resume",
            ReasonForm,
        ),
    )
    def resume_all(self, request: HttpRequest, form: ReasonForm) -> HttpResponse:
        resume(request, form)
        return back_to(request, PAGE)

    what = columns.text("Agent", "scope", empty="All agents")

    state = columns.column("State", lambda row: "stopped" if row.is_stopped else "running", label=TONES)
    why = columns.text("Reason", "reason", empty="–")
    who = columns.text("By", "changed_by")
    when = columns.time("Since", "changed_at")
