"""The page "History" of an agent: its versions, what changed between two of them, its draft, and rolling back."""

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from unfold.admin import ModelAdmin

from agents_app import services
from agents_app.admin.forms import AgentForm
from agents_app.configuration import agent_versions
from agents_app.configuration.agent_versions import DRAFT
from agents_app.configuration.required_rights import require_rights
from agents_app.models import Agent, AgentVersion
from audit_app import fresh_login
from audit_app.admin_base.base import render_page, reported

_MOST_SHOWN = 100


def draft_of(agent: Agent, form: AgentForm) -> dict[str, Any]:
    """Return the configuration that a submitted form describes. agent: with the values of the form, not saved."""
    configuration = agent_versions.configuration_of(agent)
    return {**configuration, "enabled_skill_ids": form.cleaned_data["enabled_skill_ids"]}


def draft_saved(agent: Agent) -> str:
    """Return the message about a stored draft, with links to a chat that uses it and to the page that publishes it."""
    link = '<a class="k-link" href="{}">{}</a>'
    chat = format_html(link, f"/chat/new?{urlencode({'agent': agent.agent_id, 'draft': 1})}", "Try it")
    history = format_html(link, reverse("admin:agents_app_agent_versions", args=[agent.pk]), "Publish it")
    return format_html("Draft saved. Users still get version {}. {} · {}", agent.version, chat, history)


def page(request: HttpRequest, model_admin: ModelAdmin, agent: Agent) -> HttpResponse:
    """Return the page, or carry out one of its buttons: roll back, publish or discard the draft."""
    if request.method == "POST":
        if not model_admin.has_change_permission(request, agent):
            raise PermissionDenied
        with reported(request):
            messages.success(request, _act(request, agent))
        return HttpResponseRedirect(request.path)
    versions, draft = agent_versions.list_versions(agent), agent_versions.find_draft(agent)
    rows = [draft, *versions] if draft else list(versions)
    return render_page(
        request,
        model_admin,
        "admin/agents_app/agent/history.html",
        title=f"History of {agent.name}",
        agent=agent,
        draft=draft,
        versions=versions[:_MOST_SHOWN],
        rows=rows,
        may_change=model_admin.has_change_permission(request, agent),
        **_comparison(request, rows),
    )


def _comparison(request: HttpRequest, rows: list[AgentVersion]) -> dict[str, Any]:
    """Return the two versions that the query names, by default the newest and the one before, and their difference."""
    by_number = {str(row.number): row for row in rows}
    after = by_number.get(request.GET.get("to", "")) or (rows[0] if rows else None)
    before = by_number.get(request.GET.get("from", "")) or (rows[1] if len(rows) > 1 else None)
    changes = agent_versions.compare(before.configuration, after.configuration) if before and after else ()
    return {"before": before, "after": after, "changes": changes}


def _act(request: HttpRequest, agent: Agent) -> str:
    """Carry out the button and return a message. Raises AppError."""
    action, number = request.POST.get("action", ""), request.POST.get("number", "")
    if action == "discard":
        agent_versions.discard_draft(agent)
        return "The draft is discarded."
    chosen = DRAFT if action == "publish" else int(number) if number.isdecimal() else -1
    version = agent_versions.get_version(agent, chosen)
    if require_rights(request.user, version.configuration, agent):
        fresh_login.require(request, fresh_login.GRANT_AUTONOMY)
    if action == "publish":
        services.publish_draft(agent, version, skills_of=request.user.pk)
        return f"The draft is published as version {agent.version}."
    services.roll_back(agent, version, skills_of=request.user.pk)
    return f"{agent.name} was restored from version {number} as version {agent.version}."
