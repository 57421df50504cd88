"""Commands of the page: every change is a POST, answered with a fragment for htmx, otherwise with a redirect."""

from uuid import UUID

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils import timezone
from django_htmx.http import HttpResponseClientRedirect

from audit_app import fresh_login
from audit_app.kernel.errors import InvalidInput, NotFound
from audit_app.kernel.ids import new_id
from sessions_app import feedback, services
from sessions_app.access import access_agent, access_approval, access_execution, access_run, access_session
from sessions_app.approvals import decisions
from sessions_app.identity import rate_limits
from sessions_app.identity.actor_names import display_name
from sessions_app.models import Session
from sessions_app.surfaces.base.pages import PageRequest, page
from sessions_app.surfaces.chat import queries
from sessions_app.surfaces.chat.fragments import approval_html, rating_html
from sessions_app.surfaces.chat.sidebar import entry_of
from tools_app import selectors as tools
from tools_app.types import ApprovalStatus, Decision
from tools_app.types.questions import DECLINE, NO_ANSWER, answer_line, questions_of

_BUSY = ("", "queue", "steer", "interrupt")


@page("POST")
def start(request: PageRequest) -> HttpResponse:
    """Store the first message of a new chat, and redirect to its session."""
    rate_limits.take(rate_limits.chat_limit(), f"user:{request.user.pk}")
    key, sender = _message_key(request), (str(request.user.pk), display_name(request.user))
    # The key is also the thread id, so that a message sent twice creates one session.
    text, agent_id = request.POST.get("text", ""), request.POST.get("agent", "default")
    inbound = services.NewMessage(
        services.WEB_CHAT, "default", *sender, text, message_id=key, thread_id=key, attachments=_files(request)
    )
    session = None
    if request.POST.get("draft"):
        session = services.open_draft_session(owner=request.user, agent_id=agent_id, thread_id=key)
    accepted = services.receive(inbound, owner=request.user, session=session, agent_id=agent_id, idempotency_key=key)
    return _go(request, f"/chat/{accepted.session_id}")


@page("POST")
def send(request: PageRequest, session_id: UUID) -> HttpResponse:
    """Store a message and return its turn; later updates come over the WebSocket.

    busy: what to do if a run of the session is open, as in `ReceiveOptions`.
    """
    session = access_session(request.user, session_id)
    rate_limits.take(rate_limits.chat_limit(), f"user:{request.user.pk}")
    key = _message_key(request)
    text, files = request.POST.get("text", ""), _files(request)
    inbound = services.NewMessage.into(session, text, message_id=key, attachments=files)
    options = services.ReceiveOptions(busy=_busy(request, session))
    accepted = services.receive(inbound, owner=request.user, session=session, idempotency_key=key, options=options)
    return _turn_view(request, session, accepted.run_id)


@page("POST")
def stop(request: PageRequest, session_id: UUID) -> HttpResponse:
    """Stop one run, or all runs of the session if none is named. Runs that have ended stay as they are."""
    session = access_session(request.user, session_id)
    services.cancel_session_runs(session, reason="Stopped.", run_id=_uuid(request, "run"))
    return _done(request, session)


@page("POST")
def stop_run(request: PageRequest, run_id: UUID) -> HttpResponse:
    """Stop this run, as to withdraw a queued message."""
    session = access_session(request.user, access_run(request.user, run_id).conversation_id)
    services.cancel_session_runs(session, reason="Stopped.", run_id=run_id)
    return _done(request, session)


@page("POST")
def retry_run(request: PageRequest, run_id: UUID) -> HttpResponse:
    """Retry a failed or stopped run as a new turn."""
    session = access_session(request.user, access_run(request.user, run_id).conversation_id)
    rate_limits.take(rate_limits.chat_limit(), f"user:{request.user.pk}")
    again = services.retry_run(session, run_id, actor=f"user:{request.user.pk}")
    return _turn_view(request, session, again)


@page("POST")
def regenerate(request: PageRequest, run_id: UUID) -> HttpResponse:
    """Answer the message of a run again, in a branch of its own."""
    session = access_session(request.user, access_run(request.user, run_id).conversation_id)
    rate_limits.take(rate_limits.chat_limit(), f"user:{request.user.pk}")
    key = _message_key(request)
    services.regenerate_answer(session, run_id, owner=request.user, message_id=key, idempotency_key=key)
    return _done(request, session)


@page("POST")
def edit(request: PageRequest, run_id: UUID) -> HttpResponse:
    """Replace the message of a run, in a branch of its own."""
    session = access_session(request.user, access_run(request.user, run_id).conversation_id)
    rate_limits.take(rate_limits.chat_limit(), f"user:{request.user.pk}")
    key, text = _message_key(request), request.POST.get("text", "")
    services.edit_message(session, run_id, text, owner=request.user, message_id=key, idempotency_key=key)
    return _done(request, session)


@page("POST")
def select_branch(request: PageRequest, run_id: UUID) -> HttpResponse:
    """Show another version of the message of a run, and what follows it."""
    session = access_session(request.user, access_run(request.user, run_id).conversation_id)
    try:
        number = int(request.POST["branch"])
    except (KeyError, ValueError):
        raise InvalidInput("`branch` must be the number of a branch. Reload the page.") from None
    services.select_branch(session, number)
    return _done(request, session)


@page("POST")
def rate(request: PageRequest, run_id: UUID) -> HttpResponse:
    """Rate an answer, or take the rating back if `rating` is empty. Return the buttons."""
    session = access_session(request.user, access_run(request.user, run_id).conversation_id)
    rating, comment = request.POST.get("rating", ""), request.POST.get("comment")
    stored = feedback.rate_answer(request.user, run_id, rating=rating, comment=comment)
    if not request.htmx:
        return HttpResponseRedirect(f"/chat/{session.id}")
    return HttpResponse(rating_html(run_id, stored, asks=stored is not None and comment is None))


@page("POST")
def decide(request: PageRequest, approval_id: UUID) -> HttpResponse:
    """Decide a request for approval, and return its card."""
    given = {name: request.POST.get(name, "") for name in ("decision", "note")}
    approval = access_approval(request.user, approval_id, decision=given["decision"] or "unknown")
    has_fresh_login = fresh_login.is_fresh(fresh_login.time_of_session(request.session))
    actor = f"user:{request.user.pk}"
    decided = decisions.decide(approval.id, actor=actor, has_fresh_login=has_fresh_login, **given)
    if not request.htmx:
        return HttpResponseRedirect(f"/chat/{decided.session_id}")
    # After the first of two people the request is still pending: this one can only take it back.
    choices = (Decision.DENY,) if decided.status is ApprovalStatus.PENDING else decided.choices
    return HttpResponse(approval_html(queries.read_approval(decided.id, allowed_decisions=choices)))


@page("POST")
def answer(request: PageRequest, execution_id: UUID) -> HttpResponse:
    """Answer a question of an agent with the fields of its form."""
    execution = access_execution(request.user, execution_id)
    session = access_session(request.user, execution.session_id)
    rate_limits.take(rate_limits.chat_limit(), f"user:{request.user.pk}")
    request_id = tools.find_question_ids([str(execution_id)]).get(str(execution_id))
    if request_id is None:
        raise NotFound("There is no such question.")
    asked = tools.find_question(session.id, UUID(request_id))
    lines = [
        answer_line(question, request.POST.getlist(f"choice-{number}"), request.POST.get(f"text-{number}", ""))
        for number, question in enumerate(asked.questions if asked else questions_of(execution.arguments))
    ]
    if "decline" in request.POST:
        lines = [DECLINE]
    elif {*lines} == {NO_ANSWER}:
        raise InvalidInput("Choose an answer, or write one.", code="text_required")
    text, options = "\n".join(lines), services.ReceiveOptions(answers=UUID(request_id))
    services.receive(services.NewMessage.into(session, text), owner=request.user, session=session, options=options)
    return _done(request, session)


@page("GET", "POST")
def title(request: PageRequest, session_id: UUID) -> HttpResponse:
    """Return the form to rename a session, in place of its entry in the list; rename it, and return the entry."""
    session = access_session(request.user, session_id)
    if request.method == "GET" and "cancel" not in request.GET:
        return render(request, "chat/_rename.html", {"session": session})
    if request.method == "POST":
        services.rename_session(session, request.POST.get("title", ""))
        session.refresh_from_db(fields=["title"])
    if not request.htmx:
        return HttpResponseRedirect(f"/chat/{session.id}")
    current = session.id if f"/chat/{session.id}" == request.htmx.current_url_abs_path else None
    entry = entry_of(session, timezone.now(), is_running=False, current=current)
    return render(request, "chat/_renamed.html", {"entry": entry})


@page("POST")
def delete(request: PageRequest, session_id: UUID) -> HttpResponse:
    """Delete the session. If the page shows it, redirect."""
    session = access_session(request.user, session_id)
    services.delete_session(session)
    if request.htmx and request.htmx.current_url_abs_path != f"/chat/{session.id}":
        return HttpResponse("")
    return _go(request, "/")


@page("POST")
def compact(request: PageRequest, session_id: UUID) -> HttpResponse:
    """Have the agent summarise the earlier messages. A line in the chat shows the result."""
    session = access_session(request.user, session_id)
    rate_limits.take(rate_limits.chat_limit(), f"user:{request.user.pk}")
    services.compact_session(session, actor=f"user:{request.user.pk}")
    return _done(request, session)


@page("POST")
def pin(request: PageRequest, run_id: UUID) -> HttpResponse:
    """Pin or unpin the message or the answer of a run, and return the button."""
    session = access_session(request.user, access_run(request.user, run_id).conversation_id)
    part, is_pinned = request.POST.get("part", ""), bool(request.POST.get("pinned"))
    for turn_id in queries.list_turn_ids(session, run_id, of_answer=part == "answer"):
        services.pin_turn(session, turn_id, is_pinned=is_pinned, actor=f"user:{request.user.pk}")
    if not request.htmx:
        return HttpResponseRedirect(f"/chat/{session.id}")
    what = "answer" if part == "answer" else "message"
    return render(request, "chat/_pin.html", {"key": run_id, "part": part, "what": what, "pinned": is_pinned})


@page("POST")
def bind(request: PageRequest, session_id: UUID) -> HttpResponse:
    """Set the agent that answers from now on."""
    session = access_session(request.user, session_id)
    services.bind_session(session, access_agent(request.user, request.POST.get("agent", "")))
    return _done(request, session)


def _turn_view(request: PageRequest, session: Session, run_id: UUID) -> HttpResponse:
    if not request.htmx:
        return HttpResponseRedirect(f"/chat/{session.id}")
    response = render(request, "chat/_turn.html", {"turn": queries.find_new_turn_view(session, run_id)})
    response["X-New-Turn"] = str(run_id)  # the page places it by its ordinal, whichever element requested it
    return response


def _done(request: PageRequest, session: Session) -> HttpResponse:
    return HttpResponse(status=204) if request.htmx else HttpResponseRedirect(f"/chat/{session.id}")


def _go(request: PageRequest, target: str) -> HttpResponse:
    return HttpResponseClientRedirect(target) if request.htmx else HttpResponseRedirect(target)


def _message_key(request: PageRequest) -> str:
    """Return the idempotency key of the message from the browser, or a new one for a page without scripts."""
    return str(_uuid(request, "key") or new_id())


def _busy(request: PageRequest, session: Session) -> str:
    """Return the chosen policy, empty for that of the agent."""
    chosen = request.POST.get("busy", "")
    if chosen not in _BUSY:
        raise InvalidInput(f"`busy` must be one of: {', '.join(_BUSY[1:])}. Reload the page.")
    return session.agent.policy_for(chosen)


def _files(request: PageRequest) -> tuple[UUID, ...]:
    """Return the ids of the uploaded files of the message."""
    try:
        return tuple(UUID(name) for name in request.POST.get("files", "").split(",") if name)
    except ValueError:
        raise InvalidInput("`files` must be ids of uploaded files. Reload the page.") from None


def _uuid(request: PageRequest, field: str) -> UUID | None:
    given = request.POST.get(field, "")
    try:
        return UUID(given) if given else None
    except ValueError:
        raise InvalidInput(f"`{field}` is not a UUID. Reload the page.") from None
