"""The round trip that proves a new account: the first message that arrives, and its answer. Reads only."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from audit_app.kernel.safe_text import visible
from audit_app.kernel.shorten import shorten
from sessions_app.models import ChannelAccount, Delivery, InboundMessage

_REASONS = {
    "not_paired": "The sender is not paired with the account: create a pairing code and send it from that chat.",
    "not_allowed": "The sender is not in the list of allowed senders.",
    "sender_not_verified": "Nothing proves that the mail is of its sender: test the account, which checks auth_server.",
    "not_addressed": "It was written in a group and not to the account: mention the account or reply to it.",
}


class RoundTrip(Enum):
    """The states of the newest message."""

    NOTHING = "waiting for the first message"
    REFUSED = "refused"
    PAIRED = "paired"
    WORKING = "being answered"
    ANSWERED = "answered"
    FAILED = "not answered"


@dataclass(frozen=True)
class FirstMessage:
    """The newest message since a time.

    text: a sentence for operators.
    line: the message itself, shortened.
    """

    state: RoundTrip
    text: str
    sender: str = ""
    line: str = ""
    reason: str = ""

    @property
    def is_over(self) -> bool:
        return self.state is RoundTrip.ANSWERED


def find(account: ChannelAccount, since: datetime) -> FirstMessage:
    """Return how far the account's newest message since that time has come."""
    rows = InboundMessage.objects.select_related("run").filter(account=account, received_at__gte=since)
    message = rows.order_by("-id").first()
    if message is None:
        return FirstMessage(RoundTrip.NOTHING, "")
    state, text = _refusal(message) or _answer(message)
    sender = visible(message.sender_name or message.sender_id)
    line = visible(shorten(message.text or "a message without text", 200))
    return FirstMessage(state, text, sender, line, message.reason)


def _refusal(message: InboundMessage) -> tuple[RoundTrip, str] | None:
    """Return why no run answers the message, None if one does."""
    if message.run is not None or not message.reason:
        return None
    if message.reason in _REASONS:
        return RoundTrip.REFUSED, _REASONS[message.reason]
    if message.reason == "paired":
        return RoundTrip.PAIRED, "The sender is paired now. Write an ordinary message, for example: hello."
    return RoundTrip.REFUSED, f"It was not given to the agent ({visible(message.reason)}). Write an ordinary message."


def _answer(message: InboundMessage) -> tuple[RoundTrip, str]:
    answers = Delivery.objects.filter(run=message.run, kind__in=("answer", "failure")).order_by("id")
    states = {row.status: row for row in answers} if message.run else {}
    for status in ("failed", "unknown", "expired"):
        if status in states:
            problem = states[status].error or f"the delivery is {status}"
            return RoundTrip.FAILED, f"The answer did not arrive: {visible(problem)}"
    if message.run and message.run.error_message:
        return RoundTrip.FAILED, f"The agent could not answer: {visible(message.run.error_message)}"
    if states and {*states} == {"sent"}:
        return RoundTrip.ANSWERED, "The answer was sent. The account works in both directions."
    return RoundTrip.WORKING, "The message has arrived and is being answered."
