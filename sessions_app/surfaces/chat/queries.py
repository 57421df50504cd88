"""Queries of the page. Every function is synchronous; the number of its queries does not grow with the data."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from uuid import UUID

from django.db import DatabaseError, transaction
from django.utils.safestring import SafeString, mark_safe

from agents_app import selectors as agents
from agents_app.types import RunStatus, RunView
from sessions_app import hot_queries, selectors
from sessions_app.identity.actor_names import deciders, name_of_deciders, names_of
from sessions_app.models import Session, Turn
from sessions_app.surfaces.chat import markdown
from sessions_app.surfaces.chat.approval_cards import ApprovalCard, card_of
from sessions_app.surfaces.chat.turn_views import (
    LONGEST_REASONING,
    RunDetails,
    TurnView,
    open_turn_view,
    stored_turn_view,
)
from tools_app import selectors as tools
from tools_app.executions import preview
from tools_app.types import ApprovalStatus, ApprovalView, Decision, ExecutionView

logger = logging.getLogger(__name__)

TURNS_AT_ONCE = 50
_LONGEST_RUN = 500  # turns of one run that does not fit a page


@dataclass(frozen=True)
class TurnPage:
    """Turns, oldest first. older_than: the ordinal before which there are older ones, None if there are none."""

    turn_views: tuple[TurnView, ...]
    older_than: int | None


def read_newest(session: Session, *, allowed_decisions: Collection[Decision] = ()) -> TurnPage:
    """Return the newest turns, with open runs. Read the cursor of the timeline before, never after.

    allowed_decisions: those of the reader on requests for approval.
    """
    runs = agents.list_open_runs(session.id)
    turns, older_than = _whole_runs(session, None)
    return TurnPage(_turn_views(turns, runs, _stored_html(turns), allowed_decisions), older_than)


def read_older(session: Session, before: int) -> TurnPage:
    """Return the turns before that ordinal."""
    turns, older_than = _whole_runs(session, before)
    return TurnPage(_turn_views(turns, (), _stored_html(turns)), older_than)


def read_approval(approval_id: UUID, *, allowed_decisions: Collection[Decision]) -> ApprovalCard:
    """Return the card of a request for approval, for a reader with those decisions. Raises NotFound."""
    approval = tools.get_approval(approval_id)
    return _card_of(approval, allowed_decisions, name_of_deciders(approval))


def find_turn_view(session: Session, run_id: UUID) -> TurnView | None:
    """Return the turn of one run of the session as it is now, None if there is no such run."""
    turns = hot_queries.LIST_TURNS_OF_RUN.fetch(session_id=session.id, run_id=run_id)
    runs: tuple[RunView, ...] = ()
    if not any(turn.is_answer for turn in turns):
        runs = agents.list_open_runs(session.id)
        if run_id not in {run.id for run in runs}:
            # It has ended since, or its end is not stored yet.
            turns = hot_queries.LIST_TURNS_OF_RUN.fetch(session_id=session.id, run_id=run_id)
    # Renderings are not stored here: this runs at the end of every answer, when others wait to write.
    found = _turn_views(turns, runs, _html_of(turns)[0])
    return next((turn_view for turn_view in found if turn_view.run_id == run_id), None)


def find_new_turn_view(session: Session, run_id: UUID) -> TurnView | None:
    """Return the turn of a run that was just queued: the question and its place in the queue.

    Later events have updates of their own. Two queries, because this delays the first text of every answer.
    """
    runs = agents.list_open_runs(session.id)
    run = next((run for run in runs if run.id == run_id), None)
    if run is None:
        return find_turn_view(session, run_id)
    turns = hot_queries.LIST_USER_TURNS.fetch(session_id=session.id, run_id=run_id)
    return open_turn_view(run, turns, None, markdown.render, place=_place_of(run, runs))


def _whole_runs(session: Session, before: int | None) -> tuple[list[Turn], int | None]:
    """Return the newest turns before an ordinal, of whole runs, and the ordinal before which there are more."""
    place = None if before is None else (before, 0)
    turns = list(selectors.list_turns(session, limit=TURNS_AT_ONCE + 1, before=place))
    if len(turns) <= TURNS_AT_ONCE:
        return turns, None
    first = turns[0].ordinal
    whole = [turn for turn in turns if turn.ordinal != first]
    if whole:
        return whole, whole[0].ordinal
    # A single run fills the page: take all of it.
    turns = list(selectors.list_turns(session, limit=_LONGEST_RUN, before=(first + 1, 0)))
    return [turn for turn in turns if turn.ordinal == first], first


def _turn_views(
    turns: Sequence[Turn],
    open_runs: Sequence[RunView],
    html: Mapping[UUID, SafeString],
    allowed_decisions: Collection[Decision] = (),
) -> tuple[TurnView, ...]:
    groups = {ordinal: list(group) for ordinal, group in groupby(turns, key=lambda turn: turn.ordinal)}
    ids = {UUID(name) for turn in turns if turn.role == "assistant" for name in turn.tool_call_ids or []}
    executions = {str(view.id): view for view in tools.list_executions_of(ids)} if ids else {}
    under_way = {run.id: agents.get_transcript(run.id) for run in open_runs if run.status is not RunStatus.QUEUED}
    shown = [*executions.values(), *(item for transcript in under_way.values() for item in transcript.executions)]
    approvals = _approvals(shown, allowed_decisions)
    details = _details_of(turns)
    found: dict[int, TurnView] = {}
    for run in open_runs:
        found[run.ordinal] = open_turn_view(
            run,
            groups.get(run.ordinal, []),
            under_way.get(run.id),
            markdown.render,
            place=_place_of(run, open_runs),
            approvals=approvals,
        )
    for ordinal, group in groups.items():
        if ordinal in found:
            continue
        if not any(turn.is_answer for turn in group) and (run_id := group[0].run_id):
            # It has ended, but its answer is not stored yet: shown as it was at its last step.
            transcript = agents.get_transcript(run_id)
            found[ordinal] = open_turn_view(transcript.run, group, transcript, markdown.render)
        else:
            found[ordinal] = stored_turn_view(group, executions, lambda turn: html[turn.pk], approvals, details)
    return tuple(found[ordinal] for ordinal in sorted(found))


def _details_of(turns: Sequence[Turn]) -> RunDetails:
    """Return what the turns of ended runs do not contain. One query, two if runs were stopped without any text."""
    answered = {turn.run_id for turn in turns if turn.is_answer and turn.run_id}
    if not answered:
        return RunDetails()
    empty = {turn.run_id for turn in turns if turn.run_id and turn.error_code == "cancelled" and not turn.content}
    withdrawn = frozenset(agents.list_withdrawn(empty)) if empty else frozenset()
    return RunDetails(agents.list_reasoning(answered, LONGEST_REASONING), withdrawn)


def _place_of(run: RunView, open_runs: Sequence[RunView]) -> int:
    """Return the place of a run in the queue, from 1."""
    return 1 + sum(other.status is RunStatus.QUEUED and other.ordinal < run.ordinal for other in open_runs)


def _approvals(
    executions: Sequence[ExecutionView], allowed_decisions: Collection[Decision]
) -> dict[UUID, ApprovalCard]:
    """Return the requests for approval of these calls, by execution id. Two queries."""
    found = tools.list_approvals_of([execution.id for execution in executions]) if executions else ()
    sessions = {approval.session_id for approval in found}
    names = names_of({actor for item in found for actor in deciders(item)}, next(iter(sessions), None))
    return {
        item.execution_id: _card_of(item, allowed_decisions, " and ".join(names[actor] for actor in deciders(item)))
        for item in found
    }


def _card_of(approval: ApprovalView, allowed_decisions: Collection[Decision], name: str) -> ApprovalCard:
    change = preview.find_change(approval) if approval.status is ApprovalStatus.PENDING else None
    return card_of(approval, change, allowed_decisions=allowed_decisions, name=name)


def _stored_html(turns: Sequence[Turn]) -> dict[UUID, SafeString]:
    """Return `_html_of` the turns, and store new renderings for the next reader."""
    html, fresh = _html_of(turns)
    if fresh:
        _store(fresh)
    return html


def _html_of(turns: Sequence[Turn]) -> tuple[dict[UUID, SafeString], list[Turn]]:
    """Return the HTML of each assistant turn by id, and the turns that had no rendering by the current rules."""
    answers = [turn for turn in turns if turn.role == "assistant" and turn.content]
    fresh = [turn for turn in answers if not turn.html.startswith(markdown.VERSION)]
    for turn in fresh:
        names = {citation.id: str(citation.number) for citation in selectors.citations_of(turn)}
        turn.html = markdown.VERSION + markdown.render(turn.content, {"cited": names.get})
    return {turn.pk: mark_safe(turn.html.removeprefix(markdown.VERSION)) for turn in answers}, fresh  # noqa: S308 - sanitised


def _store(turns: Sequence[Turn]) -> None:
    try:
        with transaction.atomic():
            Turn.objects.exclude(html__startswith=markdown.VERSION).bulk_update(turns, ["html"])
    except DatabaseError as error:
        logger.warning("cannot store the renderings of %d turns: %s", len(turns), error)
