"""The page "Test permissions": a dry run of a tool call."""

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from agents_app.models import Agent
from agents_app.runs.run_policy import policy_of_agent
from audit_app.admin_base.base import render_page
from tools_app import catalogue
from tools_app.executions.dry_run import dry_run

TONES = {"allow": "success", "ask": "warning", "deny": "danger", "unfit": "danger"}


class DryRunForm(forms.Form):
    """A tool call for the dry run."""

    tool = forms.ChoiceField(widget=UnfoldAdminSelectWidget)
    arguments = forms.CharField(
        required=False,
        initial="{}",
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 6, "spellcheck": "false"}),
        help_text="JSON, as the model would send it.",
    )
    actor = forms.CharField(
        max_length=200,
        widget=UnfoldAdminTextInputWidget,
        help_text="Actor of the run, such as user:1 or sender:Telegram:42.",
    )

    def __init__(self, *args: Any, agent: Agent, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = sorted(tool.spec.name for tool in catalogue.list_tools(agent.agent_id))
        self.fields["tool"].choices = [(name, name) for name in names]  # type: ignore[attr-defined]


def page(request: HttpRequest, model_admin: ModelAdmin, agent: Agent) -> HttpResponse:
    """Return the page with the form and, if it was submitted, the verdict."""
    posted = request.POST if request.method == "POST" else None
    form = DryRunForm(posted, agent=agent, initial={"actor": f"user:{request.user.pk}"})
    verdict = None
    if form.is_valid():
        call = form.cleaned_data
        verdict = dry_run(call["tool"], call["arguments"], policy=policy_of_agent(agent), actor=call["actor"])
    return render_page(
        request,
        model_admin,
        "admin/agents_app/agent/dry_run.html",
        title=f"Test permissions of {agent.name}",
        agent=agent,
        form=form,
        verdict=verdict,
        tone=TONES[verdict.verdict] if verdict else "",
    )
