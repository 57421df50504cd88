"""Requests for approval in chats: asked where the message came from, and closed with the outcome.

The rows are the truth: the sweep asks what was not asked yet and closes whatever was decided elsewhere.
"""

from collections.abc import Iterable
from uuid import UUID

from django.db import DatabaseError, InterfaceError, transaction
from django.db.models import QuerySet

from audit_app.kernel.errors import NotFound
from sessions_app import accounts, asking
from sessions_app.channels.messages import Capabilities, Target
from sessions_app.delivery import planning, transitions
from sessions_app.delivery.planning import Destination
from sessions_app.entitlement import may_be_said_in
from sessions_app.models import Delivery, Session
from sessions_app.names import name_of
from tools_app import selectors as tools
from tools_app.executions import previewing
from tools_app.types import ApprovalStatus, ApprovalView

# What a prompt needs beside the arguments, and the most of those that it shows.
_FRAME, _MOST_ROOM, _LEAST_ROOM = 900, 2500, 200


def sweep() -> None:
    """One pass: ask what waits for a decision, close what does not wait any more."""
    waiting = tools.list_pending_approvals()
    asked = {shown for shown in _open_prompts().values_list("approval_id", flat=True) if shown}
    sessions = _sessions_of(approval for approval in waiting if approval.id not in asked)
    for approval in waiting:
        if approval.id not in asked and (session := sessions.get(approval.session_id)):
            _ask(approval, session)
    for approval_id in asked - {approval.id for approval in waiting}:
        try:
            close(tools.get_approval(approval_id))
        except NotFound:  # its record has served its time
            Delivery.objects.filter(approval_id=approval_id).update(approval_id=None)


def close(approval: ApprovalView) -> None:
    """Put the outcome in place of the prompt, wherever it was shown. One that is being sent just now is left to the
    sweep. Doing it twice does no harm."""
    if approval.status is ApprovalStatus.PENDING:
        return
    rows = _open_prompts().filter(approval_id=approval.id).exclude(status="sending")
    for row in rows.select_related("account", "session"):
        with transaction.atomic():
            still = Delivery.objects.filter(pk=row.pk, approval_id=approval.id, status=row.status)
            if not still.update(approval_id=None):
                continue
            if row.status == "sent":
                name = name_of(approval.decided_by, approval.session_id)
                destination = Destination(row.account, Target.from_json(row.target))
                planning.plan_outcome(row, destination, asking.answered(approval, name))
            elif row.status == "pending":
                transitions.give_up(row, None, "expired", "It was decided before it was asked.")


def was_asked_in(approval_id: UUID, account_id: UUID, chat_id: str) -> bool:
    """Whether the request was shown in that chat."""
    asked = Delivery.objects.filter(dedupe_key=f"approval:{approval_id}:0", account_id=account_id).first()
    return asked is not None and asked.target["chat"] == chat_id


def _ask(approval: ApprovalView, session: Session) -> None:
    destination = planning.find_destination(session, approval.run_id)
    if destination is None or not destination.account.is_enabled:
        return
    capabilities = _capabilities_of(destination)
    is_alone = destination.target.chat.type == "direct"
    put = asking.narrowed(approval, may_be_said_in(destination.account, session, is_alone=is_alone))
    may_decide = bool(put.choices)
    buttons = asking.buttons(put, capabilities.max_buttons) if may_decide and capabilities.buttons else ()
    markdown = asking.prompt(
        put, previewing.find_change(approval), agent_name=session.agent.name, may_decide=may_decide,
        has_buttons=bool(buttons), room=min(max(capabilities.max_text - _FRAME, _LEAST_ROOM), _MOST_ROOM),
    )  # fmt: skip
    with transaction.atomic():
        planning.plan_prompt(destination, session, approval.id, markdown, buttons, approval.expires_at)


def _capabilities_of(destination: Destination) -> Capabilities:
    try:
        return accounts.pure.get(destination.account).capabilities(destination.target.chat)
    except (DatabaseError, InterfaceError):
        raise
    except Exception:  # the sender tells what is wrong with the account or its adapter
        return Capabilities()


def _open_prompts() -> QuerySet[Delivery]:
    return Delivery.objects.filter(approval_id__isnull=False).order_by()


def _sessions_of(approvals: Iterable[ApprovalView]) -> dict[UUID, Session]:
    """The sessions that are held through channels."""
    ids = {approval.session_id for approval in approvals}
    if not ids:
        return {}
    sessions = Session.objects.select_related("agent").filter(pk__in=ids).exclude(channel__in=planning.STORED_CHANNELS)
    return {session.pk: session for session in sessions}
