"""Requests for approval in chats: asked where the message came from, and closed with the outcome.

The rows are the truth: the sweep asks what was not asked yet and closes whatever was decided elsewhere.
"""

from uuid import UUID

from django.db import DatabaseError, InterfaceError, transaction
from django.db.models import Exists, OuterRef, QuerySet

from audit_app.kernel.errors import NotFound
from sessions_app.approvals import prompt_text
from sessions_app.approvals.permissions import allowed_decisions_in_chat
from sessions_app.channels import accounts
from sessions_app.channels.messages import Capabilities, Target
from sessions_app.channels.outbound import outbox, transitions
from sessions_app.channels.outbound.outbox import Destination
from sessions_app.identity.actor_names import name_of
from sessions_app.models import Delivery, Session
from tools_app import selectors as tools
from tools_app.executions import preview
from tools_app.types import ApprovalStatus, ApprovalView

# What a prompt needs beside the arguments, and the most of those that it shows.
_FRAME, _MOST_ROOM, _LEAST_ROOM = 900, 2500, 200


def sweep() -> None:
    """One pass: ask what waits for a decision, close what does not wait any more. What waits and was asked costs
    nothing, however much it is."""
    waiting = tools.pending_approvals()
    unasked = waiting.filter(
        outbox.may_be_reached("execution__session_id"), ~Exists(Delivery.objects.filter(approval_id=OuterRef("pk")))
    )
    fresh = [tools.approval_view(row) for row in unasked.select_related("execution").order_by("expires_at")]
    sessions = outbox.sessions_of_channels(approval.session_id for approval in fresh)
    for approval in fresh:
        if session := sessions.get(approval.session_id):
            _ask(approval, session)
    over = _open_prompts().exclude(Exists(waiting.filter(pk=OuterRef("approval_id"))))
    for approval_id in {shown for shown in over.values_list("approval_id", flat=True) if shown}:
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
                outbox.plan_outcome(row, destination, prompt_text.answered(approval, name))
            elif row.status == "pending":
                transitions.give_up(row, None, "expired", "It was decided before it was asked.")


def was_asked_in(approval_id: UUID, account_id: UUID, chat_id: str) -> bool:
    """Whether the request was shown in that chat."""
    asked = Delivery.objects.filter(dedupe_key=f"approval:{approval_id}:0", account_id=account_id).first()
    return asked is not None and asked.target["chat"] == chat_id


def _ask(approval: ApprovalView, session: Session) -> None:
    destination = outbox.find_destination(session, approval.run_id)
    if destination is None or not destination.account.is_enabled:
        return
    capabilities = _capabilities_of(destination)
    is_alone = destination.target.chat.type == "direct"
    put = prompt_text.narrowed(approval, allowed_decisions_in_chat(destination.account, session, is_alone=is_alone))
    may_decide = bool(put.choices)
    buttons = prompt_text.buttons(put, capabilities.max_buttons) if may_decide and capabilities.buttons else ()
    markdown = prompt_text.prompt(
        put,
        preview.find_change(approval),
        agent_name=session.agent.name,
        may_decide=may_decide,
        has_buttons=bool(buttons),
        room=min(max(capabilities.max_text - _FRAME, _LEAST_ROOM), _MOST_ROOM),
    )
    with transaction.atomic():
        outbox.plan_prompt(destination, session, approval.id, markdown, buttons, approval.expires_at)


def _capabilities_of(destination: Destination) -> Capabilities:
    try:
        return accounts.pure.get(destination.account).capabilities(destination.target.chat)
    except (DatabaseError, InterfaceError):
        raise
    except Exception:  # the sender tells what is wrong with the account or its adapter
        return Capabilities()


def _open_prompts() -> QuerySet[Delivery]:
    return Delivery.objects.filter(approval_id__isnull=False).order_by()
