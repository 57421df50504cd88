"""Questions of agents to their people in chats: sent where the message came from, answered by whatever comes next.

The rows are the truth: the sweep sends what was not sent yet.
"""

from uuid import UUID

from django.db import transaction

from sessions_app.channels.outbound import outbox
from sessions_app.models import Delivery, Session
from tools_app import selectors as tools
from tools_app.types import InputView


def sweep() -> None:
    """One pass: send the questions that wait for an answer, each once."""
    waiting = tools.pending_questions().filter(outbox.may_be_reached("session_id"))
    keys = {_key(request_id): request_id for request_id in waiting.values_list("pk", flat=True)}
    if not keys:
        return
    sent = Delivery.objects.filter(dedupe_key__in=[f"{key}:0" for key in keys]).values_list("dedupe_key", flat=True)
    unsent = keys.keys() - {key.removesuffix(":0") for key in sent}
    fresh = [
        tools.input_view(row) for row in waiting.filter(pk__in=[keys[key] for key in unsent]).order_by("expires_at")
    ]
    sessions = outbox.sessions_of_channels(asked.session_id for asked in fresh)
    for asked in fresh:
        if session := sessions.get(asked.session_id):
            _send(_key(asked.id), asked, session)


def text_of(asked: InputView) -> str:
    """The question as Markdown; its options numbered, so that a number is an answer."""
    options = [f"{number}. {option.strip()}" for number, option in enumerate(asked.question.options, start=1)]
    return "\n\n".join(part for part in (asked.question.text.strip(), "\n".join(options)) if part)


def _send(key: str, asked: InputView, session: Session) -> None:
    destination = outbox.find_destination(session, asked.run_id)
    if destination is None or not destination.account.is_enabled:
        return
    with transaction.atomic():
        outbox.plan_notice(destination, key, text_of(asked), session=session)


def _key(request_id: UUID) -> str:
    return f"question:{request_id}"
