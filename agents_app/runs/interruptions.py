"""The ends of runs whose model call was stopped."""

from django.conf import settings

from agents_app.runs.lease import Claim
from agents_app.runs.next_step import CANCELLED, REPEATS, End, out_of_time, stopped, too_long
from agents_app.types import Snapshot
from tools_app.policy import emergency_stop


def end_after(why: str, claim: Claim, snapshot: Snapshot) -> End | None:
    """Return the end of a run by the reason of `Interrupted`; None if another process has claimed it. Reads only."""
    match why:
        case "cancelled":
            return CANCELLED
        case "stopped":
            return stopped(emergency_stop.why_stopped(claim.run.agent.agent_id) or "Stopped by an operator.")
        case "time_limit":
            return out_of_time(snapshot)
        case "too_long":
            return too_long(settings.KOMAND_MAX_ANSWER_CHARACTERS)
        case "repeats":
            return REPEATS
        case _:
            return None
