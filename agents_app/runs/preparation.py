"""Calls that prepare the model call of a run: each is recorded as a step, also if it failed, and made once."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace

from agents_app import hot_queries
from agents_app.costs import cost_budget
from agents_app.runs.claims import Claim, user_turns_of
from agents_app.runs.writes import Spent
from agents_app.types import ModelChunk, ModelResponse, Snapshot
from audit_app.kernel.errors import AppError
from tools_app.policy import emergency_stop

Record = Callable[[ModelResponse, Spent, AppError | None], tuple[Claim, Snapshot | None]]


@dataclass(frozen=True)
class Preparation:
    """A call to make.

    is_retried: a failure that may pass is retried as one of a model call.
    record: records the response, or the failure, and does what follows from it without the model. Owns its transaction,
        which locks the run's row before it decides. Raises Fenced. Returns the claim to continue with, and what
        `writes.decide_and_apply` returns.
    """

    chunks: AsyncGenerator[ModelChunk, None]
    record: Record
    is_retried: bool = False


def following(claim: Claim, snapshot: Snapshot, spent: Spent) -> Snapshot:
    """Return the state of the run after a recorded preparation, in the transaction that records it."""
    run = claim.run
    [(_, cancel_requested_at)] = hot_queries.GET_REQUESTS.rows(run_id=run.id)
    return replace(
        snapshot,
        user_turns=user_turns_of(run),
        active_seconds=snapshot.active_seconds + spent.active_seconds,
        cancel_requested=cancel_requested_at is not None,
        stopped=emergency_stop.why_stopped(run.agent.agent_id),
        budget_refusal=cost_budget.refusal_of(run),
        preparations=snapshot.preparations + 1,
        overflow=None,
    )
