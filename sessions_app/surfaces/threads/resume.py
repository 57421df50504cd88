"""Which run a client means, and from where on it wants to be told. Synchronous."""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.utils import timezone

from agents_app import selectors as agents
from agents_app.models import Run
from agents_app.types import RunView
from audit_app import timeline
from sessions_app.live_view.viewer import cursor_now
from sessions_app.models import Session
from sessions_app.surfaces.threads import delivered_marks
from sessions_app.surfaces.threads.commands import NAME
from sessions_app.surfaces.threads.event_ids import END, EventPosition, parse_place
from tools_app import selectors as tools

_RECENT = timedelta(minutes=5)
_LAST = 2  # the offset of a message's last event


@dataclass(frozen=True)
class Resume:
    """What a client says it has. message_id: of which message (None: the entry id tells); entry_id: up to there."""

    message_id: UUID | None = None
    entry_id: str = ""


@dataclass(frozen=True)
class Target:
    """What to tell. cursor: watch the session from there on; run_id: of the message (None: of the next one), number:
    its place in the thread, from 1; after: what of it the client has; is_gone: it is over or unknown."""

    cursor: str
    run_id: UUID | None = None
    number: int = 0
    after: EventPosition | None = None
    is_gone: bool = False


def find_target(session: Session, resume: Resume) -> Target:
    """Without anything said: the active run, or one that ended just now and was never told; else the next one.

    An entry id alone goes on in the message that it names, for ever; when it names none, in the active or latest one;
    and behind the last event of a message with the one that follows. With a message's id it goes on while that message
    is being written, as this protocol has it.
    """
    now = cursor_now(session.id)  # before anything is looked up: what happens meanwhile is seen
    if resume.message_id:
        return _of_message(session, resume.message_id, parse_place(resume.entry_id))
    if not resume.entry_id:
        run = agents.find_open_run(session.id) or _untold_run(session)
        return _whole(run) if run else Target(now)
    place = parse_place(resume.entry_id)
    run = _run_at(session.id, place.message - 1) if place else None
    if run is None or place is None:
        run = latest_run(session.id)
        return _whole(run) if run else Target(now)
    if place.zone == END and place.offset == _LAST:
        following = latest_run(session.id)
        return _whole(following) if following and following.ordinal > run.ordinal else Target(now)
    return _target(run, place)


def latest_run(session_id: UUID) -> RunView | None:
    """The thread's active run, else the first that waits, else the one that ended last."""
    open_run = agents.find_open_run(session_id)
    if open_run:
        return open_run
    row = Run.objects.select_related("agent").filter(conversation_id=session_id).order_by("-ordinal").first()
    return agents.run_view(row) if row else None


def is_asking(session_id: UUID, run_id: UUID) -> bool:
    """Whether the run waits for its person's words."""
    question = tools.find_question(session_id)
    return question is not None and question.run_id == run_id


def _of_message(session: Session, message_id: UUID, place: EventPosition | None) -> Target:
    row = Run.objects.select_related("agent").filter(pk=message_id, conversation_id=session.id).first()
    run = agents.run_view(row) if row else None
    if run is None or run.status.is_terminal:
        return Target("", message_id, is_gone=True)
    return _target(run, place if place and place.message - 1 == run.ordinal else None)


def _untold_run(session: Session) -> RunView | None:
    """A client may come for its answer when that is over already."""
    run = latest_run(session.id)
    if run is None or run.ended_at is None or run.ended_at < timezone.now() - _RECENT:
        return None
    is_ours = NAME in (agents.get_options(run.id).note or {})
    return run if is_ours and not delivered_marks.is_delivered(run.id) else None


def _run_at(session_id: UUID, ordinal: int) -> RunView | None:
    row = Run.objects.select_related("agent").filter(conversation_id=session_id, ordinal=ordinal).first()
    return agents.run_view(row) if row else None


def _whole(run: RunView) -> Target:
    return _target(run, None)


def _target(run: RunView, after: EventPosition | None) -> Target:
    first = timeline.find_first_of_run(run.id)
    if first is None:  # its events are no longer kept
        return Target("", run.id, is_gone=True)
    return Target(str(first.seq - 1), run.id, run.ordinal + 1, after)
