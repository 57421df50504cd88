"""Decisions made in chats: by a button below the question, or by a command where there are no buttons.

Who pressed is checked, and where: a request can be decided only in the chat in which it was asked.
"""

from uuid import UUID

from audit_app.kernel.errors import AppError, Forbidden, NotFound
from sessions_app.approvals import decisions, prompt_text
from sessions_app.approvals.permissions import find_decider
from sessions_app.channels.inbound.commands import record
from sessions_app.channels.messages import ButtonPress, Target
from sessions_app.channels.outbound import prompts
from sessions_app.channels.outbound.outbox import Destination
from sessions_app.conversation.inbound_record import InboundRecord, new_row
from sessions_app.conversation.session_key import SessionKey
from sessions_app.models import ChannelAccount, Session
from tools_app import selectors as tools
from tools_app.types import ApprovalStatus, ApprovalView, Decision

_RECENT = 20
_NOT_OURS = "This button does nothing any more."
_NOT_YOU = "Only an operator may decide this. Your click changed nothing."
_HOW = "Write `/approve ID`, `/approve ID run`, `/approve ID always` or `/deny ID why not`."


def take_press(account: ChannelAccount, press: ButtonPress, raw: bytes) -> None:
    """A pressed button: decide what it is about, or say why not. A repetition changes nothing."""
    row = new_row(
        account,
        press.chat,
        press.sender_id,
        press.sender_name,
        press.press_id,
        {"actionId": press.action_id, "cardMessageId": press.message_id},
        raw,
    )
    target = Target(press.chat, press_id=press.press_id, reference=press.reference)
    arrival, destination = InboundRecord(row, press.keys), Destination(account, target)
    if not prompt_text.is_ours(press.action_id):
        record(arrival, "unknown_action", destination, _NOT_OURS, kind="press")
        return
    try:
        approval, decision = _meant(account, press)
        _decide(arrival, destination, approval, decision, "", f"{prompt_text.OUTCOMES[decision]}.")
    except AppError as error:
        record(arrival, error.code, destination, error.message, kind="press")


def handle_command(arrival: InboundRecord, destination: Destination, key: SessionKey, text: str) -> None:
    """`/approve` or `/deny`. What came of it is shown in place of the question, or below it."""
    session = Session.objects.filter(key=str(key)).first()
    try:
        asked = prompt_text.read_command(text)
        if asked is None:
            record(arrival, "command_unclear", destination, _HOW, session=session)
            return
        name, decision, note = asked
        _decide(arrival, destination, _find(session, name), decision, note, "")
    except AppError as error:
        record(arrival, error.code, destination, error.message, session=session)


def _meant(account: ChannelAccount, press: ButtonPress) -> tuple[ApprovalView, Decision]:
    """Raises NotFound for an id that was made up, or belongs to another chat."""
    meant = prompt_text.read_action(press.action_id)
    if meant is None or not prompts.was_sent_to(meant[0], account.pk, press.chat.id):
        raise NotFound("There is no such request in this chat.", code="unknown_approval")
    return tools.get_approval(meant[0]), meant[1]


def _decide(
    arrival: InboundRecord, destination: Destination, approval: ApprovalView, decision: Decision, note: str, told: str
) -> None:
    """Raises Forbidden, and what `approvals.decide` raises; then nothing is stored."""
    session = Session.objects.filter(pk=approval.session_id).first()
    is_alone = destination.target.chat.type == "direct"
    actor = find_decider(destination.account, arrival.row.sender_id, session, is_alone=is_alone)
    if actor is None:
        raise Forbidden(_NOT_YOU, code="not_entitled")
    record(
        arrival,
        f"approval_{decision}",
        destination,
        told,
        kind="press" if destination.target.press_id else "notice",
        session=session,
        act=lambda: _carry_out(approval.id, decision, actor, note),
    )


def _carry_out(approval_id: UUID, decision: Decision, actor: str, note: str) -> None:
    decisions.decide(approval_id, decision=decision, actor=actor, note=note)


def _find(session: Session | None, name: str) -> ApprovalView:
    """The request that is meant. Without a name it must be the only one that waits."""
    recent = tools.list_approvals(session_ids=[session.pk], limit=_RECENT) if session else ()
    if not name:
        recent = tuple(approval for approval in recent if approval.status is ApprovalStatus.PENDING)
    found = prompt_text.find_named(name, recent)
    if found is None:
        waiting = [approval for approval in recent if approval.status is ApprovalStatus.PENDING]
        ids = ", ".join(f"`{prompt_text.short_id(approval.id)}` ({approval.tool})" for approval in waiting)
        raise NotFound(f"Which one? These wait: {ids}." if waiting else "Nothing like that waits for a decision here.")
    return found
