"""Reads what is stored of a session as messages: its history, and the place where a client that comes back stands.

Synchronous. A run that was forked from another begins with that one's messages.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q

from agents_app import selectors as agents
from audit_app import timeline
from sessions_app.approvals import permissions
from sessions_app.events import MESSAGE_COMPLETED, MESSAGE_RECEIVED, STEP_CLOSING
from sessions_app.identity.principal import Principal
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.models import Session, Turn
from sessions_app.surfaces.agent_messages import resume_timestamps
from sessions_app.surfaces.agent_messages.agent_runs import NAME, AgentRun
from sessions_app.surfaces.agent_messages.projection import PRIMING, Projection, StepTextRecord, TurnWords, Words
from sessions_app.surfaces.agent_messages.resume_timestamps import Mark
from sessions_app.surfaces.agent_messages.streaming_chunks import activity_of, forget
from sessions_app.surfaces.agent_messages.wire_format import Compact
from tools_app import selectors as tools

FOR_EVER = 10**15
_A_PAGE = 500
_OF_TURNS = (MESSAGE_RECEIVED.name, MESSAGE_COMPLETED.name)
_LOOK_BACK_MS = 10_000
_DEEPEST = 20  # forks of forks whose beginnings are read


@dataclass
class ResumePosition:
    """Where a reading of a session stands: `seq` and `ts` of the last event it saw; after: what is told has a later
    time; mark: of the open text."""

    projection: Projection
    seq: int = 0
    ts: int = 0
    after: float = 0
    mark: Mark | None = None


def open_reading(principal: Principal, run: AgentRun, since: float = 0) -> ResumePosition:
    """A reading that has seen everything up to `since`."""
    session = run.session
    allowed_decisions = permissions.allowed_decisions(principal.user, session.owner_id) if principal.can_write else ()
    place = ResumePosition(Projection(is_interactive=run.is_interactive, allowed_decisions=allowed_decisions))
    if since:
        place.after = since
        whole, place.mark = resume_timestamps.read(since)
        place.seq, place.ts = timeline.find_place(session.id, ts=whole)
        if whole > max(time.time() * 1000, place.ts):  # by a clock that is ahead of ours
            place.after = int(time.time() * 1000) - _LOOK_BACK_MS
            place.seq, place.ts = timeline.find_place(session.id, ts=int(place.after))
        if place.ts != whole:  # the mark is of another event's time
            place.mark = None
        for event in timeline.list_events_of_types(session.id, PRIMING, until=place.seq):
            place.projection.prime(SessionEvent.of(event))
    return place


def open_at_end(principal: Principal, run: AgentRun) -> ResumePosition:
    """A reading that has seen everything there is."""
    seq, ts = timeline.find_place(run.session.id, ts=FOR_EVER)
    place = open_reading(principal, run, ts)
    place.seq, place.ts = seq, ts
    return place


def read_on(session: Session, place: ResumePosition, *, until: int | None = None) -> list[Compact]:
    """The messages that follow the place, which moves to the last event there is. until: the last event to read."""
    found: list[Compact] = []
    for page in _pages(session.id, place, until):
        words = load_words(page)
        for fact in page:
            said = place.projection.see(fact, words)
            if fact.type in STEP_CLOSING and place.mark is not None:
                found += _withdrawn(fact, said)
                place.mark = None
            found += said
        place.seq, place.ts = page[-1].seq or 0, page[-1].ts or 0
    return [message for message in found if message["ts"] > place.after]


def read_history(principal: Principal, run: AgentRun, since: float = 0) -> list[Compact]:
    """All stored messages of a time after `since`, by time."""
    place = open_reading(principal, run, since)
    return [*read_beginning(principal, run, since), *read_on(run.session, place)]


def read_beginning(principal: Principal, run: AgentRun, since: float = 0) -> list[Compact]:
    """What a forked run has from the one that it was forked from, and that one from its own."""
    found: list[Compact] = []
    fork = run.kept.get("fork")
    for _ in range(_DEEPEST):
        if not fork:
            break
        source = Session.objects.select_related("agent").filter(pk=fork["id"], owner=run.session.owner_id).first()
        if source is None:
            break
        place = open_reading(principal, AgentRun(source))
        place.after = since
        found = [*read_on(source, place, until=fork["seq"]), *found]
        fork = (source.metadata.get(NAME) or {}).get("fork")
    return found


def load_words(facts: Iterable[SessionEvent]) -> Words:
    """What these kept facts refer to: a query for each kind, whatever their number."""
    facts = list(facts)
    turn_ids = [fact.payload["turn_id"] for fact in facts if fact.type in _OF_TURNS]
    run_ids = {fact.run_id for fact in facts if fact.run_id and fact.type in STEP_CLOSING}
    ended = {fact.run_id for fact in facts if fact.run_id and fact.type in PRIMING}
    if not (turn_ids or run_ids or ended):
        return Words()
    turns, answers = _load_turns(turn_ids, ended)
    steps = {
        (run_id, step.index): StepTextRecord(step.text, step.reasoning, tuple(call.name for call in step.tool_calls))
        for run_id, step in agents.list_steps_of(run_ids)
    }
    return Words(turns, steps, answers)


def _load_turns(turn_ids: list[str], ended: set[UUID]) -> tuple[dict[str, TurnWords], dict[UUID, str]]:
    if not (turn_ids or ended):
        return {}, {}
    rows = list(Turn.objects.filter(Q(pk__in=turn_ids) | Q(run_id__in=ended, is_answer=True)))
    asked = [row.tool_call_ids[0] for row in rows if row.role == "user" and row.tool_call_ids]
    questions = tools.find_question_ids(asked) if asked else {}
    turns = {
        str(row.pk): TurnWords(
            row.content,
            row.error_message,
            row.error_code,
            questions.get((row.tool_call_ids or [""])[0], "") if row.role == "user" else "",
        )
        for row in rows
    }
    return turns, {row.run_id: row.content for row in rows if row.is_answer and row.run_id}


def _withdrawn(fact: SessionEvent, said: list[Compact]) -> list[Compact]:
    """The end of live text that turned out to be none: a second attempt at its step said nothing, so that no stored
    message takes its place."""
    activity = activity_of(fact.run_id, fact.step)
    if any(message.get("d", {}).get("activity_id") == activity for message in said):
        return []
    return [forget(activity, "resumed", resume_timestamps.before(fact.ts or 0, resume_timestamps.MOST_BEFORE, 0))]


def _pages(session_id: UUID, place: ResumePosition, until: int | None) -> Iterator[list[SessionEvent]]:
    while True:
        events = timeline.list_events(session_id, after=place.seq, limit=_A_PAGE)
        if until is not None:
            events = [event for event in events if event.seq <= until]
        if events:
            yield [SessionEvent.of(event) for event in events]
        if len(events) < _A_PAGE:
            return
