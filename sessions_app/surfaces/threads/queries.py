"""Reads the messages of threads: each user turn is a message, and all assistant turns of a run are one.

The message of a run has the run's id, so that clients know it while it is streamed. It is listed when the run has
ended, and while the run waits for the user's answer to a question.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from agents_app import selectors as agents
from agents_app.models import Run, Step
from agents_app.types import RunStatus, RunTranscript, RunView, WaitingOn
from audit_app.kernel.errors import NotFound
from sessions_app import selectors
from sessions_app.models import MessageExtras, Session, Turn
from sessions_app.surfaces.threads.message_parts import Part, StoredStep, parts_of, steps_of, text_of
from tools_app import selectors as tools
from tools_app.types import ExecutionView

# User turns, the answers of runs, and messages that clients wrote or brought from elsewhere.
_LISTED = Q(role="user") | Q(is_answer=True) | (Q(run=None, role__in=("assistant", "system")) & ~Q(content=""))
_LONGEST_MODEL_ID = 64


@dataclass(frozen=True)
class ThreadMessage:
    """A message of a thread.

    sequence: rises in the thread, with gaps.
    extras: content besides the text.
    details: as the protocol defines them.
    """

    id: UUID
    sequence: int
    role: str
    text: str
    is_error: bool
    extras: dict[str, Any]
    details: dict[str, Any] | None
    created_at: datetime


@dataclass(frozen=True)
class MessageFilter:
    """A page of a list of messages. role: of turns, or empty for all."""

    limit: int
    offset: int
    role: str = ""
    before: datetime | None = None
    newest_first: bool = True
    with_details: bool = True


def list_messages(session: Session, page: MessageFilter) -> tuple[list[ThreadMessage], int]:
    """Return a page of the thread's messages, and the number of all of them."""
    rows = Turn.objects.filter(_LISTED, session=session, is_off_path=False)
    if page.role:
        rows = rows.filter(role=page.role)
    if page.before:
        rows = rows.filter(created_at__lt=page.before)
    # The message of the waiting run is the newest, and has no row yet.
    waiting = _find_waiting(session) if page.role in ("", "assistant") and not page.before else None
    stored = rows.count()
    start, end = page.offset, page.offset + page.limit
    if page.newest_first:
        ahead = 1 if waiting else 0
        turns = rows.order_by("-ordinal", "-part")[max(0, start - ahead) : end - ahead]
        shown = [waiting] if waiting and start == 0 else []
    else:
        turns = rows.order_by("ordinal", "part")[start:end]
        shown = [waiting] if waiting and start <= stored < end else []
    messages = _messages(session, turns, page.with_details)
    unstored = [_waiting_message(run, page.with_details) for run in shown]
    together = [*unstored, *messages] if page.newest_first else [*messages, *unstored]
    return together, stored + (1 if waiting else 0)


def get_message(session: Session, message_id: UUID, *, with_details: bool = True) -> ThreadMessage:
    """Return a message. Raises NotFound, also for the message of a run that is active."""
    has_id = Q(pk=message_id, is_answer=False) | Q(pk=message_id, run=None) | Q(run_id=message_id, is_answer=True)
    turn = Turn.objects.filter(_LISTED & has_id, session=session).first()
    if turn is not None:
        return _messages(session, [turn], with_details)[0]
    waiting = _find_waiting(session)
    if waiting is None or waiting.id != message_id:
        raise NotFound("There is no such message in this thread, or it is not complete yet.")
    return _waiting_message(waiting, with_details)


def _messages(session: Session, turns: Sequence[Turn] | QuerySet[Turn], with_details: bool) -> list[ThreadMessage]:
    turns = list(turns)
    runs = _read_runs(session, {turn.run_id for turn in turns if turn.is_answer and turn.run_id})
    extras = MessageExtras.objects.in_bulk([turn.pk for turn in turns if not turn.run_id])
    return [_message(turn, runs, extras.get(turn.pk), with_details) for turn in turns]


def _message(
    turn: Turn, runs: dict[UUID, dict[str, Any]], stored: MessageExtras | None, with_details: bool
) -> ThreadMessage:
    message_id = turn.run_id if turn.is_answer and turn.run_id else turn.pk
    text, details = turn.content, stored.details if stored else None
    extras = dict(stored.content) if stored else {}
    if turn.is_answer:
        details = runs.get(message_id, {"parts": [], "steps": []})
        text = _answer_text(turn, details["parts"])
        extras = {"citations": [citation for part in details["parts"] for citation in part.get("citations") or ()]}
    return ThreadMessage(
        message_id,
        _sequence(turn.ordinal, turn.part),
        turn.role.upper(),
        text,
        turn.state == "error",
        extras,
        details if with_details else None,
        turn.created_at,
    )


def _answer_text(turn: Turn, parts: Sequence[Part]) -> str:
    text = text_of(parts) or turn.content
    return text if text and turn.state != "error" else f"{text}\n\n{turn.error_message}".strip()


def _sequence(ordinal: int, part: int) -> int:
    return ordinal * 100_000 + part


def _texts_of(session: Session, run_ids: Collection[UUID]) -> dict[UUID, list[Turn]]:
    """Return the turns that the agent wrote, by their run."""
    turns: dict[UUID, list[Turn]] = {run_id: [] for run_id in run_ids}
    for turn in Turn.objects.filter(session=session, run_id__in=run_ids, role="assistant").order_by("ordinal", "part"):
        turns[turn.run_id or turn.pk].append(turn)
    return turns


def _read_runs(session: Session, run_ids: Collection[UUID]) -> dict[UUID, dict[str, Any]]:
    """Return the details of the messages of ended runs, with five queries for any number of runs."""
    if not run_ids:
        return {}
    turns = _texts_of(session, run_ids)
    steps = {(step.run_id, step.index): step for step in Step.objects.filter(run_id__in=run_ids)}
    called = [UUID(call_id) for of_run in turns.values() for turn in of_run for call_id in _call_ids(turn)]
    executions = {execution.id: execution for execution in tools.list_executions_of(called)}
    questions = tools.list_questions_of(list(executions)) if executions else {}
    usage = {run.pk: run for run in Run.objects.filter(pk__in=run_ids).only("input_tokens", "output_tokens")}
    details = {}
    for run_id, of_run in turns.items():
        rows = [steps.get((run_id, index)) for index in range(len(of_run))]
        stored = [_stored_step(turn, step, executions, questions) for turn, step in zip(of_run, rows, strict=True)]
        last = next((step for step in reversed(rows) if step), None)
        details[run_id] = _details(run_id, stored, usage.get(run_id), last.model if last else "")
    return details


def _call_ids(turn: Turn) -> Sequence[str]:
    return () if turn.is_answer else turn.tool_call_ids or ()


def _stored_step(
    turn: Turn, step: Step | None, executions: dict[UUID, ExecutionView], questions: dict[UUID, str]
) -> StoredStep:
    """Return a step of a message. step: its model call, None if that is pruned."""
    called = [UUID(call_id) for call_id in _call_ids(turn)]
    return StoredStep(
        text=turn.content,
        started_at=step.started_at if step else turn.created_at,
        ended_at=step.ended_at if step else turn.created_at,
        reasoning=step.reasoning if step else "",
        citations=selectors.citations_of(turn),
        executions=tuple(executions[call] for call in called if call in executions),
        questions=tuple((call, questions[call]) for call in called if call in questions),
    )


def _details(run_id: UUID, steps: Sequence[StoredStep], usage: Run | None, model: str) -> dict[str, Any]:
    parts = parts_of(run_id, steps)
    details: dict[str, Any] = {"parts": parts, "steps": steps_of(parts)}
    if usage is not None:
        details["usage"] = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    if model:
        details["model_id"] = model[:_LONGEST_MODEL_ID]
    return details


def _find_waiting(session: Session) -> RunView | None:
    """Return the thread's run that waits for the user's answer to a question, if there is one."""
    run = agents.find_open_run(session.id)
    is_waiting = run is not None and run.status is RunStatus.WAITING and run.waiting_on is WaitingOn.INPUT
    return run if is_waiting else None


def _waiting_message(run: RunView, with_details: bool) -> ThreadMessage:
    transcript = agents.get_transcript(run.id)
    details = _details(run.id, _open_steps(transcript), None, "")
    part = sum(1 + len(step.tool_calls) for step in transcript.steps)
    return ThreadMessage(
        run.id,
        _sequence(run.ordinal, part),
        "ASSISTANT",
        text_of(details["parts"]),
        False,
        {"citations": []},
        details if with_details else None,
        run.started_at or run.created_at,
    )


def _open_steps(transcript: RunTranscript) -> list[StoredStep]:
    at = transcript.run.started_at or transcript.run.created_at
    questions = tools.list_questions_of([execution.id for execution in transcript.executions])
    return [
        StoredStep(
            step.text,
            at,
            at,
            step.reasoning,
            executions=tuple(execution for execution in transcript.executions if execution.step == step.index),
            questions=tuple(questions.items()),
        )
        for step in transcript.steps
    ]
