"""Approval requests in chats: sent to the chat that the message came from, and closed with the outcome.

The rows of approvals are the state: the sweep sends prompts that were not sent yet, and closes those of requests that
were decided elsewhere.
"""

from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from audit_app.kernel.errors import NotFound
from sessions_app import hot_queries
from sessions_app.approvals import prompt_text
from sessions_app.approvals.permissions import allowed_decisions_in_chat
from sessions_app.channels import accounts
from sessions_app.channels.outbound import outbox, prompt_outcomes
from sessions_app.channels.outbound.outbox import Destination
from sessions_app.identity.actor_names import name_of_deciders
from sessions_app.models import Delivery, Session
from sessions_app.platforms.messages import Capabilities
from tools_app import selectors as tools
from tools_app.executions import preview
from tools_app.types import ApprovalStatus, ApprovalView

# Characters of a prompt beside the arguments, and the most and fewest of the arguments that it shows.
_FRAME, _MOST_ROOM, _LEAST_ROOM = 900, 2500, 200


def sweep() -> None:
    """Do one pass: send the prompts of pending requests, close those of decided ones."""
    if tools.has_pending_approvals():
        _send_new()
    if hot_queries.FIND_OPEN_PROMPT.rows():
        _close_decided()


def _send_new() -> None:
    waiting = tools.pending_approvals()
    unsent = waiting.filter(
        outbox.may_be_reached("execution__session_id"), ~Exists(Delivery.objects.filter(approval_id=OuterRef("pk")))
    )
    fresh = map(tools.approval_view, unsent.select_related("execution").order_by("expires_at"))
    for approval, session, destination in outbox.with_destinations(fresh):
        _send(approval, session, destination)


def _close_decided() -> None:
    over = _open_prompts().exclude(Exists(tools.pending_approvals().filter(pk=OuterRef("approval_id"))))
    for approval_id in {shown for shown in over.values_list("approval_id", flat=True) if shown}:
        try:
            close(tools.get_approval(approval_id))
        except NotFound:  # retention has deleted its record
            Delivery.objects.filter(approval_id=approval_id).update(approval_id=None)


def close(approval: ApprovalView) -> None:
    """Replace the prompts of a decided request by its outcome. Idempotent. Owns its transactions.

    A prompt that is being sent at the moment is left to the sweep.
    """
    if approval.status is ApprovalStatus.PENDING:
        return
    rows = _open_prompts().filter(approval_id=approval.id).exclude(status="sending")
    for row in rows.select_related("account", "session"):
        prompt_outcomes.replace(row, prompt_text.answered(approval, name_of_deciders(approval)))


def was_sent_to(approval_id: UUID, account_id: UUID, chat_id: str) -> bool:
    """Return whether the request's prompt was sent to that chat."""
    prompt = Delivery.objects.filter(dedupe_key=f"approval:{approval_id}:0", account_id=account_id).first()
    return prompt is not None and prompt.target["chat"] == chat_id


def room_in(capabilities: Capabilities) -> int:
    """Return how many characters of arguments a prompt shows in a channel."""
    return min(max(capabilities.max_text - _FRAME, _LEAST_ROOM), _MOST_ROOM)


def _send(approval: ApprovalView, session: Session, destination: Destination) -> None:
    capabilities = accounts.pure.capabilities(destination.account, destination.target.chat) or Capabilities()
    is_alone = destination.target.chat.type == "direct"
    put = prompt_text.narrowed(
        preview.targets_first(approval), allowed_decisions_in_chat(destination.account, session, is_alone=is_alone)
    )
    may_decide = bool(put.choices)
    buttons = prompt_text.buttons(put, capabilities.max_buttons) if may_decide and capabilities.buttons else ()
    markdown = prompt_text.prompt(
        put,
        preview.find_change(approval),
        agent_name=session.agent.name,
        may_decide=may_decide,
        has_buttons=bool(buttons),
        room=room_in(capabilities),
    )
    with transaction.atomic():
        outbox.plan_prompt(destination, session, approval.id, markdown, buttons, approval.expires_at)


def _open_prompts() -> QuerySet[Delivery]:
    return Delivery.objects.filter(approval_id__isnull=False).order_by()
