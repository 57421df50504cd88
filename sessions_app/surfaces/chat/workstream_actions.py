"""Commands of the page to workstreams: to one in its card, or to several at once."""

from uuid import UUID

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render

from agents_app import services as runs
from agents_app.services import PersonRequest
from agents_app.types.child_runs import MOST_OPEN_CHILDREN
from audit_app.kernel.errors import InvalidInput
from sessions_app import services
from sessions_app.access import access_run, access_session
from sessions_app.identity import rate_limits
from sessions_app.surfaces.base.pages import PageRequest, page
from sessions_app.surfaces.base.workstream_requests import COMMANDS, STOP, ask_each
from sessions_app.surfaces.chat.workstream_cards import PersonPart

_DONE = {runs.MESSAGE: "Sent to", runs.PAUSE: "Paused", runs.RESUME: "Resumed", STOP: "Stopped"}


@page("POST")
def write(request: PageRequest, run_id: UUID) -> HttpResponse:
    """Send a message to a workstream, and return it for its card."""
    session = access_session(request.user, access_run(request.user, run_id).conversation_id)
    rate_limits.take(rate_limits.chat_limit(), f"user:{request.user.pk}")
    text = request.POST.get("text", "").strip()
    services.ask_workstream(session, run_id, text, actor=f"user:{request.user.pk}")
    if not request.htmx:
        return HttpResponseRedirect(f"/chat/{session.id}")
    return render(request, "chat/_person_message.html", {"part": PersonPart(text)})


@page("POST")
def pause(request: PageRequest, run_id: UUID) -> HttpResponse:
    """Pause a workstream, or resume it if `paused` is empty."""
    session = access_session(request.user, access_run(request.user, run_id).conversation_id)
    command = runs.PAUSE if request.POST.get("paused") else runs.RESUME
    services.ask_workstream(session, run_id, command=command, actor=f"user:{request.user.pk}")
    return HttpResponse(status=204) if request.htmx else HttpResponseRedirect(f"/chat/{session.id}")


@page("POST")
def ask(request: PageRequest) -> HttpResponse:
    """Send a message or a command to the workstreams of `runs`. Return who was reached, and why others were not."""
    command, text = request.POST.get("command", runs.MESSAGE), request.POST.get("text", "").strip()
    if command not in COMMANDS:
        raise InvalidInput(f"`command` must be one of: {', '.join(COMMANDS)}. Reload the page.")
    if not text and command not in (runs.PAUSE, runs.RESUME, STOP):
        raise InvalidInput("Write a text first.", code="text_required")
    asked = ask_each(request.user, _ids(request), PersonRequest(text, f"user:{request.user.pk}", command))
    shown = {
        "label": _DONE.get(command, "Steered"),
        "count": len(asked),
        "reached": [each for each in asked if each.error is None],
        "refused": [each for each in asked if each.error is not None],
        "part": PersonPart(text if command == runs.MESSAGE else ""),
    }
    return render(request, "chat/_asked.html", shown)


def _ids(request: PageRequest) -> list[UUID]:
    try:
        found = [UUID(name) for name in request.POST.get("runs", "").split(",")]
    except ValueError:
        raise InvalidInput("`runs` must be ids of workstreams. Reload the page.") from None
    if len(found) > MOST_OPEN_CHILDREN:
        raise InvalidInput(f"At most {MOST_OPEN_CHILDREN} workstreams can be asked at once.")
    return found
