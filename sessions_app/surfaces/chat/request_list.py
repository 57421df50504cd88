"""The page with all requests that wait for the user: approvals and questions of every chat."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import User
from django.http import HttpResponse
from django.shortcuts import render

from agents_app.types.child_runs import title_of
from sessions_app import selectors
from sessions_app.approvals import permissions
from sessions_app.conversation.open_requests import list_paths
from sessions_app.identity import scopes
from sessions_app.identity.actor_names import display_name
from sessions_app.models import Session
from sessions_app.surfaces.base.pages import PageRequest, page
from sessions_app.surfaces.chat import queries, sidebar
from sessions_app.surfaces.chat.approval_cards import ApprovalCard
from sessions_app.surfaces.chat.tool_cards import InputRequest
from tools_app import selectors as tools
from tools_app.types import ApprovalStatus, ApprovalView
from tools_app.types.questions import ASKING_TOOLS

MOST_SHOWN = 50  # of each kind


@dataclass(frozen=True)
class WaitingRequest:
    """A request for approval or a question.

    session_id, title: of its chat; None and a general one if another user owns it.
    asker: the workstream that asks, with those above it; empty for the answer itself.
    call_id: of the call that it is about.
    """

    session_id: UUID | None
    title: str
    asker: str
    asked_at: datetime
    call_id: UUID
    approval: ApprovalCard | None = None
    question: InputRequest | None = None


@page("GET")
def waiting(request: PageRequest) -> HttpResponse:
    """Show what waits for the user; for htmx the list alone."""
    shown = {"requests": read_waiting(request.user)}
    if request.htmx:
        return render(request, "chat/_waiting.html", shown)
    days = sidebar.read_days(request)
    more = {"days": days, "asking": sidebar.count_asking(days), "user_name": display_name(request.user)}
    return render(request, "chat/waiting.html", {**shown, **more, "title": "Waiting for you"})


def read_waiting(user: User) -> list[WaitingRequest]:
    """Return the requests that the user can decide or answer, oldest first. The number of queries is fixed."""
    approvals = _pending_approvals(user)
    asked = tools.pending_questions().filter(session_id__in=selectors.session_ids_of(user)).select_related("execution")
    rows = list(asked.order_by("created_at")[:MOST_SHOWN])
    sessions = selectors.sessions_by_id({each.session_id for each in approvals} | {row.session_id for row in rows})
    paths = list_paths({each.run_id for each in approvals} | {row.run_id for row in rows})
    found = list(_decidable(user, approvals, sessions, paths))
    for row in rows:
        if session := sessions.get(row.session_id):
            is_of_call = row.execution.tool not in ASKING_TOOLS
            question = InputRequest(row.execution_id, tools.questions_of(row), is_of_call=is_of_call)
            names = (session.pk, sidebar.title_of(session), title_of(paths.get(row.run_id, ())))
            found.append(WaitingRequest(*names, row.created_at, row.execution_id, question=question))
    return sorted(found, key=lambda each: each.asked_at)


def _pending_approvals(user: User) -> tuple[ApprovalView, ...]:
    """Return the pending requests of the user's sessions, and those that use the user's credentials."""
    is_limited = scopes.agents_of(user) is not None
    return tools.list_approvals(
        status=ApprovalStatus.PENDING,
        session_ids=selectors.session_ids_of(user),
        credential_owner="" if is_limited else permissions.credential_owner_of(user),
        limit=MOST_SHOWN,
    )


def _decidable(
    user: User, approvals: Iterable[ApprovalView], sessions: dict[UUID, Session], paths: dict[UUID, tuple[str, ...]]
) -> Iterable[WaitingRequest]:
    """Yield the requests for approval that the user may decide."""
    for each in approvals:
        session = sessions.get(each.session_id)
        owner_id = permissions.deciding_user_id(each, session.owner_id if session else None)
        allowed = permissions.allowed_decisions(user, owner_id)
        if session and allowed:
            card = queries.pending_card(each, allowed)
            is_own = session.owner_id == user.pk
            title = sidebar.title_of(session) if is_own else "Chat of another user"
            asker = title_of(paths.get(each.run_id, ()))
            chat_id = session.pk if is_own else None
            yield WaitingRequest(chat_id, title, asker, each.created_at, each.execution_id, card)
