"""The engine's writes: each is one transaction, void unless the claim's fence still holds, and ends in a new decision.

A function returns the claim's next snapshot when the claim goes on, or None when the run was parked or has ended.
Raises Fenced when the run is no longer this claim's.
"""

from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from uuid import uuid4

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from agents_app import conversations, events
from agents_app.errors import Fenced
from agents_app.models import Run, Step
from agents_app.runs import hooks, spending
from agents_app.runs.lease import Claim
from agents_app.runs.loop import Act, Answer, Cancel, Fail, NextStep, Think, WaitForTools, next_step
from agents_app.runs.rules import policy_of, session_policy_of
from agents_app.runs.transitions import ADVANCE, QUEUE, end, fact_of, move
from agents_app.types import ModelResponse, RunStatus, Said, Snapshot, StepView, WaitingOn
from audit_app import services as audit
from audit_app.kernel.prepared import PreparedInsert, PreparedQuery, PreparedUpdate
from tools_app import services as tools
from tools_app.trust import control


@dataclass(frozen=True)
class Spent:
    """What a claim used up since its last write. started_at: when the model call began."""

    active_seconds: float
    started_at: datetime


def record_step(claim: Claim, snapshot: Snapshot, index: int, response: ModelResponse, spent: Spent) -> Snapshot | None:
    """Record a whole model response and do at once what follows from it without the model: plan its calls, or end."""
    with transaction.atomic():
        usage = response.usage
        if not _HOLD_ON.run(
            claim.run.id, claim.fence, claim.owner, spent.active_seconds, usage.input_tokens, usage.output_tokens
        ):
            raise Fenced
        seen = len(snapshot.words)
        step_row = Step(
            run_id=claim.run.id, index=index, fence=claim.fence, words_seen=seen,
            text=response.text, reasoning=response.reasoning,
            tool_calls=[asdict(call) for call in response.tool_calls], finish_reason=response.finish_reason,
            model=claim.run.agent.model_id or claim.provider.default_model,
            input_tokens=usage.input_tokens, output_tokens=usage.output_tokens,
            started_at=spent.started_at, ended_at=timezone.now(),
        )  # fmt: skip
        _NEW_STEP.run([step_row])
        spending.charge(claim.run.agent, claim.provider, response)
        words, why_stopped = _asked_now(claim, snapshot)
        step = StepView(
            index, response.text, response.tool_calls, response.finish_reason, response.reasoning, usage, seen
        )
        following = replace(
            snapshot,
            words=words,
            steps=(*snapshot.steps, step),
            active_seconds=snapshot.active_seconds + spent.active_seconds,
            stopped=why_stopped,
            spent_out=spending.spent_out(claim.run.agent),
        )
        decision = next_step(following)
        if isinstance(decision, Think):
            # Nothing else closes this step: it neither called tools nor ended the run, because the person went on.
            said = {"text_length": len(response.text)}
            audit.emit([fact_of(claim.run, events.STEP_COMPLETED, said, step=index)])
        return settle(claim, following, decision)


def _asked_now(claim: Claim, snapshot: Snapshot) -> tuple[tuple[str, ...], str]:
    """The run's user turns, with those that came while the model spoke, and why it is stopped, if it is. Its row is
    locked: no further turn can come."""
    run, agent_id = claim.run, claim.run.agent.agent_id
    [(count,)] = _WORDS.rows(run.id)
    words = snapshot.words if count == len(snapshot.words) else tuple(conversations.get().words(run.id))
    return words, control.why_stopped(agent_id)


# As `_hold` would, with what a recorded step leaves in its run's row.
_HOLD_ON = PreparedUpdate(
    lambda run_id, fence, owner, seconds, input_tokens, output_tokens: (
        Run.objects.filter(pk=run_id, status__in=[RunStatus.RUNNING.value], fence=fence, owner=owner),
        {
            "status": RunStatus.RUNNING.value, "crashes": 0, "tries": 0, "error_code": "", "error_message": "",
            "active_seconds": F("active_seconds") + seconds, "input_tokens": F("input_tokens") + input_tokens,
            "output_tokens": F("output_tokens") + output_tokens,
        },
    ),
    uuid4(),
    987_654_321,
    uuid4(),
    0.987_654_321,
    987_654_322,
    987_654_323,
)  # fmt: skip
_NEW_STEP = PreparedInsert(Step)
_WORDS = PreparedQuery(lambda run_id: Run.objects.filter(pk=run_id).values_list("words"), uuid4())


def settle(claim: Claim, snapshot: Snapshot, step: NextStep) -> Snapshot | None:
    """Do what a decision asks of the database, in one transaction (the caller's, if there is one)."""
    with transaction.atomic(savepoint=False):
        match step:
            case Think():
                return snapshot
            case Act():
                return _plan(claim, snapshot, step)
            case WaitForTools():
                _park(claim, WaitingOn.TOOLS)
            case Answer():
                said = snapshot.steps, snapshot.executions
                _end(claim, RunStatus.COMPLETED, answer=step.text, code=step.reason, said=said)
            case Cancel():
                _end(claim, RunStatus.CANCELLED, message=step.message, code=step.code)
            case Fail():
                to = RunStatus.TIMED_OUT if step.timed_out else RunStatus.FAILED
                _end(claim, to, code=step.code, message=step.message)
        return None


def end_early(claim: Claim, step: Cancel | Fail, *, partial: str, spent: Spent) -> None:
    """End a run in the middle of a model call, keeping the text that it had streamed."""
    with transaction.atomic():
        _hold(claim, active_seconds=F("active_seconds") + spent.active_seconds)
        if isinstance(step, Cancel):
            _end(claim, RunStatus.CANCELLED, answer=partial, code=step.code, message=step.message)
        else:
            to = RunStatus.TIMED_OUT if step.timed_out else RunStatus.FAILED
            _end(claim, to, answer=partial, code=step.code, message=step.message)


def park_for_retry(claim: Claim, delay_seconds: float, *, code: str, reason: str, spent: Spent) -> None:
    """Wait, holding nothing, until the model may be asked again."""
    until = timezone.now() + timedelta(seconds=delay_seconds)
    with transaction.atomic():
        _park(
            claim, WaitingOn.RETRY, ready_at=Now() + timedelta(seconds=delay_seconds), tries=F("tries") + 1,
            active_seconds=F("active_seconds") + spent.active_seconds, error_code=code, error_message=reason,
        )  # fmt: skip
        payload = {"waiting_on": WaitingOn.RETRY.value, "reason": reason, "until": until.isoformat()}
        audit.emit([fact_of(claim.run, events.RUN_WAITING, payload)])


def _plan(claim: Claim, snapshot: Snapshot, step: Act) -> Snapshot | None:
    """Plan the calls of a step. They all failed at once (unknown tool, bad arguments): the model is told right away."""
    run, agent = claim.run, claim.run.agent
    planned = tools.plan_executions(
        step.calls, run_id=run.id, session_id=run.conversation_id, session_key=run.session_key,
        agent_id=agent.agent_id, actor=run.actor, step=step.step, text_length=len(snapshot.steps[-1].text),
        policy=policy_of(run), session_policy=session_policy_of(run), on_done=ADVANCE, on_done_queue=QUEUE,
    )  # fmt: skip
    following = replace(snapshot, executions=(*snapshot.executions, *planned.executions))
    decision = next_step(following)
    if isinstance(decision, WaitForTools):
        on_person = WaitingOn.APPROVAL if planned.asks else WaitingOn.INPUT if planned.questions else None
        _park(claim, on_person or WaitingOn.TOOLS)
    audit.emit(planned.facts)
    for told in hooks.on_ask if planned.asks or planned.questions else ():
        transaction.on_commit(told, robust=True)
    return None if isinstance(decision, WaitForTools) else settle(claim, following, decision)


def _hold(claim: Claim, **changes: object) -> None:
    """Prove within this transaction that the claim still holds, setting columns on the way."""
    held = move(
        claim.run.id,
        RunStatus.RUNNING,
        expect=[RunStatus.RUNNING.value],
        at_fence=claim.fence,
        held_by=claim.owner,
        **changes,
    )
    if not held:
        raise Fenced


def _park(claim: Claim, on: WaitingOn, **changes: object) -> None:
    parked = move(
        claim.run.id, RunStatus.WAITING, expect=[RunStatus.RUNNING.value], at_fence=claim.fence, held_by=claim.owner,
        owner=None, waiting_on=on.value, **changes,
    )  # fmt: skip
    if not parked:
        raise Fenced


def _end(
    claim: Claim, to: RunStatus, *, answer: str = "", code: str = "", message: str = "", said: Said | None = None
) -> None:
    if not end(claim.run, to, held_by=claim.owner, answer=answer, code=code, message=message, said=said):
        raise Fenced
