"""Questions of agents in chats: sent to the chat that the message came from, answered by the next message there.

The rows of open questions are the state: the sweep sends those that were not sent yet.
"""

from uuid import UUID

from django.db import transaction

from sessions_app.channels.outbound import outbox
from sessions_app.models import Delivery
from tools_app import selectors as tools
from tools_app.types import InputView


def sweep() -> None:
    """Do one pass: send each open question once."""
    if not tools.has_open_questions():
        return
    waiting = tools.pending_questions().filter(outbox.may_be_reached("session_id"))
    keys = {_key(request_id): request_id for request_id in waiting.values_list("pk", flat=True)}
    if not keys:
        return
    sent = Delivery.objects.filter(dedupe_key__in=[f"{key}:0" for key in keys]).values_list("dedupe_key", flat=True)
    unsent = keys.keys() - {key.removesuffix(":0") for key in sent}
    fresh = waiting.filter(pk__in=[keys[key] for key in unsent]).order_by("expires_at")
    for question, session, destination in outbox.with_destinations(map(tools.input_view, fresh)):
        with transaction.atomic():
            outbox.plan_notice(destination, _key(question.id), text_of(question), session=session)


def text_of(request: InputView) -> str:
    """Return the question as Markdown. Its options are numbered, so that a number can be the answer."""
    options = [f"{number}. {option.strip()}" for number, option in enumerate(request.question.options, start=1)]
    return "\n\n".join(part for part in (request.question.text.strip(), "\n".join(options)) if part)


def _key(request_id: UUID) -> str:
    return f"question:{request_id}"
