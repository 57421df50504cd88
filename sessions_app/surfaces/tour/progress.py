"""Reads the progress of a tour from the runs of its chat: nothing else is stored about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db.models import Sum

from agents_app import selectors as agents
from agents_app.models import Run
from agents_app.types import RunStatus
from agents_app.types.prices import NANOS, money
from sessions_app.models import Session, Turn
from sessions_app.surfaces.tour import worker_kill
from sessions_app.surfaces.tour.steps import APPROVAL, CRASH, PROMPTS, PROOF, SLOW_ANSWER, STEPS, TEAM, Step
from tools_app import selectors as tools
from tools_app.types import ApprovalStatus, ApprovalView

_ENDED = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.TIMED_OUT)


@dataclass(frozen=True)
class Progress:
    """The progress of a tour.

    runs: the newest run of each prepared message, by its text.
    shown: the step that the panel shows.
    done: names of the steps whose last answer has ended.
    is_open: an answer of the chat is being written, or waits.
    asks: the number of requests in the chat that wait for a person.
    """

    runs: Mapping[str, Run]
    shown: Step
    done: frozenset[str]
    is_open: bool
    asks: int
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def run(self) -> Run | None:
        """The last run of the shown step."""
        return last_run(self.shown, self.runs)

    @property
    def state(self) -> str:
        """A text that changes whenever the panel does."""
        return "-".join(
            map(str, (self.shown.name, *sorted(self.done), self.is_open, self.asks, *self.details.values()))
        )


def last_run(step: Step, runs: Mapping[str, Run]) -> Run | None:
    """Return the newest run of a step's messages."""
    found = [runs[prompt.text] for prompt in step.prompts if prompt.text in runs]
    return max(found, key=lambda run: run.ordinal, default=None)


def read_progress(session: Session, wanted: str = "") -> Progress:
    """Return the progress of a tour. wanted: name of the step to show; by default the first one that is not done."""
    runs = _read_runs(session)
    ends = {step.name: last_run(step, runs) for step in STEPS}
    done = frozenset(name for name, run in ends.items() if run and run.status in _ENDED)
    names = {step.name: step for step in STEPS}
    first = next((step for step in STEPS if step.name not in done), STEPS[-1])
    shown = names.get(wanted, first)
    approvals = tools.list_approvals(session_ids=[session.pk])
    pending = sum(each.status is ApprovalStatus.PENDING for each in approvals)
    asks = pending + tools.pending_questions().filter(session_id=session.pk).count()
    is_open = bool(agents.list_open_runs(session.pk))
    return Progress(runs, shown, done, is_open, asks, _details(shown, ends[shown.name], approvals, session))


def _read_runs(session: Session) -> dict[str, Run]:
    turns = Turn.objects.filter(session=session, role="user", content__in=[*PROMPTS], run__isnull=False)
    return {turn.content: turn.run for turn in turns.select_related("run").order_by("ordinal") if turn.run}


def _details(step: Step, run: Run | None, approvals: Sequence[ApprovalView], session: Session) -> dict[str, Any]:
    """Return what the panel shows of one step alone."""
    if step.name == PROOF:
        decided = next((each.id for each in approvals if each.decided_by), None)
        nanos = Run.objects.filter(conversation_id=session.pk).aggregate(sum=Sum("cost_nanos"))["sum"] or 0
        return {"approval_id": decided, "cost": money(nanos / NANOS, settings.KOMAND_CURRENCY)}
    if step.name == APPROVAL and run:
        return {"approval": next((each.status.value for each in approvals if each.run_id == run.pk), "")}
    if step.name == CRASH and run:
        return _crash(session, run)
    if step.name == TEAM and run:
        children = agents.list_descendants([run.pk])
        return {"workstreams": len(children), "ended": sum(child.ended_at is not None for child in children)}
    return {}


def _crash(session: Session, run: Run) -> dict[str, Any]:
    crash = worker_kill.find_crash(session.pk, run.pk)
    worker = None if crash else worker_kill.find_worker(run.pk)
    return {
        "crash": crash,
        "pid": worker.pid if worker else 0,
        "letters": len(run.answer),
        "expected": len(SLOW_ANSWER),
        "is_whole": run.answer == SLOW_ANSWER,
    }
