"""The views of the tour: its start, the panel beside its chat, and the buttons of the panel."""

from collections.abc import Callable
from functools import wraps
from urllib.parse import urlsplit

from django.contrib.auth.models import User
from django.db import IntegrityError
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django_htmx.http import HttpResponseClientRedirect

from agents_app import selectors as agents
from agents_app.providers.connection import may_connect
from agents_app.rights import OPERATE_RUNS
from audit_app.kernel.errors import Conflict, InvalidInput, NotFound, found
from audit_app.kernel.ids import new_id
from audit_app.rights import require
from sessions_app import services
from sessions_app.access import access_agent, access_session
from sessions_app.conversation.session_key import SessionKey
from sessions_app.identity import qr_code, rate_limits
from sessions_app.models import Session
from sessions_app.surfaces.base.addresses import origin_for
from sessions_app.surfaces.base.pages import PageRequest, page
from sessions_app.surfaces.tour import worker_kill
from sessions_app.surfaces.tour.progress import Progress, read_progress
from sessions_app.surfaces.tour.steps import CRASH, MODEL, PHONE, PROMPTS, STEPS

_THREAD = "komand-tour"  # a user has one tour at a time
_TITLE = "Tour"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@page("GET")
def tour(request: PageRequest) -> HttpResponse:
    """Redirect to the user's tour, or show the page that starts one."""
    session = _find(request.user)
    if session:
        return HttpResponseRedirect(f"/chat/{session.pk}")
    return render(request, "tour/start.html", {"may_connect": may_connect(request.user)})


@page("POST")
def start(request: PageRequest) -> HttpResponse:
    """Open the chat of the tour, unless there is one, and redirect to it."""
    try:
        session = _find(request.user) or services.open_session(
            owner=request.user, title=_TITLE, thread_id=_THREAD, metadata={"tour": True}
        )
    except IntegrityError:  # a second click has opened it
        session = found(_find(request.user))
    return HttpResponseRedirect(f"/chat/{session.pk}")


def _of_tour(view: Callable[[PageRequest, Session], HttpResponse]) -> Callable[[PageRequest], HttpResponse]:
    """Call the view with the chat of the user's tour. Without one, redirect to the page that starts it."""

    @wraps(view)
    def with_session(request: PageRequest) -> HttpResponse:
        session = _find(request.user)
        return view(request, session) if session else _go(request, "/tour")

    return with_session


@page("GET")
@_of_tour
def panel(request: PageRequest, session: Session) -> HttpResponse:
    """Return the panel, or 204 if it has the given state.

    step: the step to show, by default the first one that is not done.
    state: the state that the page has.
    """
    progress = read_progress(session, request.GET.get("step", ""))
    if request.GET.get("state") == progress.state:
        return HttpResponse(status=204)
    return _render(request, session, progress)


@page("POST")
@_of_tour
def send(request: PageRequest, session: Session) -> HttpResponse:
    """Send one of the prepared messages, `text`, into the chat of the tour. Return the panel."""
    prompt = PROMPTS.get(request.POST.get("text", ""))
    if prompt is None:
        raise InvalidInput("The tour has no such message. Reload the page.")
    if agents.list_open_runs(session.pk):
        raise Conflict("An answer is still being written. Wait for its end, or stop it.")
    rate_limits.take(rate_limits.chat_limit(), f"user:{request.user.pk}")
    session = services.bind_session(session, access_agent(request.user, prompt.agent_id))
    key = str(new_id())
    message = services.NewMessage.into(session, prompt.text, message_id=key)
    services.receive(message, owner=request.user, session=session, idempotency_key=key)
    step = next(step.name for step in STEPS if prompt in step.prompts)
    return _render(request, session, read_progress(session, step))


@page("POST")
def kill(request: PageRequest) -> HttpResponse:
    """Kill the process that writes the long answer. Return the panel."""
    require(request.user, OPERATE_RUNS)
    return _kill(request)


@_of_tour
def _kill(request: PageRequest, session: Session) -> HttpResponse:
    run = found(read_progress(session, CRASH).run, "There is no long answer yet.")
    worker_kill.kill_worker(request.user, session, run.pk)
    return _render(request, session, read_progress(session, CRASH))


@page("POST")
@_of_tour
def remove(request: PageRequest, session: Session) -> HttpResponse:
    """Delete the chat of the tour."""
    services.delete_session(session)
    return _go(request, "/")


def _go(request: PageRequest, target: str) -> HttpResponse:
    return HttpResponseClientRedirect(target) if request.htmx else HttpResponseRedirect(target)


def _find(user: User) -> Session | None:
    try:
        return access_session(user, str(SessionKey(services.WEB_CHAT, "default", str(user.pk), _THREAD)))
    except NotFound:
        return None


def _render(request: PageRequest, session: Session, progress: Progress) -> HttpResponse:
    at = STEPS.index(progress.shown)
    shown = {
        "session": session,
        "steps": STEPS,
        "progress": progress,
        "number": at + 1,
        "next": STEPS[at + 1] if at + 1 < len(STEPS) else None,
        "is_done": progress.shown.name in progress.done or not progress.shown.prompts,
        "is_last": progress.shown.name == MODEL,
        "may_connect": progress.shown.name == MODEL and may_connect(request.user),
        "may_kill": progress.shown.name == CRASH and worker_kill.may_kill(request.user),
    }
    if progress.shown.name == PHONE:
        shown |= _address(request, session)
    return render(request, "tour/_panel.html", shown)


def _address(request: PageRequest, session: Session) -> dict[str, object]:
    """Return the address of the chat, as a text and as a code for cameras."""
    address = f"{origin_for(request)}/chat/{session.pk}"
    code = qr_code.as_svg(address)
    return {"address": address, "code": code, "is_local": urlsplit(address).hostname in _LOOPBACK}
