"""The engine's writes. Each is one transaction, and void if the claim has lost its run.

Functions raise Fenced if the run no longer has the claim's owner and fence.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from agents_app import conversation_port, events, hot_queries
from agents_app.errors import Fenced
from agents_app.models import Step
from agents_app.providers.base import ProviderError
from agents_app.runs import cost_budget, hooks, transitions
from agents_app.runs.lease import Claim
from agents_app.runs.next_step import CANCELLED, Act, End, Think, WaitForTools, next_step
from agents_app.runs.run_policy import model_of, policy_of, session_policy_of
from agents_app.runs.transitions import ADVANCE, QUEUE, event_of
from agents_app.types import ModelResponse, RunStatus, Snapshot, StepView, WaitingOn
from audit_app import services as audit
from audit_app.event_types import NewEvent
from audit_app.kernel.after_commit import after_commit
from tools_app import services as tools
from tools_app.policy import emergency_stop


@dataclass(frozen=True)
class Spent:
    """The time a claim used since its last write. started_at: start of the model call."""

    active_seconds: float
    started_at: datetime


def record_and_decide(
    claim: Claim, snapshot: Snapshot, index: int, response: ModelResponse, spent: Spent
) -> Snapshot | None:
    """Record a model response as step `index`, and do what follows from it. Return what `decide_and_apply` returns.

    One transaction, which locks the run's row first: no user turn and no cancellation can come between a decision and
    its effect, and a recorded step is never visible without its executions or the end of its run.
    """
    with transaction.atomic():
        usage = response.usage
        if not transitions.record_progress(claim.run, claim.owner, active_seconds=spent.active_seconds, usage=usage):
            raise Fenced
        turns_seen = len(snapshot.user_turns)
        step_row = Step(
            run_id=claim.run.id,
            index=index,
            fence=claim.fence,
            turns_seen=turns_seen,
            text=response.text,
            reasoning=response.reasoning,
            reasoning_ms=round(response.reasoning_seconds * 1000),
            tool_calls=[asdict(call) for call in response.tool_calls],
            finish_reason=response.finish_reason,
            model=model_of(claim.run),
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            started_at=spent.started_at,
            ended_at=timezone.now(),
        )
        hot_queries.INSERT_STEP.run([step_row])
        cost_budget.charge(claim.run.agent, claim.provider, response)
        step = StepView(
            index,
            response.text,
            response.tool_calls,
            response.finish_reason,
            response.reasoning,
            usage,
            turns_seen,
            response.reasoning_seconds,
        )
        [(turn_count, cancel_requested_at)] = hot_queries.GET_REQUESTS.rows(run_id=claim.run.id)
        user_turns = snapshot.user_turns
        if turn_count != turns_seen:
            user_turns = tuple(conversation_port.get().user_turns(claim.run.id))
        has_answered = not response.tool_calls and len(user_turns) <= turns_seen  # it is too late to cancel
        following = replace(
            snapshot,
            user_turns=user_turns,
            steps=(*snapshot.steps, step),
            active_seconds=snapshot.active_seconds + spent.active_seconds,
            cancel_requested=cancel_requested_at is not None and not has_answered,
            stopped=emergency_stop.why_stopped(claim.run.agent.agent_id),
            budget_refusal=cost_budget.budget_refusal(claim.run.agent),
        )
        return decide_and_apply(claim, following, step)


def decide_and_apply(claim: Claim, snapshot: Snapshot, recorded: StepView | None = None) -> Snapshot | None:
    """Apply what `next_step` decides, until the model is needed or the run waits or ends.

    recorded: the step that the caller's transaction has just recorded.

    Return the snapshot for the next model call, or None if the run was parked or has ended.
    """
    new_events: Sequence[NewEvent] = ()  # stored last, behind the conversation's rows, so that all lock in one order
    waiting_on = WaitingOn.TOOLS
    with transaction.atomic(savepoint=False):
        while True:
            decision = next_step(snapshot)
            # No other event closes the step if a user turn follows it, or the run ends without its calls.
            if recorded and (isinstance(decision, Think) or (recorded.tool_calls and not isinstance(decision, Act))):
                closing: events.StepCompleted = {"text_length": len(recorded.text)}
                new_events = [event_of(claim.run, events.STEP_COMPLETED, closing, step=recorded.index)]
            recorded = None
            match decision:
                case Think():
                    audit.emit(new_events)
                    return snapshot
                case Act():
                    planned = _plan(claim, snapshot, decision)
                    snapshot = replace(snapshot, executions=(*snapshot.executions, *planned.executions))
                    new_events = planned.events
                    if planned.asks or planned.questions:
                        waiting_on = WaitingOn.APPROVAL if planned.asks else WaitingOn.INPUT
                case WaitForTools():
                    _park(claim, waiting_on)
                    audit.emit(new_events)
                    for notify in hooks.on_ask if waiting_on is not WaitingOn.TOOLS else ():
                        after_commit(notify)
                    return None
                case End():
                    _end_decided(claim, snapshot, decision, new_events)
                    return None


def _plan(claim: Claim, snapshot: Snapshot, step: Act) -> tools.Planned:
    run = claim.run
    context = tools.StepContext(
        run_id=run.id,
        session_id=run.conversation_id,
        session_key=run.session_key,
        agent_id=run.agent.agent_id,
        actor=run.actor,
        step=step.step,
        on_done=ADVANCE,
        on_done_queue=QUEUE,
    )
    text_length = len(snapshot.steps[-1].text)
    policy, session_policy = policy_of(run), session_policy_of(run)
    return tools.plan_executions(
        step.calls, context, policy=policy, session_policy=session_policy, text_length=text_length
    )


def _end_decided(claim: Claim, snapshot: Snapshot, outcome: End, earlier_events: Sequence[NewEvent]) -> None:
    if outcome.status is RunStatus.COMPLETED:
        ended = transitions.end(claim.run, outcome, held_by=claim.owner, recorded=snapshot)
    else:
        last = snapshot.steps[-1] if snapshot.steps else None
        answer = last.text if last and not last.tool_calls else ""  # an answer that a later user turn superseded
        outcome = replace(outcome, answer=answer)
        ended = transitions.end(claim.run, outcome, held_by=claim.owner, earlier_events=earlier_events)
    if not ended:
        raise Fenced


def end_early(claim: Claim, outcome: End, *, partial: str, spent: Spent) -> None:
    """End a run during a model call, keeping the text that the call has streamed."""
    active_seconds = F("active_seconds") + spent.active_seconds
    outcome = replace(outcome, answer=partial)
    with transaction.atomic():
        if not transitions.end(claim.run, outcome, held_by=claim.owner, active_seconds=active_seconds):
            raise Fenced


def park_for_retry(claim: Claim, delay_seconds: float, error: ProviderError, *, partial: str, spent: Spent) -> None:
    """Park a run, without an owner, until its model call can be retried.

    If its cancellation was requested meanwhile, the run ends, keeping the text that the call has streamed.
    """
    until = timezone.now() + timedelta(seconds=delay_seconds)
    active_seconds = F("active_seconds") + spent.active_seconds
    with transaction.atomic():
        if not transitions.move(claim.run, RunStatus.RUNNING, held_by=claim.owner, active_seconds=active_seconds):
            raise Fenced
        [(_, cancel_requested_at)] = hot_queries.GET_REQUESTS.rows(run_id=claim.run.id)
        if cancel_requested_at is not None:
            transitions.end(claim.run, replace(CANCELLED, answer=partial), held_by=claim.owner)
            return
        _park(
            claim,
            WaitingOn.RETRY,
            ready_at=Now() + timedelta(seconds=delay_seconds),
            tries=F("tries") + 1,
            error_code=error.code,
            error_message=error.message,
        )
        payload = events.RunWaiting(waiting_on=WaitingOn.RETRY.value, reason=error.message, until=until.isoformat())
        audit.emit([event_of(claim.run, events.RUN_WAITING, payload)])


def _park(claim: Claim, on: WaitingOn, **changes: Any) -> None:
    if not transitions.move(
        claim.run, RunStatus.WAITING, held_by=claim.owner, owner=None, waiting_on=on.value, **changes
    ):
        raise Fenced
