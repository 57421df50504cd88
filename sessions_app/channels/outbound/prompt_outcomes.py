"""The outcome of a prompt, approval request or question, in place of the prompt in the chat."""

from django.db import transaction

from sessions_app.channels.outbound import outbox, transitions
from sessions_app.channels.outbound.outbox import Destination
from sessions_app.models import Delivery
from sessions_app.platforms.messages import Target

_SHOWN = ("sent", "unknown")  # or perhaps shown: then the outcome is a message of its own
_TOO_LATE = "It was decided before the prompt was sent."


def replace(prompt: Delivery, markdown: str) -> None:
    """Replace a prompt by its outcome, once. Owns its transaction. One that was not sent yet is given up.

    markdown: empty to leave the message as it is, for chats in which messages cannot be edited.
    """
    with transaction.atomic():
        same = Delivery.objects.filter(
            pk=prompt.pk, approval_id=prompt.approval_id, question_id=prompt.question_id, status=prompt.status
        )
        if not same.update(approval_id=None, question_id=None):
            return
        if prompt.status in _SHOWN and markdown:
            outbox.plan_outcome(prompt, Destination(prompt.account, Target.from_json(prompt.target)), markdown)
        elif prompt.status == "pending":
            transitions.give_up(prompt, None, "expired", _TOO_LATE)
