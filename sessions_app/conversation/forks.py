"""Forks: new chats that go on from a message of another one."""

from collections.abc import Sequence
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F

from agents_app.configuration import agent_access
from audit_app import services as audit
from audit_app.kernel.errors import Conflict, NotFound
from audit_app.kernel.ids import new_id
from audit_app.kernel.shorten import shorten
from sessions_app.attachments import records as attachments
from sessions_app.conversation import imported_texts, message_index
from sessions_app.conversation.session_key import SessionKey
from sessions_app.conversation.sessions import open_new
from sessions_app.identity.actor_names import display_name
from sessions_app.models import Session, Turn

_LONGEST_TITLE = 240
_MOST_TURNS = 10_000
_COPIED = (
    "role",
    "content",
    "attached",
    "html",
    "is_answer",
    "is_pinned",
    "tool_calls",
    "tool_call_ids",
    "tool_call_id",
    "citations",
    "created_at",
)


def fork_session(session: Session, run_id: UUID, *, owner: User, channel: str) -> Session:
    """Create a chat with the conversation up to a run of a session and its answer. The session stays as it is.

    Files of messages are shared with the copy; those that an agent has written stay in the session. The copy has the
    origins of what its texts come from. Owns its transaction.
    Raises NotFound if the active branch has no such run, Conflict (not_answered, too_long), and NotFound if the owner
    may not use the agent any more.
    """
    turns = _turns_up_to(session, run_id)
    agent = agent_access.get_usable_agent(owner, session.agent.agent_id)
    key = SessionKey(channel, "default", str(owner.pk), str(new_id()))
    title = f"Fork of {shorten(session.title or 'a chat', _LONGEST_TITLE)}"
    with transaction.atomic():
        fork, created = open_new(key, owner, display_name(owner), agent, title)
        _store_copies(fork, owner, turns)
        message_index.put_title(fork, title)
        audit.emit(created)
        audit.record(
            "SessionForked",
            details={"source": str(session.pk), "run": str(run_id)},
            session_id=fork.pk,
            session_key=fork.key,
            agent_id=agent.agent_id,
        )
    return fork


def _store_copies(fork: Session, owner: User, turns: Sequence[Turn]) -> None:
    """Store copies of the turns, with their files and in their order."""
    copies = [_copy(fork, turn) for turn in turns]
    ordinals = {ordinal: place for place, ordinal in enumerate(dict.fromkeys(turn.ordinal for turn in turns))}
    for source, turn in zip(turns, copies, strict=True):
        turn.ordinal, turn.part = ordinals[source.ordinal], source.part
    imported_texts.set_origins(owner, turns, copies)
    Turn.objects.bulk_create(copies)
    for source, turn in zip(turns, copies, strict=True):
        if source.attached and not source.is_context:
            attachments.copy([source.pk], turn)
    counts = {"next_ordinal": len(ordinals), "message_count": F("message_count") + len(copies)}
    Session.objects.filter(pk=fork.pk).update(**counts)


def _turns_up_to(session: Session, run_id: UUID) -> Sequence[Turn]:
    """Return the turns on the active branch that a model would read, down to this run."""
    path = Turn.objects.filter(session=session, is_off_path=False)
    ordinal = path.filter(run_id=run_id).values_list("ordinal", flat=True).first()
    if ordinal is None:
        raise NotFound("There is no such message in this chat.")
    if not path.filter(run_id=run_id, is_answer=True).exists():
        raise Conflict(
            "This message is not answered yet. Wait for its answer, then fork the chat.", code="not_answered"
        )
    turns = list(
        path.filter(ordinal__lte=ordinal).exclude(state="error").order_by("ordinal", "part")[: _MOST_TURNS + 1]
    )
    if len(turns) > _MOST_TURNS:
        raise Conflict("This chat is too long to be forked.", code="too_long")
    return turns


def _copy(fork: Session, source: Turn) -> Turn:
    """Return an unsaved copy of a turn. No run answers it here, and a partial one counts as complete."""
    return Turn(session=fork, **{name: getattr(source, name) for name in _COPIED})
