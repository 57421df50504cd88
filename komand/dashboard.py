"""The admin's login, start page, and search for any object by its id."""

from typing import Any
from uuid import UUID

from django.contrib import admin
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from unfold.dataclasses import SearchResult

from agents_app.admin import approvals, costs, overview
from agents_app.admin.runs import RunAdmin
from agents_app.admin.timeline import RUN_TONES
from agents_app.models import Run
from agents_app.rights import VIEW_COSTS
from audit_app.admin_base import links, names
from audit_app.kernel import liveness
from audit_app.models import AuditEntry
from audit_app.rights import holds
from sessions_app.models import Session
from tools_app.admin import executions as tools
from tools_app.models import Approval, ToolExecution
from tools_app.policy import emergency_stop

_LATEST = 8
_FOUND_BY_ID = (
    ("run", Run, "agents_app.view_run"),
    ("session", Session, "sessions_app.view_session"),
    ("execution", ToolExecution, "tools_app.view_toolexecution"),
    ("approval", Approval, "tools_app.view_approval"),
    ("audit entry", AuditEntry, "audit_app.view_auditentry"),
)


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Return the context of the start page. Figures and runs are shown only to users who may view runs."""
    if not request.user.has_perm("agents_app.view_run"):
        return context
    now = timezone.now()
    failures, latest = overview.latest_failures(now, _LATEST), overview.latest_runs(_LATEST)
    names.load_names((*failures, *latest), RunAdmin.named, request.user)
    return {
        **context,
        "title": "Dashboard",
        "stopped": emergency_stop.list_stopped(),
        "overview": overview.read(now),
        "costs": costs.tile() if holds(request.user, VIEW_COSTS) else None,
        "open_executions": tools.count_open(),
        "pending_approvals": approvals.count_pending(),
        "processes": sorted(liveness.list_processes(), key=lambda process: (process.name, process.pid)),
        "failures": _with_tones(failures),
        "latest": _with_tones(latest),
        "now": now,
    }


def login(request: HttpRequest) -> HttpResponse:
    """Redirect to the login of the chat page. A user who is logged in and lacks staff rights gets a page about that,
    because logging in again would lead back here."""
    if request.user.is_authenticated:
        return TemplateResponse(request, "admin/komand/staff_only.html", admin.site.each_context(request), status=403)
    return redirect_to_login(request.GET.get("next") or reverse("admin:index"))


def find_by_id(request: HttpRequest, term: str) -> list[SearchResult]:
    """Return the object whose id was pasted into the command palette, if the operator may view it."""
    try:
        key = UUID(term.strip())
    except ValueError:
        return []
    found = []
    for noun, model, permission in _FOUND_BY_ID:
        url = links.find_url(noun, key)
        if url and request.user.has_perm(permission) and model._default_manager.filter(pk=key).exists():
            found.append(SearchResult(title=str(key), description=noun, link=url, icon="tag"))
    return found


def _with_tones(runs: tuple[Run, ...]) -> list[tuple[Run, str]]:
    return [(run, RUN_TONES[run.status]) for run in runs]
