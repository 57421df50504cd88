"""Notices for browsers of what waits for their users: approvals, questions, and answers that took long.

Found by a sweep, so that messages and calls of users without such a browser cost nothing. A notice names who asks and
the tool, never the arguments or the text: it is shown on locked screens.
"""

import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, F, OuterRef
from django.utils import timezone

from agents_app import selectors as agents
from agents_app.types.child_runs import title_of
from audit_app.kernel.ids import first_id_at, new_id
from audit_app.kernel.nudges import WorkerNudge
from audit_app.kernel.shorten import shorten
from sessions_app import hot_queries
from sessions_app.approvals import permissions
from sessions_app.conversation.workstreams import name_of_asker
from sessions_app.models import PushNotice, PushSubscription, Session, Turn
from sessions_app.push import browsers
from tools_app import selectors as tools
from tools_app.types import ApprovalView

WAITING_PAGE = "/chat/waiting"
_APPROVALS_PAGE = "/admin/tools_app/approval/"  # of operators, for the requests of others
_LONGEST_BODY = 200  # characters
LONG_ANSWER = timedelta(seconds=60)  # who waits longer than that has gone on to something else
_ANSWER_LIFE, _TEST_LIFE = timedelta(hours=12), timedelta(minutes=5)
_LOOK_BACK = timedelta(seconds=30)  # for answers, also of a sweep that was late
_AGAIN_SECONDS = 30.0  # after which a request is looked at again, for those whose quiet hours have ended
_AT_ONCE = 50

SWEPT = (hot_queries.FIND_PUSH_SUBSCRIPTION,)

nudge = WorkerNudge("sessions.send_notices", "runs")
_looked_at: dict[UUID, float] = {}  # approvals and questions, by the time of the last look


def sweep() -> None:
    """Do one pass, if SWEPT finds a row: write the notices of what waits, and nudge the sender. Idempotent.

    Owns its transactions.
    """
    if tools.has_pending_approvals():
        _add(_of_approvals())
    if tools.has_open_questions():
        _add(_of_questions())
    _add(_of_answers())
    if hot_queries.FIND_DUE_NOTICE.rows():
        nudge.send_now()


def send_test(user: User, subscription_id: UUID) -> None:
    """Send a notice that it works to a browser of the user. Raises NotFound."""
    row = browsers.find(user, subscription_id)
    payload = _payload("Notifications work", "What waits for you is shown like this.", WAITING_PAGE, row.id)
    subject_id, expires_at = new_id(), timezone.now() + _TEST_LIFE
    _add([PushNotice(subscription=row, subject_id=subject_id, kind="test", payload=payload, expires_at=expires_at)])
    nudge.send_now()


def _of_approvals() -> Iterable[PushNotice]:
    waiting = tools.pending_approvals().select_related("execution").order_by("-created_at")
    for approval in map(tools.approval_view, waiting[:_AT_ONCE]):
        session = _session_of(approval.session_id) if _is_new(approval.id) else None
        if session is None:
            continue
        asker = name_of_asker(approval) or session.agent.name
        for row in _deciders(approval, session):
            payload = _payload("Approval needed", f"{asker} asks to use {approval.tool}.", "", approval.id)
            is_own = row.user_id == session.owner_id
            payload["url"] = f"{WAITING_PAGE}#request-{approval.execution_id}" if is_own else _APPROVALS_PAGE
            yield _notice(row, "approval", approval.id, payload, approval.expires_at)


def _deciders(approval: ApprovalView, session: Session) -> list[PushSubscription]:
    """Return the browsers of the user who decides the request, of all others who may if that user may not."""
    rows = _listening(wants_approvals=True)
    decider_id = permissions.deciding_user_id(approval, session.owner_id)
    decider = User.objects.filter(pk=decider_id).first() if decider_id else None
    if decider and permissions.allowed_decisions(decider, decider_id):
        return [row for row in rows if row.user_id == decider_id]
    return [row for row in rows if permissions.allowed_decisions(row.user, decider_id)]


def _of_questions() -> Iterable[PushNotice]:
    for question in map(tools.input_view, tools.pending_questions().select_related("execution")[:_AT_ONCE]):
        session = _session_of(question.session_id) if _is_new(question.id) else None
        if session is None:
            continue
        asker = title_of(agents.get_run(question.run_id).path) or session.agent.name
        url = f"{WAITING_PAGE}#request-{question.execution_id}"
        payload = _payload("Question for you", f"{asker} asks you something.", url, question.id)
        for row in _listening(wants_questions=True, user_id=session.owner_id):
            yield _notice(row, "question", question.id, payload, question.expires_at)


def _of_answers() -> Iterable[PushNotice]:
    now, rows = timezone.now(), _listening(wants_answers=True)
    took_long = {"is_answer": True, "run__created_at__lte": F("run__ended_at") - LONG_ANSWER}
    new = Turn.objects.filter(pk__gt=first_id_at(now - _LOOK_BACK), session__deleted_at=None, **took_long)
    new = new.filter(session__owner_id__in={row.user_id for row in rows}).select_related("session__agent")
    known = PushNotice.objects.filter(subject_id=OuterRef("run_id"))
    for turn in new.exclude(Exists(known))[:_AT_ONCE] if rows else ():
        url = f"/chat/{turn.session_id}"
        payload = _payload("Answer ready", f"{turn.session.agent.name} has answered.", url, turn.session_id)
        for row in rows:
            if row.user_id == turn.session.owner_id and turn.run_id:
                yield _notice(row, "answer", turn.run_id, payload, now + _ANSWER_LIFE)


def _session_of(session_id: UUID) -> Session | None:
    return Session.objects.select_related("agent").filter(pk=session_id, deleted_at=None).first()


def _is_new(subject_id: UUID) -> bool:
    """Return whether this process has not looked at a request for a while."""
    now = time.monotonic()
    if now - _looked_at.get(subject_id, -_AGAIN_SECONDS) < _AGAIN_SECONDS:
        return False
    if len(_looked_at) > 10 * _AT_ONCE:
        _looked_at.clear()
    _looked_at[subject_id] = now
    return True


def _listening(**wanted: object) -> list[PushSubscription]:
    """Return the browsers of active users with these preferences whose quiet hours it is not."""
    rows = PushSubscription.objects.select_related("user").filter(user__is_active=True, **wanted)
    now = timezone.now()
    return [row for row in rows if not browsers.is_quiet(row, now)]


def _payload(title: str, body: str, url: str, tag: UUID) -> dict[str, str]:
    """Return what a browser shows. tag: a later notification with the same one replaces it."""
    return {"title": title, "body": shorten(body, _LONGEST_BODY), "url": url, "tag": tag.hex}


def _notice(
    row: PushSubscription, kind: str, subject_id: UUID, payload: dict[str, str], expires_at: datetime
) -> PushNotice:
    return PushNotice(subscription=row, subject_id=subject_id, kind=kind, payload=payload, expires_at=expires_at)


def _add(notices: Iterable[PushNotice]) -> None:
    """Write those notices that are new, to be sent now."""
    found: Sequence[PushNotice] = list(notices)
    if not found:
        return
    for notice in found:
        notice.due_at = timezone.now()
    with transaction.atomic():
        PushNotice.objects.bulk_create(found, ignore_conflicts=True)
