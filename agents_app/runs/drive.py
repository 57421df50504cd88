"""The state of one claimed run in its worker process, and the ends of runs whose model call was stopped."""

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime

from django.conf import settings

from agents_app.models import Run
from agents_app.providers.base import ProviderError
from agents_app.runs.claims import Claim
from agents_app.runs.live_text import LiveText
from agents_app.runs.model_call import ModelCall
from agents_app.runs.next_step import CANCELLED, End, at_limit, stopped
from agents_app.runs.retry_policy import retry_delay
from agents_app.runs.writes import NO_USAGE, Spent
from agents_app.types import Limits, Snapshot, Usage
from audit_app.kernel import context
from tools_app.policy import emergency_stop


@dataclass
class Drive:
    """The execution of one claimed run.

    tries: failed tries of the current model call
    reset: the reason why viewers must discard text of the first step; empty if they need not
    began: monotonic time up to which active seconds are accounted for
    overflowed: whether the model's server has refused a request as too long since the last recorded step
    """

    claim: Claim
    live: LiveText
    tries: int
    reset: str
    began: float = field(default_factory=time.monotonic)
    call: ModelCall | None = None
    overflowed: bool = False

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.began

    def spend(self, started_at: datetime, usage: Usage = NO_USAGE) -> Spent:
        """Return the time since the last account, and start a new one. usage: of a failed call."""
        seconds, self.began = self.elapsed, time.monotonic()
        return Spent(seconds, started_at, usage)

    def retry_delay(self, limits: Limits, error: ProviderError) -> float | None:
        """Return the seconds to wait before the failed call is made again, or None to give up."""
        wait = error.retry_after_seconds
        return retry_delay(limits, self.tries + 1, retryable=error.retryable, retry_after_seconds=wait)


def end_after(why: str, claim: Claim, snapshot: Snapshot) -> End | None:
    """Return the end of a run by the reason of `Interrupted`; None if another process has claimed it. Reads only."""
    match why:
        case "cancelled":
            return CANCELLED
        case "stopped":
            return stopped(emergency_stop.why_stopped(claim.run.agent.agent_id) or "Stopped by an operator.")
        case _:
            return at_limit(why, snapshot, settings.KOMAND_MAX_ANSWER_CHARACTERS)


def bound(run: Run) -> AbstractContextManager[None]:
    """Bind a run, its conversation and its agent for the block."""
    return context.bind(
        request_id=run.request_id,
        actor=f"agent:{run.agent.agent_id}",
        session_id=str(run.conversation_id),
        run_id=str(run.id),
    )
