"""The pages "What the model sees", of an agent and of a step of a run: the request in parts with their tokens."""

from dataclasses import dataclass

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminTextInputWidget

from agents_app.models import Agent, Run
from agents_app.runs.request_view import PartKind, RequestPart, RequestView, view_first_request, view_request
from audit_app.admin_base.base import render_page
from audit_app.admin_base.dialogs import back_to
from audit_app.kernel.errors import InvalidInput, NotFound

_TEXT = "hello"
_MAX_CHARACTERS = 2000
_TITLES = {
    PartKind.SYSTEM: "System message",
    PartKind.TOOL: "Tools",
    PartKind.HISTORY: "History",
    PartKind.MEMORY: "Recalled from memory",
    PartKind.MESSAGE: "Newest message",
    PartKind.STEP: "Steps of this run so far",
}


@dataclass(frozen=True)
class Group:
    """The parts of one kind. share: percent of the whole request."""

    title: str
    parts: tuple[RequestPart, ...]
    tokens: int
    share: int


def page_of_agent(request: HttpRequest, model_admin: ModelAdmin, agent: Agent) -> HttpResponse:
    """Return the page with the first request of a new session."""
    text = request.GET.get("text", _TEXT)[:_MAX_CHARACTERS]
    box = UnfoldAdminTextInputWidget().render("text", text, {"id": "prompt-text", "maxlength": _MAX_CHARACTERS})
    try:
        view = view_first_request(agent, text)
    except InvalidInput as error:  # of its template
        messages.error(request, error.message)
        return back_to(request, "admin:agents_app_agent_change", str(agent.pk))
    return _page(request, model_admin, view, title=f"What the model of {agent.name} sees", agent=agent, box=box)


def page_of_run(request: HttpRequest, model_admin: ModelAdmin, run: Run) -> HttpResponse:
    """Return the page with the request of the step that the query names. Raises Http404 if there is none."""
    wanted = request.GET.get("step", "")
    try:
        view = view_request(run.pk, int(wanted) if wanted.isdecimal() and len(wanted) < 7 else None)
    except (NotFound, InvalidInput) as error:
        raise Http404(error.message) from None
    title = f"What the model saw at step {view.step + 1}"
    return _page(request, model_admin, view, title=title, agent=run.agent, run=run)


def _page(
    request: HttpRequest, model_admin: ModelAdmin, view: RequestView, *, title: str, **shown: object
) -> HttpResponse:
    view = view.seen_by(request.user)
    shown |= {"view": view, "groups": _groups(view), "percent": _share(view.total_tokens, view.limit_tokens)}
    return render_page(request, model_admin, "admin/agents_app/agent/prompt.html", title=title, **shown)


def _groups(view: RequestView) -> list[Group]:
    groups = []
    for kind, title in _TITLES.items():
        parts = tuple(part for part in view.parts if part.kind is kind)
        size = view.tokens_of(kind)
        if parts:
            groups.append(Group(title, parts, size, _share(size, view.total_tokens)))
    return groups


def _share(part: int, whole: int) -> int:
    return round(100 * part / whole) if whole else 0
