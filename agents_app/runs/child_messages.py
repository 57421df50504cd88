"""Messages between runs and their child runs, results among them, and the columns of runs that wait for them.

All functions join the caller's transaction.

Rows are locked from the root downwards. A child run does not write to its parent: its result stays in its own row until
the parent, which holds its own row's lock, collects it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from agents_app import conversation_port, hot_queries
from agents_app.models import IS_OPEN, IS_UNCOLLECTED, IS_WORKING, Run, RunMessage, children_of, lock_open_below
from agents_app.prompt import child_texts
from agents_app.runs import transitions
from agents_app.types import Message, RunStatus, Snapshot, WaitingOn
from agents_app.types.child_runs import (
    MOST_PAUSED_SECONDS,
    PROGRESS_SECONDS,
    ChildReport,
    MessageKind,
    RunKind,
    WorkingChild,
    state_of,
)
from audit_app.kernel.ids import new_id
from audit_app.kernel.nudges import nudge
from tools_app import selectors as tools
from tools_app.run_progress import find_progress
from tools_app.storage import artifacts

# Percent of the time of a deadline at which warnings are sent, and at which it has passed.
PARENT_AT, CHILD_AT, LAST_AT, END_AT = PARTS = (75, 80, 90, 100)
_RESULTS = (MessageKind.RESULT, MessageKind.REPORT)
_REPORTS = (*_RESULTS, MessageKind.NOTICE)
# What `collect` and the reports need: whole rows, with agents, take three times as long.
_COLLECTED: tuple[str, ...] = (
    "conversation_id",
    "workstream",
    "depth",
    "listener_id",
    "spec",
    "status",
    "waiting_on",
    "end_stored",
)
_COLLECTED += ("is_paused", "paused_by", "terminated_at", "ended_at", "error_message", "answer")
_ON_CHILDREN = Q(status=RunStatus.WAITING.value, waiting_on=WaitingOn.CHILDREN.value, owner=None)
_ON_PARENT = Q(status=RunStatus.WAITING.value, waiting_on=WaitingOn.PARENT.value, owner=None)


def user_turns_of(run: Run) -> tuple[Message, ...]:
    """Return the user turns of a run in a tree and the messages to it, in the order in which they came."""
    turns = () if run.parent_id else conversation_port.get().user_turns(run.id)
    return child_texts.merge_turns(turns, _messages_to(run.id))


def _messages_to(run_id: UUID) -> list[tuple[int, Message]]:
    rows = hot_queries.LIST_RUN_MESSAGES.rows(run_id=run_id)
    return [
        (
            position,
            Message(
                "user",
                text,
                is_report=kind in _REPORTS,
                is_result=kind in _RESULTS,
                is_final=kind == MessageKind.FINISH,
                about=(str(child_id), name),
            ),
        )
        for position, kind, text, child_id, name in rows
    ]


@dataclass(frozen=True)
class RunNote:
    """A message to a run.

    about: a child run.
    key: id of the message; a second one with it is not sent.
    resumes: a run that waits for its children, or for its parent, continues.
    """

    kind: MessageKind
    text: str
    about: UUID | None = None
    key: UUID | None = None
    resumes: bool = True


def send(run_id: UUID, note: RunNote) -> bool:
    """Send a message to an open run. Return False if it has ended. Locks its row."""
    if note.key and RunMessage.objects.filter(pk=note.key).exists():
        return True
    is_sent = _store(run_id, [note])
    if is_sent and note.resumes:
        resume_waiting(run_id)
    return is_sent


def _store(run_id: UUID, notes: Sequence[RunNote]) -> bool:
    """Store messages to an open run. Return False if it has ended. Locks its row."""
    counted = hot_queries.COUNT_MESSAGES.rows(run_id=run_id, number=len(notes))
    if not counted:
        return False
    first = counted[0][0] - len(notes)
    hot_queries.INSERT_RUN_MESSAGE.run([_row(run_id, first + place, note) for place, note in enumerate(notes)])
    return True


def _row(run_id: UUID, position: int, note: RunNote) -> RunMessage:
    key = note.key or new_id()
    return RunMessage(
        id=key, run_id=run_id, position=position, kind=note.kind.value, text=note.text, about_id=note.about
    )


def ask_to_finish(run: Run, text: str) -> None:
    """Ask an open child run, and all below it, to answer with what they have. The caller has locked its row."""
    send(run.pk, RunNote(MessageKind.FINISH, text))
    for child in lock_open_below(run):
        is_idle = child.waiting_on == WaitingOn.PARENT.value
        send(child.pk, RunNote(MessageKind.FINISH, child_texts.FINISH, resumes=not is_idle))


def resume_waiting(run_id: UUID) -> None:
    """Let a run continue that waits for its children or its parent. Its deadline counts again."""
    Run.objects.filter(_ON_CHILDREN, pk=run_id).update(ready_at=Now())
    for row in Run.objects.filter(_ON_PARENT, pk=run_id).only("seconds_left", "spec", "root_id", "depth"):
        timed = paused(False) | deadline_resumed(row.seconds_left, row.child_spec.deadline_seconds)
        timed["held_seconds"] = held_seconds_of(row)
        Run.objects.filter(_ON_PARENT, pk=run_id).update(ready_at=Now(), waiting_on="", end_stored=False, **timed)
    nudge(transitions.ADVANCE, str(run_id), queue=transitions.QUEUE)


def waiting_columns(run: Run, answer: str | None) -> dict[str, Any]:
    """Return the columns to set when a child run begins to wait for its parent. answer: None if it is paused.

    The time in which it waits does not count against its deadline. A pause by a person is no result for the parent.
    """
    row = Run.objects.only("deadline_at", "held_seconds", "root_id", "depth", "is_paused", "paused_by").get(pk=run.pk)
    held = held_seconds_of(row) - row.held_seconds
    left = (row.deadline_at - timezone.now()).total_seconds() + held if row.deadline_at else None
    result = {} if answer is None else {"answer": answer}
    is_held = answer is None and row.paused_by != ""
    return {"deadline_at": None, "seconds_left": left, "end_stored": is_held, **paused(row.is_paused), **result}


def paused(is_paused: bool) -> dict[str, Any]:
    """Return the columns of a child run that waits for its parent: the end of its pause, if it is paused."""
    return {"alarm_at": timezone.now() + timedelta(seconds=MOST_PAUSED_SECONDS) if is_paused else None}


def held_seconds_of(run: Run, until: datetime | None = None) -> float:
    """Return for how long a run in a tree, or a run below it, has waited for a person. until: default now."""
    rows = Run.objects.filter(root_id=run.root_id or run.pk, depth__gt=run.depth).order_by("depth")
    below = {run.pk}
    for run_id, parent_id in rows.values_list("id", "parent_id"):
        if parent_id in below:
            below.add(run_id)
    seconds, counted_until, now = 0.0, None, until or timezone.now()
    for began, ended in tools.list_waits(below):
        began, ended = max(began, counted_until or began), min(ended or now, now)
        seconds += max((ended - began).total_seconds(), 0.0)
        counted_until = max(ended, counted_until or ended)
    return seconds


def receive(run: Run, *, adopts: bool) -> None:
    """Store the results of a claimed run's child runs as messages to it. The caller has locked its row.

    adopts: first become the listener of those that are on their own.
    """
    if adopts:
        run.child_count += _adopt(run)
    if not run.child_count:
        return
    collect(run.pk)
    if adopts and run.kind == RunKind.REPORT.value:
        send(run.pk, RunNote(MessageKind.DIRECTIVE, child_texts.REPORTED, resumes=False))


def _adopt(run: Run) -> int:
    """Make a run the listener of the child runs that are on their own. Return their number."""
    rows = hot_queries.on_their_own(run.conversation_id, run.actor).select_for_update(no_key=True)
    children = list(rows.order_by("id"))
    ids = [child.pk for child in children]
    Run.objects.filter(pk__in=ids).update(listener=run.pk, is_on_its_own=False, progress_at=None)
    Run.objects.filter(pk=run.pk).update(child_count=F("child_count") + len(ids))
    for child in children:
        if child.progress_at and child.is_working:
            _send_progress(run.pk, child)
    return len(ids)


def _send_progress(run_id: UUID, child: Run) -> None:
    if progress := find_progress(tools.list_executions(child.pk)):
        text = child_texts.progress_text(child.workstream, child.pk, progress)
        send(run_id, RunNote(MessageKind.NOTICE, text, about=child.pk, resumes=False))


def note_progress(run: Run) -> None:
    """Let the progress that a child run's last calls have reported start a run, if its changes are notified.

    That is once it is on its own, and a while after the last run that got its results began. The caller has locked its
    row.
    """
    if not (run.child_spec.notifies_changes and run.outlives):
        return
    executions = tools.list_executions(run.pk)
    if not find_progress(call for call in executions if call.step == executions[-1].step):
        return
    row, progress_at = Run.objects.select_related("listener").get(pk=run.pk), timezone.now()
    if row.listener and row.listener.started_at:
        progress_at = max(progress_at, row.listener.started_at + timedelta(seconds=PROGRESS_SECONDS))
    Run.objects.filter(pk=run.pk).update(progress_at=progress_at)


def collect(run_id: UUID) -> tuple[WorkingChild, ...]:
    """Store the results that the run's children have for it as messages to it. The caller has locked the run's row.

    Return the children that work.
    """
    # One statement: a child that ends meanwhile is either working or uncollected.
    rows = Run.objects.filter(children_of(run_id), Q(IS_OPEN) | IS_UNCOLLECTED, is_on_its_own=False)
    uncollected, working = [], []
    for child in rows.only(*_COLLECTED).order_by("ended_at", "id"):
        if child.is_working:
            working.append(WorkingChild(str(child.id), child.workstream, child.outlives))
        elif not child.end_stored:
            uncollected.append(child)
    if uncollected:
        _store_results(run_id, uncollected)
    return tuple(working)


def _store_results(run_id: UUID, children: Sequence[Run]) -> None:
    Run.objects.filter(pk__in=[child.pk for child in children]).update(end_stored=True)
    ended = [child.pk for child in children if child.ended_at]
    files = artifacts.list_paths_of(children[0].conversation_id, ended) if ended else {}
    _store(run_id, [_result_note(child, files.get(child.pk, ())) for child in children])


def return_results(run: Run, unread_from: int) -> None:
    """Leave the results that a run has got, and has not answered with, to the next run. The caller has locked its row.

    unread_from: number of its user turns that the model has received.
    """
    messages = RunMessage.objects.filter(run_id=run.pk)
    about = messages.filter(kind__in=_RESULTS).values_list("about_id", flat=True)
    Run.objects.filter(children_of(run.pk), pk__in=list(about)).update(end_stored=False)
    messages.filter(position__gte=unread_from).delete()
    Run.objects.filter(pk=run.pk).update(user_turn_count=unread_from)


def _result_note(child: Run, files: Sequence[str]) -> RunNote:
    kind = MessageKind.REPORT if child.ended_at else MessageKind.RESULT
    state = state_of(child.status, is_terminating=child.terminated_at is not None)
    is_paused, error = child.ended_at is None and child.is_paused, child.error_message if child.ended_at else ""
    report = ChildReport(child.pk, child.workstream, state, is_paused, error, child.answer)
    return RunNote(kind, child_texts.report_text(report, files), about=child.pk, resumes=False)


def working_of(run_id: UUID) -> tuple[WorkingChild, ...]:
    """Return the children that work or have an uncollected result. Reads only."""
    rows = Run.objects.filter(children_of(run_id), IS_WORKING | IS_UNCOLLECTED)
    children = rows.only("workstream", "depth", "listener_id", "spec")
    return tuple(WorkingChild(str(child.id), child.workstream, child.outlives) for child in children)


def refreshed(run: Run, snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with what the run's parent and children have changed. The caller has locked the run's row.

    run: as claimed. Its messages were read after it, so that they are the same while their number is.
    """
    working = collect(run.pk) if run.child_count else ()
    [(turns, cancelled_at, is_paused, terminated_at, is_awaited)] = hot_queries.GET_TREE_REQUESTS.rows(run_id=run.pk)
    return replace(
        snapshot,
        user_turns=snapshot.user_turns if turns == run.user_turn_count else user_turns_of(run),
        working=working,
        cancel_requested=cancelled_at is not None,
        has_later_message=is_awaited,
        is_paused=is_paused,
        is_terminating=terminated_at is not None,
    )


def deadline_started(seconds: int) -> dict[str, Any]:
    """Return the columns of a deadline that begins to count now."""
    return deadline_resumed(float(seconds), seconds)


def deadline_resumed(seconds_left: float | None, seconds: int) -> dict[str, Any]:
    """Return the columns of a deadline of which this much is left. seconds: the whole time."""
    if seconds_left is None:
        return {}
    deadline_at = timezone.now() + timedelta(seconds=max(seconds_left, 1.0))
    used = 100 * (1 - seconds_left / seconds)
    part = next((part for part in PARTS if part > used), END_AT)
    return {"deadline_at": deadline_at, "seconds_left": None, "alarm_at": alarm_of(deadline_at, seconds, part)}


def alarm_of(deadline_at: datetime, seconds: int, part: int) -> datetime:
    """Return the time at which this part of the deadline has passed."""
    return deadline_at - timedelta(seconds=seconds * (END_AT - part) / 100)


def part_of(deadline_at: datetime, seconds: int, alarm_at: datetime) -> int:
    """Return the part of the deadline that an alarm stands for."""
    used = END_AT - 100 * (deadline_at - alarm_at).total_seconds() / seconds
    return min(PARTS, key=lambda part: abs(part - used))
