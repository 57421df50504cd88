"""Stored messages of a session: its history, and the position from which a client resumes. Synchronous.

A run that was forked begins with the messages of the run that it was forked from.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q

from agents_app import selectors as agents
from agents_app.events import RUN_ENDS
from audit_app import timeline
from sessions_app.approvals import permissions
from sessions_app.events import MESSAGE_COMPLETED, MESSAGE_RECEIVED, STEP_CLOSING
from sessions_app.identity.principal import Principal
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.models import Session, Turn
from sessions_app.surfaces.agent_messages import child_runs, resume_timestamps
from sessions_app.surfaces.agent_messages.agent_runs import NAME, AgentRun
from sessions_app.surfaces.agent_messages.projection import PRIMING, Projection, StepTextRecord, StoredText, TurnText
from sessions_app.surfaces.agent_messages.resume_timestamps import ReceivedText
from sessions_app.surfaces.agent_messages.streaming_chunks import activity_of, reset_text
from sessions_app.surfaces.agent_messages.wire_format import Compact
from tools_app import selectors as tools

END_OF_TIME = 10**15
_PAGE = timeline.EVENTS_OF_A_PAGE
_OF_TURNS = (MESSAGE_RECEIVED.name, MESSAGE_COMPLETED.name)
_LOOK_BACK_MS = 10_000
_DEEPEST = 20  # generations of forks whose messages are read


@dataclass
class TimelineReader:
    """A projection and its position in a session's timeline. seq, ts: of the last event read.

    after: messages up to this time are omitted.
    received: the part of the open step's text that the client has.
    """

    projection: Projection
    seq: int = 0
    ts: int = 0
    after: float = 0
    received: ReceivedText | None = None


def open_reader(principal: Principal, run: AgentRun, since: float = 0) -> TimelineReader:
    """Return a reader of the messages after `since`."""
    session = run.session
    allowed_decisions = permissions.allowed_decisions(principal.user, session.owner_id) if principal.can_write else ()
    reader = TimelineReader(Projection(is_interactive=run.is_interactive, allowed_decisions=allowed_decisions))
    if since:
        reader.after = since
        whole, reader.received = resume_timestamps.read(since)
        reader.seq, reader.ts = timeline.find_place(session.id, ts=whole)
        if whole > max(time.time() * 1000, reader.ts):  # from a clock that is ahead of this server's
            reader.after = int(time.time() * 1000) - _LOOK_BACK_MS
            reader.seq, reader.ts = timeline.find_place(session.id, ts=int(reader.after))
        if reader.ts != whole:  # the received text belongs to another event
            reader.received = None
        for event in timeline.list_events_of_types(session.id, PRIMING, until=reader.seq):
            reader.projection.prime(SessionEvent.of(event))
    return reader


def open_reader_at_end(principal: Principal, run: AgentRun) -> TimelineReader:
    """Return a reader of the messages from now on."""
    seq, ts = timeline.find_place(run.session.id, ts=END_OF_TIME)
    reader = open_reader(principal, run, ts)
    reader.seq, reader.ts = seq, ts
    return reader


def read_messages(session: Session, reader: TimelineReader, *, until: int | None = None) -> list[Compact]:
    """Return the messages after the reader's position, and move it to the last event. until: the last `seq` to read."""
    found: list[Compact] = []
    for page in _pages(session.id, reader, until):
        texts = load_texts(page)
        for event in page:
            messages = reader.projection.messages(event, texts)
            if event.type in STEP_CLOSING and reader.received is not None and not event.parent_run_id:
                found += _reset_if_replaced(event, messages)
                reader.received = None
            found += messages
        reader.seq, reader.ts = page[-1].seq or 0, page[-1].ts or 0
    return [message for message in found if message["ts"] > reader.after]


def read_history(principal: Principal, run: AgentRun, since: float = 0) -> list[Compact]:
    """Return all stored messages after `since`, by time."""
    reader = open_reader(principal, run, since)
    return [*read_forked_history(principal, run, since), *read_messages(run.session, reader)]


def read_forked_history(principal: Principal, run: AgentRun, since: float = 0) -> list[Compact]:
    """Return the messages that the run has from the runs that it was forked from."""
    found: list[Compact] = []
    fork = run.metadata.get("fork")
    for _ in range(_DEEPEST):
        if not fork:
            break
        source = Session.objects.select_related("agent").filter(pk=fork["id"], owner=run.session.owner_id).first()
        if source is None:
            break
        reader = open_reader(principal, AgentRun(source))
        reader.after = since
        found = [*read_messages(source, reader, until=fork["seq"]), *found]
        fork = (source.metadata.get(NAME) or {}).get("fork")
    return found


def load_texts(events: Iterable[SessionEvent]) -> StoredText:
    """Return the texts to which these kept events refer, with one query for each kind."""
    events = list(events)
    turn_ids = [event.payload["turn_id"] for event in events if event.type in _OF_TURNS]
    run_ids = {event.run_id for event in events if event.run_id and event.type in STEP_CLOSING}
    ended = {event.run_id for event in events if event.run_id and event.type in PRIMING}
    if not (turn_ids or run_ids or ended):
        return StoredText()
    turns, answers = _load_turns(turn_ids, ended)
    steps = {
        (run_id, step.index): StepTextRecord(step.text, step.reasoning, tuple(call.name for call in step.tool_calls))
        for run_id, step in agents.list_steps_of(run_ids)
    }
    children = {event.run_id for event in events if event.run_id and event.parent_run_id and event.type in RUN_ENDS}
    return StoredText(turns, steps, answers, child_runs.results_of(children) if children else {})


def _load_turns(turn_ids: list[str], ended: set[UUID]) -> tuple[dict[str, TurnText], dict[UUID, str]]:
    if not (turn_ids or ended):
        return {}, {}
    rows = list(Turn.objects.filter(Q(pk__in=turn_ids) | Q(run_id__in=ended, is_answer=True)))
    call_ids = [row.tool_call_ids[0] for row in rows if row.role == "user" and row.tool_call_ids]
    questions = tools.find_question_ids(call_ids) if call_ids else {}
    turns = {}
    for row in rows:
        answers = questions.get((row.tool_call_ids or [""])[0], "") if row.role == "user" else ""
        turns[str(row.pk)] = TurnText(row.content, row.error_message, row.error_code, answers)
    return turns, {row.run_id: row.content for row in rows if row.is_answer and row.run_id}


def _reset_if_replaced(event: SessionEvent, messages: list[Compact]) -> list[Compact]:
    """Return a reset of the text that the client received, unless one of the messages replaces it.

    None does if the step was repeated after a crash and has no text this time.
    """
    activity = activity_of(event.run_id, event.step)
    if any(message.get("d", {}).get("activity_id") == activity for message in messages):
        return []
    ts = resume_timestamps.before(event.ts or 0, resume_timestamps.MOST_BEFORE, 0)
    return [reset_text(activity, "resumed", ts)]


def _pages(session_id: UUID, reader: TimelineReader, until: int | None) -> Iterator[list[SessionEvent]]:
    while True:
        events = timeline.list_events(session_id, after=reader.seq)
        if until is not None:
            events = [event for event in events if event.seq <= until]
        if events:
            yield [SessionEvent.of(event) for event in events]
        if len(events) < _PAGE:
            return
