"""Reads threads and their messages as clients see them: a user's turn is a message, all that a run said is one.

The message of a run has the run's id, so that it has one while it is being written. It is read when the run has ended,
and while the run waits for its person's words.
"""

from collections.abc import Collection, Iterable, Sequence
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
from sessions_app.surfaces.threads.message_parts import StoredStep, parts_of, steps_of, text_of
from tools_app import selectors as tools
from tools_app.types import ExecutionView

# What a person or a client wrote, how runs ended, and what was said elsewhere before.
_LISTED = Q(role="user") | Q(is_answer=True) | (Q(run=None, role__in=("assistant", "system")) & ~Q(content=""))
_LONGEST_MODEL_ID = 64


@dataclass(frozen=True)
class Message:
    """sequence: rises in the thread, with gaps; extras: content beside the text; details: as the protocol has them."""

    id: UUID
    sequence: int
    role: str
    text: str
    is_error: bool
    extras: dict[str, Any]
    details: dict[str, Any] | None
    created_at: datetime


@dataclass(frozen=True)
class Wanted:
    """role: of turns, or empty; newest_first: else oldest first."""

    limit: int
    offset: int
    role: str = ""
    before: datetime | None = None
    newest_first: bool = True
    with_details: bool = True


def list_messages(session: Session, wanted: Wanted) -> tuple[list[Message], int]:
    """A page of the thread's messages, and how many there are in all."""
    rows = Turn.objects.filter(_LISTED, session=session)
    if wanted.role:
        rows = rows.filter(role=wanted.role)
    if wanted.before:
        rows = rows.filter(created_at__lt=wanted.before)
    asking = _find_asking(session) if wanted.role in ("", "assistant") and not wanted.before else None
    stored = rows.count()
    start, end = wanted.offset, wanted.offset + wanted.limit
    if wanted.newest_first:
        ahead = 1 if asking else 0
        turns = rows.order_by("-ordinal", "-part")[max(0, start - ahead) : end - ahead]
        shown = [asking] if asking and start == 0 else []
    else:
        turns = rows.order_by("ordinal", "part")[start:end]
        shown = [asking] if asking and start <= stored < end else []
    messages = _messages(session, turns, wanted.with_details)
    open_messages = [_asking_message(run, wanted.with_details) for run in shown]
    together = [*open_messages, *messages] if wanted.newest_first else [*messages, *open_messages]
    return together, stored + (1 if asking else 0)


def get_message(session: Session, message_id: UUID, *, with_details: bool = True) -> Message:
    """Raises NotFound, also for the message of a run that still goes on."""
    wanted = Q(pk=message_id, is_answer=False) | Q(pk=message_id, run=None) | Q(run_id=message_id, is_answer=True)
    turn = Turn.objects.filter(_LISTED & wanted, session=session).first()
    if turn is not None:
        return _messages(session, [turn], with_details)[0]
    asking = _find_asking(session)
    if asking is None or asking.id != message_id:
        raise NotFound("There is no such message in this thread, or it is still being written.")
    return _asking_message(asking, with_details)


def _messages(session: Session, turns: Sequence[Turn] | QuerySet[Turn], with_details: bool) -> list[Message]:
    turns = list(turns)
    runs = {turn.run_id for turn in turns if turn.is_answer and turn.run_id}
    said = _read_runs(session, runs)
    own = {
        extras.turn_id: extras
        for extras in MessageExtras.objects.filter(turn__in=[one for one in turns if not one.run_id])
    }
    return [_message(turn, said, own.get(turn.pk), with_details) for turn in turns]


def _message(turn: Turn, said: dict[UUID, dict[str, Any]], own: MessageExtras | None, with_details: bool) -> Message:
    message_id = turn.run_id if turn.is_answer and turn.run_id else turn.pk
    text, details = turn.content, own.details if own else None
    extras = dict(own.content) if own else {}
    if turn.is_answer:
        details = said.get(message_id, {"parts": [], "steps": []})
        said_text = text_of(details["parts"]) or turn.content
        text = said_text if said_text and turn.state != "error" else f"{said_text}\n\n{turn.error_message}".strip()
        extras = {"citations": [one for part in details["parts"] for one in part.get("citations") or ()]}
    return Message(
        message_id,
        _sequence(turn.ordinal, turn.part),
        turn.role.upper(),
        text,
        turn.state == "error",
        extras,
        details if with_details else None,
        turn.created_at,
    )


def _sequence(ordinal: int, part: int) -> int:
    return ordinal * 100_000 + part


# What runs said.


def _read_runs(session: Session, run_ids: Collection[UUID]) -> dict[UUID, dict[str, Any]]:
    """The details of the messages of ended runs: five queries, however many there are."""
    if not run_ids:
        return {}
    turns: dict[UUID, list[Turn]] = {run_id: [] for run_id in run_ids}
    for turn in Turn.objects.filter(session=session, run_id__in=run_ids, role="assistant").order_by("ordinal", "part"):
        turns[turn.run_id or turn.pk].append(turn)
    steps = {(step.run_id, step.index): step for step in Step.objects.filter(run_id__in=run_ids)}
    executions = {one.id: one for one in tools.list_executions_of(_called(turns.values()))}
    questions = tools.list_questions_of(list(executions)) if executions else {}
    usage = {run.pk: run for run in Run.objects.filter(pk__in=run_ids).only("input_tokens", "output_tokens")}
    details = {}
    for run_id, said in turns.items():
        stored = [
            _stored_step(turn, steps.get((run_id, index)), executions, questions) for index, turn in enumerate(said)
        ]
        last = next((steps[run_id, index] for index in reversed(range(len(said))) if (run_id, index) in steps), None)
        details[run_id] = _details(run_id, stored, usage.get(run_id), last.model if last else "")
    return details


def _called(turns: Iterable[Sequence[Turn]]) -> list[UUID]:
    return [UUID(one) for said in turns for turn in said if not turn.is_answer for one in turn.tool_call_ids or ()]


def _stored_step(
    turn: Turn, step: Step | None, executions: dict[UUID, ExecutionView], questions: dict[UUID, str]
) -> StoredStep:
    """step: its model call, until that is pruned."""
    called = [] if turn.is_answer else [UUID(one) for one in turn.tool_call_ids or ()]
    return StoredStep(
        text=turn.content,
        started_at=step.started_at if step else turn.created_at,
        ended_at=step.ended_at if step else turn.created_at,
        reasoning=step.reasoning if step else "",
        citations=selectors.citations_of(turn),
        executions=tuple(executions[one] for one in called if one in executions),
        questions=tuple((one, questions[one]) for one in called if one in questions),
    )


def _details(run_id: UUID, steps: Sequence[StoredStep], usage: Run | None, model: str) -> dict[str, Any]:
    parts = parts_of(run_id, steps)
    details: dict[str, Any] = {"parts": parts, "steps": steps_of(parts)}
    if usage is not None:
        details["usage"] = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    if model:
        details["model_id"] = model[:_LONGEST_MODEL_ID]
    return details


# A run that waits for its person's words.


def _find_asking(session: Session) -> RunView | None:
    run = agents.find_open_run(session.id)
    is_asking = run is not None and run.status is RunStatus.WAITING and run.waiting_on is WaitingOn.INPUT
    return run if is_asking else None


def _asking_message(run: RunView, with_details: bool) -> Message:
    transcript = agents.get_transcript(run.id)
    steps = _open_steps(transcript)
    details = _details(run.id, steps, None, "")
    place = sum(1 + len(step.tool_calls) for step in transcript.steps)
    return Message(
        run.id,
        _sequence(run.ordinal, place),
        "ASSISTANT",
        text_of(details["parts"]),
        False,
        {"citations": []},
        details if with_details else None,
        run.started_at or run.created_at,
    )


def _open_steps(transcript: RunTranscript) -> list[StoredStep]:
    at = transcript.run.started_at or transcript.run.created_at
    questions = tools.list_questions_of([one.id for one in transcript.executions])
    return [
        StoredStep(
            step.text,
            at,
            at,
            step.reasoning,
            executions=tuple(one for one in transcript.executions if one.step == step.index),
            questions=tuple(questions.items()),
        )
        for step in transcript.steps
    ]
