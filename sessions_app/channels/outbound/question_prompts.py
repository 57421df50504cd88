"""Questions of agents in chats: sent to the chat that the message came from, answered by the next message there.

The options of a single question are buttons where the platform has them. A pressed one is a message with its text. Once
the question is closed, wherever it was answered, the answer replaces the buttons where messages can be edited.

The rows of questions are the state: the sweep sends those that were not sent yet, and closes the prompts of others.
"""

from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef

from audit_app.kernel.redact import masked
from audit_app.kernel.safe_text import visible
from audit_app.kernel.shorten import shorten
from sessions_app import hot_queries
from sessions_app.channels import accounts
from sessions_app.channels.outbound import outbox, prompt_outcomes
from sessions_app.channels.outbound.outbox import Destination, question_key
from sessions_app.models import Delivery
from sessions_app.platforms import question_buttons
from sessions_app.platforms.messages import Button, Capabilities, Target
from tools_app import selectors as tools
from tools_app.types.questions import InputStatus, InputView, text_of

_LONGEST_LABEL, _LONGEST_ANSWER = 60, 200
_CLOSED = "The question is closed."
_ENDED = {InputStatus.EXPIRED: "Nobody answered in time.", InputStatus.CANCELLED: "The answer is not needed any more."}


def sweep() -> None:
    """Do one pass: send each open question once, replace the buttons of closed ones."""
    if tools.has_open_questions():
        _send_new()
    if hot_queries.FIND_OPEN_QUESTION_PROMPT.rows():
        _close()


def _send_new() -> None:
    waiting = tools.pending_questions().filter(outbox.may_be_reached("session_id"))
    keys = {question_key(request_id): request_id for request_id in waiting.values_list("pk", flat=True)}
    if not keys:
        return
    sent = Delivery.objects.filter(dedupe_key__in=[f"{key}:0" for key in keys]).values_list("dedupe_key", flat=True)
    unsent = keys.keys() - {key.removesuffix(":0") for key in sent}
    fresh = waiting.filter(pk__in=[keys[key] for key in unsent]).order_by("expires_at")
    for question, session, destination in outbox.with_destinations(map(tools.input_view, fresh)):
        with transaction.atomic():
            buttons = _buttons(question, destination)
            outbox.plan_question(destination, session, question.id, text_of(question.questions), buttons)


def _close() -> None:
    """Replace the prompts of closed questions. One that is being sent at the moment waits for the next pass."""
    is_open = Exists(tools.pending_questions().filter(pk=OuterRef("question_id")))
    over = Delivery.objects.filter(question_id__isnull=False).exclude(is_open).exclude(status="sending").order_by()
    for row in over.select_related("account", "session"):
        found = tools.find_closed_question(row.question_id) if row.question_id and _can_edit(row) else None
        prompt_outcomes.replace(row, _outcome(*found) if found else "")


def _can_edit(row: Delivery) -> bool:
    capabilities = accounts.pure.capabilities(row.account, Target.from_json(row.target).chat)
    return bool(capabilities and capabilities.edit_sent)


def _outcome(question: InputView, answer: str) -> str:
    shown = f"→ {visible(masked(shorten(answer, _LONGEST_ANSWER)))}" if answer else _ENDED.get(question.status, _CLOSED)
    return f"{text_of(question.questions, with_options=False)}\n\n{shown}"


def find_option(request_id: UUID, number: int, *, account_id: UUID, chat_id: str) -> str | None:
    """Return the label of an option of an open question that was sent to that chat, else None."""
    sent = Delivery.objects.filter(dedupe_key=f"{question_key(request_id)}:0", account_id=account_id).first()
    request = tools.pending_questions().filter(pk=request_id).first()
    if sent is None or request is None or sent.target["chat"] != chat_id:
        return None
    labels = tools.questions_of(request)[0].labels
    return labels[number] if number < len(labels) else None


def _buttons(request: InputView, destination: Destination) -> tuple[Button, ...]:
    """Return a button for each option of a single question, if the chat has so many."""
    capabilities = accounts.pure.capabilities(destination.account, destination.target.chat) or Capabilities()
    options = request.questions[0].options
    is_simple = len(request.questions) == 1 and not request.questions[0].allows_several
    if not (is_simple and capabilities.buttons and len(options) <= capabilities.max_buttons):
        return ()
    return tuple(
        Button(shorten(option.label, _LONGEST_LABEL), question_buttons.action_id(request.id, number))
        for number, option in enumerate(options)
    )
