"""Finds the run that a stream shows, and the position to resume from. Synchronous."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone

from agents_app import selectors as agents
from agents_app.models import IS_ROOT, Run
from agents_app.types import RunView
from audit_app import timeline
from sessions_app.live_view.viewer import cursor_now
from sessions_app.models import Session
from sessions_app.surfaces.threads import delivered_marks
from sessions_app.surfaces.threads.commands import NAME
from sessions_app.surfaces.threads.event_ids import END, EventPosition, parse_position
from tools_app import selectors as tools

_RECENT = timedelta(minutes=5)
_LAST = 2  # the offset of a message's last event


@dataclass(frozen=True)
class ResumePoint:
    """The point up to which a client has the stream. entry_id: of the last event that it has, or empty.

    message_id: the message; None: the one that the entry id names.
    """

    message_id: UUID | None = None
    entry_id: str = ""


@dataclass(frozen=True)
class StreamTarget:
    """The message to stream.

    cursor: where to watch the session from.
    run_id: id of the message; None: of the next one.
    number: number of the message in its thread, from 1.
    after: the position in it that the client has.
    is_gone: the message has ended or is unknown.
    """

    cursor: str
    run_id: UUID | None = None
    number: int = 0
    after: EventPosition | None = None
    is_gone: bool = False


def find_target(session: Session, resume: ResumePoint) -> StreamTarget:
    """Return the message to stream.

    Nothing given: the active run, or one that ended just now and was never delivered; else the next run.
    An entry id alone: the message that it names, also if that has ended; behind its last event, the message after it.
    If it names none: the active or latest run.
    A message id and an entry id: that message while its run is active, as the protocol defines it.
    """
    now = cursor_now(session.id)  # before the queries, so that the stream shows what is stored meanwhile
    if resume.message_id:
        return _of_message(session, resume.message_id, parse_position(resume.entry_id))
    if not resume.entry_id:
        run = agents.find_open_run(session.id) or _undelivered_run(session)
        return _target(run) if run else StreamTarget(now)
    position = parse_position(resume.entry_id)
    run = _find_run(conversation_id=session.id, ordinal=position.message - 1) if position else None
    if run is None or position is None:
        run = latest_run(session.id)
        return _target(run) if run else StreamTarget(now)
    if position.zone == END and position.offset == _LAST:
        following = latest_run(session.id)
        return _target(following) if following and following.ordinal > run.ordinal else StreamTarget(now)
    return _target(run, position)


def latest_run(session_id: UUID) -> RunView | None:
    """Return the thread's active run, else its first queued one, else the one that ended last."""
    if open_run := agents.find_open_run(session_id):
        return open_run
    row = Run.objects.select_related("agent").filter(IS_ROOT, conversation_id=session_id).order_by("-ordinal").first()
    return agents.run_view(row) if row else None


def is_waiting_for_answer(session_id: UUID, run_id: UUID) -> bool:
    """Return whether the run waits for the user's answer to its question."""
    question = tools.find_question(session_id)
    return question is not None and question.run_id == run_id


def _of_message(session: Session, message_id: UUID, position: EventPosition | None) -> StreamTarget:
    run = _find_run(pk=message_id, conversation_id=session.id)
    if run is None or run.status.is_terminal:
        return StreamTarget("", message_id, is_gone=True)
    return _target(run, position if position and position.message - 1 == run.ordinal else None)


def _undelivered_run(session: Session) -> RunView | None:
    """Return a run of this surface that ended before the client came for its answer, if there is one."""
    run = latest_run(session.id)
    if run is None or run.ended_at is None or run.ended_at < timezone.now() - _RECENT:
        return None
    is_ours = NAME in (agents.get_options(run.id).note or {})
    return run if is_ours and not delivered_marks.is_delivered(run.id) else None


def _find_run(**filters: Any) -> RunView | None:
    row = Run.objects.select_related("agent").filter(IS_ROOT, **filters).first()
    return agents.run_view(row) if row else None


def _target(run: RunView, after: EventPosition | None = None) -> StreamTarget:
    first = timeline.find_first_of_run(run.id)
    if first is None:  # pruned
        return StreamTarget("", run.id, is_gone=True)
    return StreamTarget(str(first.seq - 1), run.id, run.ordinal + 1, after)
