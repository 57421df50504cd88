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

from agents_app import conversation_port, events, hot_queries, selectors, structured_output
from agents_app.costs import cost_budget, usage_ledger
from agents_app.costs.usage_ledger import CallCost, Payer
from agents_app.errors import Fenced
from agents_app.models import Run, Step
from agents_app.providers.base import ProviderError
from agents_app.runs import child_messages, claims, hooks, run_events, run_policy, transitions
from agents_app.runs.claims import Claim
from agents_app.runs.next_step import (
    CANCELLED,
    Act,
    Compact,
    End,
    ModelStep,
    Think,
    Transcribe,
    WaitForChildren,
    WaitForParent,
    WaitForTools,
    next_step,
)
from agents_app.runs.run_events import event_of
from agents_app.runs.transitions import ADVANCE, QUEUE
from agents_app.types import ModelResponse, RunStatus, Snapshot, StepView, Usage, WaitingOn
from agents_app.types.run_cost import Fallback
from audit_app import services as audit
from audit_app.event_types import NewEvent
from audit_app.kernel.after_commit import after_commit
from tools_app import services as tools
from tools_app.policy import emergency_stop

NO_USAGE = Usage()


@dataclass(frozen=True)
class Spent:
    """The time a claim used since its last write. started_at: start of the model call.

    usage: what a failed call used, as far as its server reported it
    estimated_tokens: tokens of the model call's request.
    """

    active_seconds: float
    started_at: datetime
    usage: Usage = NO_USAGE
    estimated_tokens: int = 0


@dataclass(frozen=True)
class Recorded:
    """The place of a step in its run. index: negative for calls that prepare the others.

    cost: cost of a call that is not one of the run's own model.
    """

    index: int
    kind: str = Step.MODEL
    cost: CallCost | None = None


def record_and_decide(
    claim: Claim, snapshot: Snapshot, index: int, response: ModelResponse, spent: Spent
) -> Snapshot | None:
    """Record a model response as step `index`, and do what follows from it. Return what `decide_and_apply` returns.

    One transaction, which locks the run's row before it decides: no user turn and no cancellation can come between a
    decision and its effect, and a recorded step is never visible without its executions or the end of its run.
    """
    if snapshot.output_schema is not None:
        response = structured_output.judge(response, snapshot.output_schema)
    with transaction.atomic():
        call, step = _begin_step(claim, snapshot, Recorded(index), response, spent)
        recorded = replace(
            snapshot,
            steps=(*snapshot.steps, selectors.step_view(step)),
            active_seconds=snapshot.active_seconds + spent.active_seconds,
            overflow=None,
        )
        if not response.omitted and _end_as_read(claim, recorded, step, call, spent):
            return None
        _store_step(claim, step, call, spent)
        omitted = conversation_port.get().parts_omitted(claim.run.id, response.omitted) if response.omitted else ()
        return decide_and_apply(claim, _reread(claim, recorded), recorded.steps[-1], omitted)


def _end_as_read(claim: Claim, recorded: Snapshot, step: Step, call: CallCost, spent: Spent) -> bool:
    """Store the step and end a run that it completes, if nothing that matters has changed since the claim.

    An answer makes it too late to cancel or to stop. recorded: with the step. Return False, and write nothing, if the
    run does not end, or if its row has to be locked before that can be decided.
    """
    outcome = next_step(recorded)
    if claim.run.child_count or not isinstance(outcome, End) or outcome.status is not RunStatus.COMPLETED:
        return False
    answered = transitions.Answered(claim.owner, recorded, call, spent.active_seconds)
    if (new_events := transitions.end_answered(claim.run, outcome, answered)) is not None:
        hot_queries.INSERT_STEP.run([step])
        audit.emit(new_events)
    return new_events is not None


def _reread(claim: Claim, recorded: Snapshot) -> Snapshot:
    """Return the snapshot with what others have changed since the claim. The run's row is locked."""
    run, step = claim.run, recorded.steps[-1]
    following = child_messages.refreshed(run, recorded) if run.is_in_tree else claims.with_requests(run, recorded)
    # An answer makes it too late to cancel.
    has_answered = not (step.tool_calls or step.rejected_text) and len(following.user_turns) <= step.turns_seen
    return replace(
        following,
        cancel_requested=following.cancel_requested and not (has_answered and not following.working),
        stopped=emergency_stop.why_stopped(run.agent.agent_id),
        budget_refusal=cost_budget.refusal_of(run),
    )


def record_step(claim: Claim, snapshot: Snapshot, place: Recorded, response: ModelResponse, spent: Spent) -> StepView:
    """Store the step with its cost, and lock the run's row, in the caller's transaction.

    Raises Fenced.
    """
    call, step = _begin_step(claim, snapshot, place, response, spent)
    _store_step(claim, step, call, spent)
    return selectors.step_view(step)


def _begin_step(
    claim: Claim, snapshot: Snapshot, place: Recorded, response: ModelResponse, spent: Spent
) -> tuple[CallCost, Step]:
    """Add the cost of a call to the sums. Return it with the step to store, after the run's row is locked."""
    call = place.cost or _priced(claim, response.usage, response.text)
    _add_call(claim, call)
    return call, Step.of_response(
        response,
        run_id=claim.run.id,
        index=place.index,
        kind=place.kind,
        fence=claim.fence,
        turns_seen=len(snapshot.user_turns),
        provider=call.provider,
        model=call.model,
        cost_nanos=call.nanos,
        estimated_tokens=spent.estimated_tokens,
        started_at=spent.started_at,
        ended_at=timezone.now(),
    )


def _store_step(claim: Claim, step: Step, call: CallCost, spent: Spent) -> None:
    if not transitions.record_progress(claim.run, claim.owner, active_seconds=spent.active_seconds, call=call):
        raise Fenced
    hot_queries.INSERT_STEP.run([step])


def decide_and_apply(
    claim: Claim, snapshot: Snapshot, recorded: StepView | None = None, new_events: Sequence[NewEvent] = ()
) -> Snapshot | None:
    """Apply what `next_step` decides, until the model is needed or the run waits or ends.

    recorded: the step that the caller's transaction has just recorded.
    new_events: to emit, stored last, behind the conversation's rows, so that all lock in one order.

    Return the snapshot for the next model call, or None if the run was parked or has ended.
    """
    waiting_on = WaitingOn.TOOLS
    with transaction.atomic(savepoint=False):
        while True:
            decision = next_step(snapshot)
            # No other event closes the step if a user turn follows it, the run ends without its calls, or its answer
            # was rejected: viewers then discard its text.
            is_left = recorded and (recorded.tool_calls or recorded.rejected_text) and not isinstance(decision, Act)
            if recorded and (isinstance(decision, ModelStep | WaitForChildren | WaitForParent) or is_left):
                closing: events.StepCompleted = {"text_length": len(recorded.text)}
                new_events = [*new_events, event_of(claim.run, events.STEP_COMPLETED, closing, step=recorded.index)]
            recorded = None
            match decision:
                case Think() | Compact() | Transcribe():
                    audit.emit(new_events)
                    return snapshot
                case Act():
                    planned = _plan(claim, snapshot, decision)
                    snapshot = replace(snapshot, executions=(*snapshot.executions, *planned.executions))
                    new_events = [*new_events, *planned.events]
                    if planned.asks or planned.questions:
                        waiting_on = WaitingOn.APPROVAL if planned.asks else WaitingOn.INPUT
                case WaitForTools():
                    _park(claim, waiting_on)
                    audit.emit([*new_events, *run_events.waits(claim.run, snapshot, waiting_on)])
                    for notify in hooks.on_ask if waiting_on is not WaitingOn.TOOLS else ():
                        after_commit(notify)
                    return None
                case WaitForChildren() | WaitForParent():
                    if following := _park_in_tree(claim, snapshot, decision):
                        snapshot = following
                        continue
                    audit.emit([*new_events, *run_events.parked(claim.run, decision)])
                    return None
                case End():
                    _end_decided(claim, snapshot, decision, new_events)
                    return None


def _park_in_tree(claim: Claim, snapshot: Snapshot, decision: WaitForChildren | WaitForParent) -> Snapshot | None:
    """Park a run that waits for its children or its parent. Return a newer snapshot if that demands something else."""
    rows = Run.objects.select_for_update(of=("self",), no_key=True).filter(
        pk=claim.run.pk, owner=claim.owner, fence=claim.fence
    )
    if rows.only("pk").first() is None:
        raise Fenced
    newer = child_messages.refreshed(claim.run, snapshot)
    if next_step(newer) != decision:
        return newer
    if isinstance(decision, WaitForChildren):
        _park(claim, WaitingOn.CHILDREN)
        return None
    _park(claim, WaitingOn.PARENT, **child_messages.waiting_columns(claim.run, decision.answer))
    if claim.run.parent_id:
        transitions.nudge_listener(hot_queries.FIND_LISTENER.rows(run_id=claim.run.pk))
    return None


def _plan(claim: Claim, snapshot: Snapshot, step: Act) -> tools.Planned:
    policy = run_policy.policy_of(claim.run)
    return tools.plan_executions(
        step.calls,
        run_policy.context_of(claim.run, step.step, on_done=(ADVANCE, QUEUE)),
        policy=replace(policy, tools=()) if step.is_refused else policy,
        session_policy=run_policy.session_policy_of(claim.run),
        text_length=len(snapshot.steps[-1].text),
        client_tools=run_policy.client_tools_of(claim.run),
    )


def _end_decided(claim: Claim, snapshot: Snapshot, outcome: End, earlier_events: Sequence[NewEvent]) -> None:
    given: dict[str, Any] = {"held_by": claim.owner, "earlier_events": earlier_events}
    if outcome.status is RunStatus.COMPLETED:
        if outcome.unread_from is not None:
            child_messages.return_results(claim.run, outcome.unread_from)
        ended = transitions.end(claim.run, outcome, recorded=snapshot, **given)
    else:
        last = snapshot.steps[-1] if snapshot.steps else None
        # An answer that a later user turn superseded, or that was rejected.
        answer = last.rejected_text or last.text if last and not last.tool_calls else ""
        outcome = replace(outcome, answer=answer)
        ended = transitions.end(claim.run, outcome, **given)
    if not ended:
        raise Fenced


def end_early(claim: Claim, outcome: End, *, partial: str, spent: Spent) -> None:
    """End a run during a model call, keeping the text that the call has streamed."""
    outcome = replace(outcome, answer=partial)
    with transaction.atomic():
        _account_for(claim, spent)
        if not transitions.end(claim.run, outcome, held_by=claim.owner):
            raise Fenced


def park_for_retry(claim: Claim, delay_seconds: float, error: ProviderError, *, partial: str, spent: Spent) -> None:
    """Park a run, without an owner, until its model call can be retried.

    If its cancellation was requested meanwhile, the run ends, keeping the text that the call has streamed.
    """
    until = timezone.now() + timedelta(seconds=delay_seconds)
    with transaction.atomic():
        _account_for(claim, spent)
        if _end_cancelled(claim, partial):
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


def fall_back(claim: Claim, to: Fallback, error: ProviderError, *, partial: str, spent: Spent) -> None:
    """Let the run continue with another model from its next claim, which may come at once.

    If its cancellation was requested meanwhile, the run ends, keeping the text that the call has streamed.
    """
    with transaction.atomic():
        _account_for(claim, spent)
        if _end_cancelled(claim, partial):
            return
        forgotten: dict[str, Any] = {"tries": 0, "error_code": "", "error_message": ""}
        _park(claim, WaitingOn.RETRY, ready_at=Now(), fallback=asdict(to), **forgotten)
        payload: events.ModelFallback = {"from": to.failed, "to": to.name, "code": error.code, "reason": error.message}
        audit.emit([event_of(claim.run, events.MODEL_FALLBACK, payload)])


def _end_cancelled(claim: Claim, partial: str) -> bool:
    """End the run if its cancellation was requested. Return whether it was."""
    [(_, cancel_requested_at)] = hot_queries.GET_REQUESTS.rows(run_id=claim.run.id)
    if cancel_requested_at is None:
        return False
    transitions.end(claim.run, replace(CANCELLED, answer=partial), held_by=claim.owner)
    return True


def _priced(claim: Claim, usage: Usage, text: str = "") -> CallCost:
    return usage_ledger.price_call(claim.provider.name, claim.model, claim.prices, usage, text=text)


def _account_for(claim: Claim, spent: Spent) -> None:
    """Add the time of a failed call, and the usage that its server reported, in the caller's transaction."""
    call = None if spent.usage == NO_USAGE else _priced(claim, spent.usage)
    if call:
        _add_call(claim, call)
    changes = {"active_seconds": F("active_seconds") + spent.active_seconds, **(call.changes() if call else {})}
    if not transitions.move(claim.run, RunStatus.RUNNING, held_by=claim.owner, **changes):
        raise Fenced


def _add_call(claim: Claim, call: CallCost) -> None:
    """Add a call to the sums, in the caller's transaction.

    Lock order: the sums of a conversation, which all runs of a tree share, before the rows of its runs. A run that ends
    locks its child runs, each of which may be adding a call.
    """
    usage_ledger.add_call(Payer.of(claim.run), call)
    cost_budget.charge(claim.run, call)


def _park(claim: Claim, on: WaitingOn, **changes: Any) -> None:
    if not transitions.move(
        claim.run, RunStatus.WAITING, held_by=claim.owner, owner=None, waiting_on=on.value, **changes
    ):
        raise Fenced
