"""Questions of agents to their people in chats: sent where the message came from, answered by whatever comes next.

The rows are the truth: the sweep sends what was not sent yet.
"""

from django.db import transaction

from sessions_app.delivery import planning
from sessions_app.models import Delivery, Session
from tools_app import selectors as tools
from tools_app.types import InputView


def sweep() -> None:
    """One pass: send the questions that wait for an answer, each once."""
    waiting = {_key(asked): asked for asked in tools.list_pending_questions()}
    if not waiting:
        return
    sent = Delivery.objects.filter(dedupe_key__in=[f"{key}:0" for key in waiting]).values_list("dedupe_key", flat=True)
    fresh = {key: asked for key, asked in waiting.items() if f"{key}:0" not in set(sent)}
    sessions = Session.objects.select_related("agent").exclude(channel__in=planning.STORED_CHANNELS)
    by_id = sessions.in_bulk({asked.session_id for asked in fresh.values()})
    for key, asked in fresh.items():
        if session := by_id.get(asked.session_id):
            _send(key, asked, session)


def text_of(asked: InputView) -> str:
    """The question as Markdown; its options numbered, so that a number is an answer."""
    options = [f"{number}. {option.strip()}" for number, option in enumerate(asked.question.options, start=1)]
    return "\n\n".join(part for part in (asked.question.text.strip(), "\n".join(options)) if part)


def _send(key: str, asked: InputView, session: Session) -> None:
    destination = planning.find_destination(session, asked.run_id)
    if destination is None or not destination.account.is_enabled:
        return
    with transaction.atomic():
        planning.plan_notice(destination, key, text_of(asked), session=session)


def _key(asked: InputView) -> str:
    return f"question:{asked.id}"
