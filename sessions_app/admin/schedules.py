"""Schedules in the admin: listed, created for oneself, paused, run now, deleted; with their next times and history."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from unfold.widgets import (
    UnfoldAdminSelectWidget,
    UnfoldAdminSplitDateTimeWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from agents_app.configuration import agent_access
from agents_app.network_runs import library
from audit_app.admin_base import columns, links
from audit_app.admin_base.base import OperatorFormAdmin, get_or_404, reported
from audit_app.admin_base.dialogs import back_to
from audit_app.admin_base.permissions import granted_by, never
from audit_app.admin_base.theme import Dialog, act
from audit_app.kernel.errors import AppError
from audit_app.kernel.safe_text import visible
from audit_app.kernel.shorten import shorten
from sessions_app.access import access_runnable_network
from sessions_app.models import Schedule
from sessions_app.rights import CHANGE_SCHEDULES
from sessions_app.schedules import plans, ticks
from sessions_app.schedules.plans import Plan
from sessions_app.schedules.times import Rhythm

PAGE = "admin:sessions_app_schedule_change"
_TIMES, _HISTORY = 5, 20
_OF_NETWORKS = ("network", "network_context")  # shown if there are any


class ScheduleForm(forms.ModelForm):  # type: ignore[type-arg]  # not subscriptable when run
    """The form of a new schedule, whose user is the operator."""

    at = forms.SplitDateTimeField(
        required=False,
        widget=UnfoldAdminSplitDateTimeWidget,
        label="Run once at",
        help_text="In UTC. Instead of a cron expression.",
    )

    network = forms.ChoiceField(
        required=False,
        widget=UnfoldAdminSelectWidget,
        help_text="Network that the prompt starts. Empty: the agent answers it.",
    )

    class Meta:
        model = Schedule
        fields = ("task_id", "agent", "prompt", "network", "network_context", "cron", "at", "time_zone", "missed")
        labels = {"task_id": "Name", "missed": "If Komand was off at that time"}
        help_texts = {"task_id": "Letters, digits, - and _. The id in the API.", "missed": ""}
        widgets = {
            "task_id": UnfoldAdminTextInputWidget,
            "agent": UnfoldAdminSelectWidget,
            "prompt": UnfoldAdminTextareaWidget,
            "network_context": UnfoldAdminTextareaWidget(attrs={"rows": 3, "class": "k-mono"}),
            "cron": UnfoldAdminTextInputWidget,
        }

    operator: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "agent" in self.fields:  # not on the page of a schedule, which is not edited
            usable = agent_access.usable_agents(self.operator)
            self.fields["agent"].queryset = usable.order_by("agent_id")  # type: ignore[attr-defined]
        if "network" in self.fields:
            names = library.visible_networks(self.operator).values_list("name", "name")
            self.fields["network"].choices = [("", "none"), *names]  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if not self.errors:
            try:
                given = {
                    name: cleaned[name] for name in self.Meta.fields if name in Plan.__annotations__ and name in cleaned
                }
                cleaned["plan"] = plan = Plan(**{**given, "network_context": given.get("network_context") or {}})
                plan.next_at(timezone.now())
                if plan.network:
                    access_runnable_network(self.operator, plan.network)
            except AppError as error:
                raise forms.ValidationError(error.message) from None
        return cleaned


@admin.register(Schedule)
class ScheduleAdmin(OperatorFormAdmin):
    empty_text = "Schedules send a message to an agent at set times."
    form = ScheduleForm
    list_display = ("name", "what", "rhythm", "next_time", "state", "agent_name", "person")
    list_display_links = ("name",)
    list_select_related = ("agent", "owner", "session")
    search_fields = ("task_id", "prompt", "=owner__username")
    actions_detail: Any = ("run_now", "pause", "resume")
    _SHOWN = (
        "prompt",
        "network",
        "network_context",
        "rhythm",
        "upcoming",
        "state",
        "missed",
        "agent_name",
        "person",
        "where",
        "history",
        "created_at",
    )

    has_change_permission = never
    has_control_permission = granted_by(CHANGE_SCHEDULES)

    def get_fields(self, request: HttpRequest, obj: Schedule | None = None) -> Any:
        if obj:
            return self._SHOWN
        has_networks = library.visible_networks(request.user).exists()
        return [field for field in ScheduleForm.Meta.fields if has_networks or field not in _OF_NETWORKS]

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        data, operator = form.cleaned_data, form.operator
        actor = f"user:{operator.pk}"
        made = plans.create(data["task_id"], data["plan"], agent=data["agent"], owner=operator, actor=actor)
        obj.pk = made.pk

    def delete_model(self, request: HttpRequest, obj: Schedule) -> None:
        plans.delete(obj, actor=f"user:{request.user.pk}")

    @act(
        "Run now",
        path="run-now",
        icon="play_arrow",
        permissions=["control"],
        dialog=Dialog("Run this now?", "Its message is sent at once. Its times stay as they are.", "Run it now"),
    )
    def run_now(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        schedule = get_or_404(self, request, object_id)
        with reported(request):
            run_id = ticks.run_now(schedule, actor=f"user:{request.user.pk}")
            messages.success(request, format_html("Started: {}", links.link("run", run_id, "its run")))
        return back_to(request, PAGE, object_id)

    @act(
        "Pause",
        path="pause",
        icon="pause",
        permissions=["control"],
        dialog=Dialog("Pause this schedule?", "Nothing is sent until it is resumed.", "Pause it"),
    )
    def pause(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        return self._set_paused(request, object_id, is_paused=True)

    @act(
        "Resume",
        path="resume",
        icon="resume",
        permissions=["control"],
        dialog=Dialog("Resume this schedule?", "It continues at its next time.", "Resume it"),
    )
    def resume(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        return self._set_paused(request, object_id, is_paused=False)

    def _set_paused(self, request: HttpRequest, object_id: str, *, is_paused: bool) -> HttpResponse:
        schedule = get_or_404(self, request, object_id)
        with reported(request):
            plans.pause(schedule, is_paused=is_paused, actor=f"user:{request.user.pk}")
        return back_to(request, PAGE, object_id)

    name = columns.text("Name", "task_id")
    what = columns.column("Prompt", lambda row: visible(shorten(row.prompt, 80)))
    rhythm = columns.column("When", lambda row: _rhythm(row))
    next_time = columns.column("Next", lambda row: _start(row.next_at) if row.next_at and not row.is_paused else "–")
    state = columns.column(
        "State", lambda row: _state(row), label={"active": "success", "paused": "warning", "over": "info"}
    )
    agent_name = columns.column("Agent", lambda row: links.link("agent", row.agent_id, row.agent.name))
    person = columns.column("For", lambda row: visible(row.owner.get_username() if row.owner else "sender of the chat"))
    where = columns.column(
        "Session", lambda row: links.link("session", row.session_id, row.session.key) if row.session else "of its own"
    )
    upcoming = columns.column("Next times", lambda row: _upcoming(row))
    history = columns.column("History", lambda row: _history(row))


def _rhythm(schedule: Schedule) -> str:
    if not schedule.cron:
        return "once"
    return f"{Rhythm(schedule.cron, schedule.time_zone).explained()} ({schedule.cron}, {schedule.time_zone})"


def _state(schedule: Schedule) -> str:
    if schedule.next_at is None:
        return "over"
    return "paused" if schedule.is_paused else "active"


def _upcoming(schedule: Schedule) -> Any:
    times = plans.upcoming(schedule, _TIMES)
    return format_html_join("", "{}<br>", ((_start(moment),) for moment in times)) or "–"


def _history(schedule: Schedule) -> Any:
    rows = schedule.ticks.all()[:_HISTORY]
    if not rows:
        return "It has not run yet."
    shown = (
        (_time(tick.due_at), tick.status, links.link("run", tick.run_id, "run") if tick.run_id else visible(tick.error))
        for tick in rows
    )
    return format_html_join("", "{} {} {}<br>", shown)


def _start(moment: Any) -> str:
    """Return the time of a start, with the second in its minute that the schedule always has."""
    return f"{timezone.localtime(moment):%Y-%m-%d %H:%M:%S}"


def _time(moment: Any) -> str:
    return f"{timezone.localtime(moment):%Y-%m-%d %H:%M}"
