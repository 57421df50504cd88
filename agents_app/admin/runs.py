"""Runs in the admin: read as a timeline, cancelled and retried, but not edited."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from unfold.contrib.filters.admin import MultipleChoicesDropdownFilter
from unfold.decorators import display
from unfold.enums import ActionVariant
from unfold.forms import BaseDialogForm
from unfold.widgets import UnfoldAdminTextInputWidget

from agents_app import selectors, services
from agents_app.admin import prompt_page, timeline
from agents_app.models import OPEN, Run
from agents_app.network_runs.progress import read_progress
from agents_app.networks.picture import to_svg
from agents_app.rights import OPERATE_RUNS, VIEW_AGENTS
from agents_app.runs import network_step
from agents_app.types import RunStatus
from audit_app import services as audit
from audit_app.admin_base import columns, links, names
from audit_app.admin_base.base import ReadOnlyAdmin, acting, get_or_404, reported
from audit_app.admin_base.dialogs import back_to
from audit_app.admin_base.filters import KeyDateFilter, RelatedFilter
from audit_app.admin_base.permissions import granted_by
from audit_app.admin_base.theme import Dialog, act, bulk_act, button
from audit_app.kernel.errors import AppError
from audit_app.kernel.safe_text import took
from audit_app.models import Event
from audit_app.rights import holds
from tools_app.models import InputRequest, ToolExecution

PAGE = "admin:agents_app_run_change"
DEFAULT_REASON = "Stopped by an operator."
RETRYABLE = (RunStatus.FAILED.value, RunStatus.TIMED_OUT.value, RunStatus.CANCELLED.value)
# A run has about ten stored events; one with many claims has more.
MOST_EVENTS = 300

links.register_page("run", PAGE)


class CancelForm(BaseDialogForm):
    """The reason of a cancellation, which is shown to the sender."""

    reason = forms.CharField(
        required=False, max_length=200, widget=UnfoldAdminTextInputWidget, help_text="Shown in the conversation."
    )


def cancel(run: Run, reason: str) -> bool:
    """Cancel a run. Return False if it had ended. The bound actor is audited."""
    is_cancelled = services.cancel_run(run.pk, reason=reason or DEFAULT_REASON)
    if is_cancelled:
        _record("RunCancelRequested", run, reason=reason or DEFAULT_REASON)
    return is_cancelled


def retry(run: Run, actor: str) -> UUID:
    """Retry a run and return the id of the new run. The bound actor is audited. Raises AppError."""
    new_id = services.retry_run(run.pk, actor=actor)
    _record("RunRetried", run, new_run_id=str(new_id))
    return new_id


def _record(action: str, run: Run, **details: str) -> None:
    audit.record(
        action,
        details={"run_id": str(run.pk), **details},
        agent_id=run.agent.agent_id,
        session_id=run.conversation_id,
        session_key=run.session_key,
    )


def _picture_of(run: Run) -> SafeString:
    """Return the picture of the network that the run executes, with the state of its tasks; empty for any other run."""
    if not network_step.executes(run):
        return mark_safe("")
    progress = read_progress(run.pk)
    return mark_safe(to_svg(progress.network, progress.results))  # noqa: S308 - drawn here, with texts escaped


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    empty_text = "Runs appear here when somebody writes to an agent."
    list_display = ("begun", "state", "session", "agent_link", "who", "length", "tokens", "problem")
    named = {"conversation_id": "session", "actor": "actor"}
    list_filter = (("status", MultipleChoicesDropdownFilter), ("agent", RelatedFilter), ("created_at", KeyDateFilter))
    # Not joined: the planner would start with the agents and sort all runs.
    prefetched = ("agent",)
    search_fields = ("=request_id", "session_key", "actor", "=error_code", "error_message")
    search_ids = ("id", "conversation_id")
    search_help_text = "Search people, chats, errors or an id"
    actions = ("cancel_selected", "retry_selected")
    actions_detail: Any = ("see_prompt", "cancel_this", "retry_this")
    change_form_template = "admin/agents_app/run/timeline.html"
    fields = ("status",)

    has_operate_permission = granted_by(OPERATE_RUNS)

    def has_prompt_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        """Require the rights to see the agent's configuration and the session's messages."""
        return holds(request.user, VIEW_AGENTS) and request.user.has_perm("sessions_app.view_session")

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        """Return the buttons that the status of the run allows."""
        run = self.get_object(request, object_id)
        status = run.status if run else ""
        allowed = {"agents_app_run_cancel_this": status in OPEN, "agents_app_run_retry_this": status in RETRYABLE}
        buttons = super().get_actions_detail(request, object_id)
        return [button for button in buttons if allowed.get(button.action_name, True)]

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        run: Run = kwargs["obj"]
        steps = list(run.steps.order_by("index"))
        calls = ToolExecution.objects.select_related("approval").filter(run_id=run.pk)
        executions = list(calls.order_by("step", "call_index"))
        events = list(Event.objects.filter(run_id=run.pk).order_by("seq")[:MOST_EVENTS])
        questions = InputRequest.objects.filter(run_id=run.pk).values_list("execution_id", flat=True)
        approvals = [row.approval for row in executions if hasattr(row, "approval")]
        names.load_names(approvals, {"decided_by": "actor"}, request.user)
        asked = {approval.execution_id for approval in approvals} | set(questions)
        story = timeline.build(run, steps, executions, events, asked=asked, now=timezone.now())
        context["team"] = selectors.get_cost(run.pk).with_workstreams if run.child_count else None
        context |= {"run": run, "story": story, "tone": timeline.RUN_TONES[run.status], "is_open": run.status in OPEN}
        context["network_picture"] = _picture_of(run)
        context["sees_prompt"] = self.has_prompt_permission(request)
        return super().render_change_form(request, context, *args, **kwargs)

    @button("What the model saw", path="prompt", icon="visibility", permissions=["prompt"])
    def see_prompt(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return prompt_page.page_of_run(request, self, get_or_404(self, request, object_id))

    @act(
        "Stop",
        path="cancel",
        icon="stop_circle",
        permissions=["operate"],
        variant=ActionVariant.DANGER,
        dialog=Dialog("Stop this run?", "Its text so far is kept and marked as partial.", "Stop the run", CancelForm),
    )
    def cancel_this(self, request: HttpRequest, form: CancelForm, object_id: str) -> HttpResponse:
        with acting(request):
            outcome = cancel(get_or_404(self, request, object_id), form.cleaned_data["reason"])
        if outcome:
            messages.success(request, "The run is being stopped.")
        else:
            messages.info(request, "The run had already ended.")
        return back_to(request, PAGE, object_id)

    @act(
        "Retry",
        path="retry",
        icon="replay",
        permissions=["operate"],
        dialog=Dialog("Retry this run?", "A new run answers the same message.", "Retry"),
    )
    def retry_this(self, request: HttpRequest, form: BaseDialogForm, object_id: str) -> HttpResponse:
        shown: object = object_id
        with reported(request):
            shown = retry(get_or_404(self, request, object_id), f"user:{request.user.pk}")
            messages.success(request, "This is the new run.")
        return back_to(request, PAGE, shown)

    @bulk_act("Stop", permissions=["operate"], question="Stop these runs?", submit="Stop them")
    def cancel_selected(self, request: HttpRequest, runs: QuerySet[Run]) -> None:
        self._each(request, runs, lambda run: "is being stopped" if cancel(run, "") else "had already ended")

    @bulk_act("Retry", permissions=["operate"], question="Retry these runs?", submit="Retry them")
    def retry_selected(self, request: HttpRequest, runs: QuerySet[Run]) -> None:
        actor = f"user:{request.user.pk}"
        self._each(request, runs, lambda run: format_html("is retried as {}", links.link("run", retry(run, actor))))

    def _each(self, request: HttpRequest, runs: QuerySet[Run], action: Callable[[Run], str]) -> None:
        """Apply the action to each run and show its outcome. An error does not stop the others."""
        with acting(request):
            for run in runs:
                name = links.link("run", run.pk)
                try:
                    messages.info(request, format_html("{} {}.", name, action(run)))
                except AppError as error:
                    messages.error(request, format_html("{}: {}", name, error.message))

    begun = columns.time("Started", "created_at")

    @display(description="Status", label=timeline.RUN_TONES)
    def state(self, run: Run) -> str | tuple[str, str]:
        return (run.status, f"waiting on {run.waiting_on}") if run.waiting_on else run.status

    agent_link = columns.column("Agent", lambda run: links.link("agent", run.agent.agent_id, run.agent.name))
    session = columns.named("Session", "session", "conversation_id", fallback="session_key")
    who = columns.named("Started by", "actor", "actor")
    length = columns.column("Duration", lambda run: took(run.started_at, run.ended_at))
    tokens = columns.column("Tokens in / out", lambda run: f"{run.input_tokens:,} / {run.output_tokens:,}")
    problem = columns.text("Error", "error_code", empty="–")
