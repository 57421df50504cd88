"""Reservations of tokens: before a model call, in every budget above the run. Parks a run whose tokens others have."""

from dataclasses import replace
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from agents_app.costs import tree_budget
from agents_app.errors import Fenced
from agents_app.prompt import context_size
from agents_app.runs import run_events, transitions, writes
from agents_app.runs.claims import Claim
from agents_app.types import RunStatus, Snapshot, WaitingOn
from agents_app.types.child_runs import Phase
from audit_app import services as audit

_LEAST_ANSWER = 256  # tokens of a call that is made although its budget has less left


def reserve(claim: Claim, snapshot: Snapshot) -> int | None:
    """Reserve the tokens of the next model call: those of the request, as estimated, and of the longest answer.

    Return the most tokens that the answer may have. That is less than the longest one only if what is used leaves no
    more: a run waits for what others have reserved. Return None if it has been parked for that, or has ended because
    nothing is left. Owns its transaction. Raises Fenced.
    """
    run, request, longest = claim.run, _request_tokens(snapshot), snapshot.limits.answer_tokens
    with transaction.atomic():
        room = tree_budget.lock(run).room_of(run.pk, request + longest)
        if room.refusal:
            writes.decide_and_apply(claim, replace(snapshot, budget_refusal=room.refusal))
        elif room.is_reserved:
            _wait(claim, request + longest)
        else:
            answer = min(longest, max(room.left - request, _LEAST_ANSWER))
            _take(claim, request + answer)
            return answer
    return None


def _take(claim: Claim, tokens: int) -> None:
    if not tree_budget.reserve(claim.run, claim.owner, tokens):
        raise Fenced
    if claim.run.waiting_on == WaitingOn.BUDGET.value:
        claim.run.waiting_on = ""
        audit.emit([run_events.progressed(claim.run, Phase.PLANNING, "Working.")])


def _request_tokens(snapshot: Snapshot) -> int:
    """Return the estimated tokens of the next request: not fewer than the server has reported of an earlier one."""
    reported = max((step.usage.input_tokens for step in snapshot.steps), default=0)
    return max(round(context_size.sent_tokens(snapshot) * snapshot.context.ratio), reported)


def _wait(claim: Claim, tokens: int) -> None:
    """Park a run until there is room for so many tokens."""
    ready_at, on = Now() + tree_budget.AGAIN_AFTER, WaitingOn.BUDGET
    parked: dict[str, Any] = {"owner": None, "waiting_on": on.value, "ready_at": ready_at, "reserved_tokens": tokens}
    if not transitions.move(claim.run, RunStatus.WAITING, held_by=claim.owner, **parked):
        raise Fenced
    audit.emit(run_events.waits_for_runs(claim.run, on))
