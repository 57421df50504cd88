"""The engine's writes: each is one transaction, void unless the claim's fence still holds, and ends in a new decision.

A function returns the claim's next snapshot when the claim goes on, or None when the run was parked or has ended.
Raises Fenced when the run is no longer this claim's.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from agents_app import conversation_port, events
from agents_app.errors import Fenced
from agents_app.models import Run, Step
from agents_app.runs import cost_budget, hooks, transitions
from agents_app.runs.lease import Claim
from agents_app.runs.next_step import Act, Answer, Cancel, Fail, NextStep, Think, WaitForTools, next_step
from agents_app.runs.run_policy import policy_of, session_policy_of
from agents_app.runs.transitions import ADVANCE, QUEUE, end, event_of, move
from agents_app.types import ModelResponse, RunStatus, Snapshot, StepView, WaitingOn
from audit_app import services as audit
from audit_app.event_types import NewEvent
from audit_app.kernel.compiled_queries import CompiledInsert, CompiledQuery
from tools_app import services as tools
from tools_app.policy import emergency_stop


@dataclass(frozen=True)
class Spent:
    """What a claim used up since its last write. started_at: when the model call began."""

    active_seconds: float
    started_at: datetime


def record_step(claim: Claim, snapshot: Snapshot, index: int, response: ModelResponse, spent: Spent) -> Snapshot | None:
    """Record a whole model response and do at once what follows from it without the model: plan its calls, or end."""
    with transaction.atomic():
        usage = response.usage
        if not transitions.record_progress(claim.run, claim.owner, active_seconds=spent.active_seconds, usage=usage):
            raise Fenced
        seen = len(snapshot.user_turns)
        step_row = Step(
            run_id=claim.run.id,
            index=index,
            fence=claim.fence,
            turns_seen=seen,
            text=response.text,
            reasoning=response.reasoning,
            tool_calls=[asdict(call) for call in response.tool_calls],
            finish_reason=response.finish_reason,
            model=claim.run.agent.model_id or claim.provider.default_model,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            started_at=spent.started_at,
            ended_at=timezone.now(),
        )
        _NEW_STEP.run([step_row])
        cost_budget.charge(claim.run.agent, claim.provider, response)
        user_turns, why_stopped, is_cancelled = _asked_now(claim, snapshot)
        step = StepView(
            index, response.text, response.tool_calls, response.finish_reason, response.reasoning, usage, seen
        )
        following = replace(
            snapshot,
            user_turns=user_turns,
            steps=(*snapshot.steps, step),
            active_seconds=snapshot.active_seconds + spent.active_seconds,
            cancel_requested=is_cancelled
            and (bool(response.tool_calls) or len(user_turns) > seen),  # else it has answered
            stopped=why_stopped,
            budget_refusal=cost_budget.budget_refusal(claim.run.agent),
        )
        decision = next_step(following)
        told = []
        if isinstance(decision, Think) or (response.tool_calls and not isinstance(decision, Act)):
            # Nothing else closes this step: the person went on, or the run ends instead of making its calls.
            told = [event_of(claim.run, events.STEP_COMPLETED, {"text_length": len(response.text)}, step=index)]
        return settle(claim, following, decision, told)


def _asked_now(claim: Claim, snapshot: Snapshot) -> tuple[tuple[str, ...], str, bool]:
    """The run's user turns, with those that came while the model spoke; why it is stopped, if it is; whether it was
    asked to end. Its row is locked: no further turn can come, and who asks it to end from now on sees it parked."""
    run, agent_id = claim.run, claim.run.agent.agent_id
    [(count, cancel_requested_at)] = _ASKED.rows(run.id)
    user_turns = (
        snapshot.user_turns if count == len(snapshot.user_turns) else tuple(conversation_port.get().user_turns(run.id))
    )
    return user_turns, emergency_stop.why_stopped(agent_id), cancel_requested_at is not None


_NEW_STEP = CompiledInsert(Step)
_ASKED = CompiledQuery(
    lambda run_id: Run.objects.filter(pk=run_id).values_list("user_turn_count", "cancel_requested_at"), uuid4()
)


def settle(claim: Claim, snapshot: Snapshot, step: NextStep, told: Sequence[NewEvent] = ()) -> Snapshot | None:
    """Do what a decision asks of the database, in one transaction (the caller's, if there is one). told: facts of what
    led to it; they are the last to be written here as everywhere, behind the conversation's rows."""
    with transaction.atomic(savepoint=False):
        match step:
            case Think():
                audit.emit(told)
                return snapshot
            case Act():
                return _plan(claim, snapshot, step)
            case WaitForTools():
                _park(claim, WaitingOn.TOOLS)
            case Answer():
                said = snapshot.steps, snapshot.executions
                _end(claim, RunStatus.COMPLETED, answer=step.text, code=step.reason, said=said)
            case Cancel() | Fail():
                last = snapshot.steps[-1] if snapshot.steps else None
                partial = last.text if last and not last.tool_calls else ""  # said before somebody joined
                _end(claim, _status_after(step), answer=partial, code=step.code, message=step.message, told=told)
        return None


def end_early(claim: Claim, step: Cancel | Fail, *, partial: str, spent: Spent) -> None:
    """End a run in the middle of a model call, keeping the text that it had streamed."""
    with transaction.atomic():
        _hold(claim, active_seconds=F("active_seconds") + spent.active_seconds)
        _end(claim, _status_after(step), answer=partial, code=step.code, message=step.message)


def _status_after(step: Cancel | Fail) -> RunStatus:
    if isinstance(step, Cancel):
        return RunStatus.CANCELLED
    return RunStatus.TIMED_OUT if step.timed_out else RunStatus.FAILED


def park_for_retry(claim: Claim, delay_seconds: float, *, code: str, reason: str, partial: str, spent: Spent) -> None:
    """Wait, holding nothing, until the model may be asked again. A run that was asked to end meanwhile ends, keeping
    the text that it had streamed."""
    until = timezone.now() + timedelta(seconds=delay_seconds)
    with transaction.atomic():
        _hold(claim, active_seconds=F("active_seconds") + spent.active_seconds)
        [(_, cancel_requested_at)] = _ASKED.rows(claim.run.id)
        if cancel_requested_at is not None:
            stop = Cancel()
            _end(claim, RunStatus.CANCELLED, answer=partial, code=stop.code, message=stop.message)
            return
        _park(
            claim,
            WaitingOn.RETRY,
            ready_at=Now() + timedelta(seconds=delay_seconds),
            tries=F("tries") + 1,
            error_code=code,
            error_message=reason,
        )
        payload: events.RunWaiting = {"waiting_on": WaitingOn.RETRY.value, "reason": reason, "until": until.isoformat()}
        audit.emit([event_of(claim.run, events.RUN_WAITING, payload)])


def _plan(claim: Claim, snapshot: Snapshot, step: Act) -> Snapshot | None:
    """Plan the calls of a step. They all failed at once (unknown tool, bad arguments): the model is told right away."""
    run, agent = claim.run, claim.run.agent
    planned = tools.plan_executions(
        step.calls,
        tools.StepContext(
            run_id=run.id,
            session_id=run.conversation_id,
            session_key=run.session_key,
            agent_id=agent.agent_id,
            actor=run.actor,
            step=step.step,
            on_done=ADVANCE,
            on_done_queue=QUEUE,
        ),
        policy=policy_of(run),
        session_policy=session_policy_of(run),
        text_length=len(snapshot.steps[-1].text),
    )
    following = replace(snapshot, executions=(*snapshot.executions, *planned.executions))
    decision = next_step(following)
    if not isinstance(decision, WaitForTools):
        return settle(claim, following, decision, planned.events)
    on_person = WaitingOn.APPROVAL if planned.asks else WaitingOn.INPUT if planned.questions else None
    _park(claim, on_person or WaitingOn.TOOLS)
    audit.emit(planned.events)
    for tell in hooks.on_ask if on_person else ():
        transaction.on_commit(tell, robust=True)
    return None


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
        claim.run.id,
        RunStatus.WAITING,
        expect=[RunStatus.RUNNING.value],
        at_fence=claim.fence,
        held_by=claim.owner,
        owner=None,
        waiting_on=on.value,
        **changes,
    )
    if not parked:
        raise Fenced


def _end(claim: Claim, to: RunStatus, **said: Any) -> None:
    """said: as `transitions.end` takes it."""
    if not end(claim.run, to, held_by=claim.owner, **said):
        raise Fenced
