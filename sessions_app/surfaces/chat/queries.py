"""Queries of the page. Every function is synchronous; the number of its queries does not grow with the data."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from uuid import UUID

from django.contrib.auth.models import User
from django.db import DatabaseError, transaction
from django.db.models import Min
from django.utils.safestring import SafeString, mark_safe

from agents_app import selectors as agents
from agents_app.types import RunStatus, RunTranscript, RunView
from sessions_app import feedback, hot_queries, selectors
from sessions_app.conversation.branch_paths import versions_of
from sessions_app.conversation.branches import load
from sessions_app.identity.actor_names import deciders, name_of_deciders, names_of
from sessions_app.models import Checkpoint, Session, Turn
from sessions_app.surfaces.base import markdown
from sessions_app.surfaces.chat.approval_cards import ApprovalCard, card_of
from sessions_app.surfaces.chat.sent_files import with_files
from sessions_app.surfaces.chat.tool_cards import CallDetails, InputRequest
from sessions_app.surfaces.chat.turn_views import (
    LONGEST_REASONING,
    Compacted,
    RunDetails,
    TurnView,
    open_turn_view,
    stored_turn_view,
    with_workstreams,
)
from sessions_app.surfaces.chat.workstream_queries import ChildRuns
from tools_app import selectors as tools
from tools_app.executions import preview
from tools_app.run_progress import BATCH
from tools_app.types import ApprovalStatus, ApprovalView, Decision, ExecutionView
from tools_app.types.questions import REMOTE_PREFIXES

logger = logging.getLogger(__name__)

TURNS_AT_ONCE = 50
MOST_AT_ONCE = 2_000  # turns down to a message that the reader opens
_LONGEST_RUN = 500  # turns of one run that does not fit a page


@dataclass(frozen=True)
class TurnPage:
    """Turns, oldest first. older_than: the ordinal before which there are older ones, None if there are none."""

    turn_views: tuple[TurnView, ...]
    older_than: int | None


def read_newest(
    session: Session, *, allowed_decisions: Collection[Decision] = (), down_to: UUID | None = None
) -> TurnPage:
    """Return the newest turns, with open runs. Read the cursor of the timeline before, never after.

    down_to: a run of the session whose turns are read too, with those after it, unless they are too many.
    allowed_decisions: decisions of the reader on requests for approval.
    """
    runs = agents.list_open_runs(session.id)
    turns, older_than = _whole_runs(session, None, _count_down_to(session, down_to) if down_to else 0)
    found = _turn_views(turns, runs, _stored_html(turns), allowed_decisions)
    return TurnPage(_with_versions(session, turns, found), older_than)


def read_older(session: Session, before: int) -> TurnPage:
    """Return the turns before that ordinal."""
    turns, older_than = _whole_runs(session, before)
    return TurnPage(_with_versions(session, turns, _turn_views(turns, (), _stored_html(turns))), older_than)


def with_ratings(page: TurnPage, user: User) -> TurnPage:
    """Return the page with the user's ratings of its answers. One query."""
    found = feedback.ratings_of(user, [view.run_id for view in page.turn_views if view.run_id])
    if not found:
        return page
    views = (replace(view, rating=found.get(view.run_id)) if view.run_id else view for view in page.turn_views)
    return replace(page, turn_views=tuple(views))


def read_approval(approval_id: UUID, *, allowed_decisions: Collection[Decision]) -> ApprovalCard:
    """Return the card of a request for approval, for a reader with those decisions. Raises NotFound."""
    approval = tools.get_approval(approval_id)
    return _card_of(approval, allowed_decisions, name_of_deciders(approval))


def pending_card(approval: ApprovalView, allowed_decisions: Collection[Decision]) -> ApprovalCard:
    """Return the card of a pending request. Two queries if one of two people has allowed it."""
    return _card_of(approval, allowed_decisions, name_of_deciders(approval) if approval.first_allowed_by else "")


def find_turn_view(session: Session, run_id: UUID) -> TurnView | None:
    """Return the turn of one run of the session as it is now, None if the active branch has no such run."""
    turns = hot_queries.LIST_TURNS_OF_RUN.fetch(session_id=session.id, run_id=run_id)
    if any(turn.is_off_path for turn in turns):
        return None
    runs: tuple[RunView, ...] = ()
    if not any(turn.is_answer for turn in turns):
        runs = agents.list_open_runs(session.id)
        if run_id not in {run.id for run in runs}:
            # It has ended since, or its end is not stored yet.
            turns = hot_queries.LIST_TURNS_OF_RUN.fetch(session_id=session.id, run_id=run_id)
    # This runs at the end of every answer, when others wait to write: renderings are not stored here, and the details,
    # which few answers have, are not read one by one.
    is_plain = not runs and not hot_queries.FIND_DETAILED_RUN.rows(run_id=run_id)
    found = _turn_views(turns, runs, _html_of(turns)[0], is_plain=is_plain)
    return next((turn_view for turn_view in found if turn_view.run_id == run_id), None)


def list_turn_ids(session: Session, run_id: UUID, *, of_answer: bool) -> list[UUID]:
    """Return the ids of the user turns of a run with text, or of its answer."""
    turns = Turn.objects.filter(session=session, run_id=run_id).exclude(content="")
    chosen = turns.filter(is_answer=True) if of_answer else turns.filter(role="user", tool_call_ids__isnull=True)
    return list(chosen.order_by("part").values_list("pk", flat=True))


def find_new_turn_view(session: Session, run_id: UUID) -> TurnView | None:
    """Return the turn of a run that was just queued: the question and its place in the queue.

    Later events have updates of their own. Two queries, because this delays the first text of every answer.
    """
    runs = agents.list_open_runs(session.id)
    run = next((run for run in runs if run.id == run_id), None)
    if run is None:
        return find_turn_view(session, run_id)
    turns = hot_queries.LIST_USER_TURNS.fetch(session_id=session.id, run_id=run_id)
    return with_files(open_turn_view(run, turns, None, markdown.render, place=_place_of(run, runs)), turns)


def _with_versions(session: Session, turns: Sequence[Turn], found: tuple[TurnView, ...]) -> tuple[TurnView, ...]:
    """Return the views with the alternatives to their messages, without messages that were removed from the queue.

    A removed one stays if it has alternatives: they are selected there.
    """
    branches = load(session.id)
    if not branches:
        return tuple(view for view in found if not view.is_withdrawn)
    branch_of = {turn.ordinal: turn.branch for turn in turns}
    views = []
    for view in found:
        versions = versions_of(branches, branch_of.get(view.ordinal, 0), view.ordinal)
        if versions or not view.is_withdrawn:
            views.append(replace(view, versions=versions))
    return tuple(views)


def _count_down_to(session: Session, run_id: UUID) -> int:
    """Return the number of turns from this run of the session to the newest; 0 if the active branch has no such run."""
    turns = Turn.objects.filter(selectors.ON_PATH, session=session)
    first = turns.filter(run_id=run_id).aggregate(first=Min("ordinal"))["first"]
    return 0 if first is None else turns.filter(ordinal__gte=first).count()


def _whole_runs(session: Session, before: int | None, at_least: int = 0) -> tuple[list[Turn], int | None]:
    """Return the newest turns before an ordinal, of whole runs, and the ordinal before which there are more."""
    place, most = None if before is None else (before, 0), max(TURNS_AT_ONCE, min(at_least, MOST_AT_ONCE))
    turns = list(selectors.list_turns(session, limit=most + 1, before=place))
    if len(turns) <= most:
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
    *,
    is_plain: bool = False,
) -> tuple[TurnView, ...]:
    """Return the views of the turns. is_plain: their runs have no child runs, and no details beside their turns."""
    groups = {ordinal: list(group) for ordinal, group in groupby(turns, key=lambda turn: turn.ordinal)}
    ids = {UUID(name) for turn in turns if turn.role == "assistant" for name in turn.tool_call_ids or []}
    executions = {str(view.id): view for view in tools.list_executions_of(ids)} if ids else {}
    under_way = {run.id: agents.get_transcript(run.id) for run in open_runs if run.status is not RunStatus.QUEUED}
    under_way = {run_id: _with_asking_items(found) for run_id, found in under_way.items()}
    calls = [*executions.values(), *(item for transcript in under_way.values() for item in transcript.executions)]
    roots = {turn.run_id for turn in turns if turn.run_id} | under_way.keys()
    children = ChildRuns(agents.list_descendants(roots) if roots and not is_plain else ())
    shown = [*calls, *children.executions]
    batch_ids = _batch_ids(shown)
    batches = tools.list_batches(batch_ids) if batch_ids else {}
    shown_calls = CallDetails(_approvals(shown, allowed_decisions), batches, asked_during(shown))
    details = RunDetails(withdrawn=_withdrawn(turns)) if is_plain else _details_of(turns)
    found: dict[int, TurnView] = {}
    for run in open_runs:
        found[run.ordinal] = open_turn_view(
            run,
            groups.get(run.ordinal, []),
            under_way.get(run.id),
            markdown.render,
            place=_place_of(run, open_runs),
            calls=shown_calls,
        )
    for ordinal, group in groups.items():
        if ordinal in found:
            continue
        if not any(turn.is_answer for turn in group) and (run_id := group[0].run_id):
            # It has ended, but its answer is not stored yet: shown as it was at its last step.
            transcript = agents.get_transcript(run_id)
            found[ordinal] = open_turn_view(transcript.run, group, transcript, markdown.render)
        else:
            found[ordinal] = stored_turn_view(group, executions, lambda turn: html[turn.pk], shown_calls, details)
    cards = {
        run_id: children.cards_of(run_id, [one for one in calls if one.run_id == run_id], shown_calls)
        for run_id in children.parents & roots
    }
    return tuple(
        with_files(with_workstreams(found[ordinal], cards), groups.get(ordinal, ())) for ordinal in sorted(found)
    )


def asked_during(executions: Iterable[ExecutionView]) -> dict[UUID, InputRequest]:
    """Return what calls of servers have asked while they ran, by call. No query without such calls."""
    ids = [execution.id for execution in executions if execution.tool.startswith(REMOTE_PREFIXES)]
    return {key: InputRequest.of_call(*asked) for key, asked in tools.list_asked(ids).items()} if ids else {}


def _batch_ids(executions: Iterable[ExecutionView]) -> list[UUID]:
    return [execution.id for execution in executions if execution.tool == BATCH]


def _with_asking_items(transcript: RunTranscript) -> RunTranscript:
    """Return the transcript with those items of its batches that ask for an approval: each has a card of its own."""
    batch_ids = _batch_ids(transcript.executions)
    if not batch_ids:
        return transcript
    return replace(transcript, executions=(*transcript.executions, *tools.list_asking_items(batch_ids)))


def _details_of(turns: Sequence[Turn]) -> RunDetails:
    """Return what the turns of ended runs do not contain. Three queries, four if runs were stopped without text."""
    answered = {turn.run_id for turn in turns if turn.is_answer and turn.run_id}
    if not answered:
        return RunDetails()
    reasoning = agents.list_reasoning(answered, LONGEST_REASONING)
    return RunDetails(reasoning, _withdrawn(turns), agents.list_fallbacks(answered), _compactions_of(answered))


def _withdrawn(turns: Sequence[Turn]) -> frozenset[UUID]:
    """Return the runs among those of the turns that were cancelled before they began."""
    empty = {turn.run_id for turn in turns if turn.run_id and turn.error_code == "cancelled" and not turn.content}
    return frozenset(agents.list_withdrawn(empty)) if empty else frozenset()


def _compactions_of(run_ids: Collection[UUID]) -> dict[UUID, tuple[Compacted, ...]]:
    found: dict[UUID, tuple[Compacted, ...]] = {}
    for row in Checkpoint.objects.filter(run_id__in=run_ids).order_by("index"):
        if row.run_id:
            shown = Compacted(row.pk, row.tokens_before, row.tokens_after, row.summary)
            found[row.run_id] = (*found.get(row.run_id, ()), shown)
    return found


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
    is_open = approval.status is ApprovalStatus.PENDING
    change = preview.find_change(approval) if is_open else None
    return card_of(
        preview.targets_first(approval) if is_open else approval, change, allowed_decisions=allowed_decisions, name=name
    )


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
