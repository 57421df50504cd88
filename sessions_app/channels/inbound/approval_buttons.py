"""Decisions on approval requests in chats: by a button of the prompt, or by a command where there are no buttons.

The sender must be allowed to decide, and a request can be decided only in a chat to which its prompt was sent.
"""

from functools import partial

from audit_app.kernel.errors import AppError, NotFound
from sessions_app.approvals import decisions, permissions, prompt_text
from sessions_app.channels.inbound.commands import record
from sessions_app.channels.outbound import prompts
from sessions_app.channels.outbound.outbox import Destination
from sessions_app.conversation.inbound_record import InboundRecord, new_row
from sessions_app.conversation.session_key import SessionKey
from sessions_app.models import ChannelAccount, Session
from sessions_app.platforms.messages import ButtonPress, Target
from tools_app import selectors as tools
from tools_app.types import ApprovalStatus, ApprovalView, Decision
from tools_app.types.approvals import OUTCOMES

_RECENT = 20
NOT_ACTIVE = "This button is no longer active."
_USAGE = "Usage: `/approve ID`, `/approve ID run`, `/approve ID always` or `/deny ID reason`."


def take_press(account: ChannelAccount, press: ButtonPress, raw: bytes) -> None:
    """Carry out a button press, or reply with the reason why not. Idempotent."""
    metadata = {"actionId": press.action_id, "cardMessageId": press.message_id}
    row = new_row(account, press, press.press_id, raw, metadata=metadata)
    target = Target(press.chat, press_id=press.press_id, reference=press.reference)
    arrival, destination = InboundRecord(row, press.keys), Destination(account, target)
    if not prompt_text.is_ours(press.action_id):
        record(arrival, "unknown_action", destination, NOT_ACTIVE)
        return
    try:
        approval, decision = _requested(account, press)
        _decide(arrival, destination, approval, decision, "", f"{OUTCOMES[decision]}.")
    except AppError as error:
        record(arrival, error.code, destination, error.message)


def handle_command(arrival: InboundRecord, destination: Destination, key: SessionKey, text: str) -> None:
    """Carry out `/approve` or `/deny`. The outcome replaces the prompt, or is sent below it."""
    session = Session.objects.filter(key=str(key)).first()
    try:
        asked = prompt_text.read_command(text)
        if asked is None:
            record(arrival, "command_unclear", destination, _USAGE, session=session)
            return
        name, decision, note = asked
        _decide(arrival, destination, _find(session, name), decision, note, "")
    except AppError as error:
        record(arrival, error.code, destination, error.message, session=session)


def _requested(account: ChannelAccount, press: ButtonPress) -> tuple[ApprovalView, Decision]:
    """Return the request and the decision of a press. Raises NotFound for a request of another chat or none."""
    action = prompt_text.read_action(press.action_id)
    if action is None or not prompts.was_sent_to(action[0], account.pk, press.chat.id):
        raise NotFound("There is no such request in this chat.", code="unknown_approval")
    return tools.get_approval(action[0]), action[1]


def _decide(
    arrival: InboundRecord, destination: Destination, approval: ApprovalView, decision: Decision, note: str, reply: str
) -> None:
    """Check the sender and decide. Raises Forbidden, and what `decisions.decide` raises; then nothing is stored."""
    session = Session.objects.filter(pk=approval.session_id).first()
    is_alone = destination.target.chat.type == "direct"
    sender_id = arrival.row.sender_id
    actor = permissions.require_decider(destination.account, sender_id, session, is_alone=is_alone, decision=decision)
    permissions.check_credential_decision(approval, actor, decision)
    if approval.needs_two and decision is not Decision.DENY and not approval.first_allowed_by:
        reply = prompt_text.ONE_OF_TWO
    act = partial(decisions.decide, approval.id, decision=decision, actor=actor, has_fresh_login=True, note=note)
    record(arrival, f"approval_{decision}", destination, reply, session=session, act=act)


def _find(session: Session | None, name: str) -> ApprovalView:
    """Return the request with that short id; without one, the only pending request. Raises NotFound."""
    recent = tools.list_approvals(session_ids=[session.pk], limit=_RECENT) if session else ()
    waiting = tuple(approval for approval in recent if approval.status is ApprovalStatus.PENDING)
    found = prompt_text.find_named(name, recent if name else waiting)
    if found is None:
        ids = ", ".join(f"`{prompt_text.short_id(approval.id)}` ({approval.tool})" for approval in waiting)
        raise NotFound(f"Which one? Pending: {ids}." if waiting else "No such request is pending here.")
    return found


COMMANDS = {"/approve": handle_command, "/deny": handle_command}
