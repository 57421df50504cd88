"""Ends the pending work of a restored backup, which the old installation may have finished since."""

from dataclasses import dataclass

from agents_app import services as agents
from audit_app import services as audit
from audit_app.kernel import nudges
from sessions_app.channels.outbound import transitions
from sessions_app.models import Delivery

_OF_RUNS = (
    "This installation was restored from a backup that was made before the answer was complete. "
    "Calls that had begun may have taken effect. Send the message again if it is still needed."
)
_OF_DELIVERIES = "Restored from a backup that was made before it was sent."


@dataclass(frozen=True)
class Ended:
    """Numbers of the runs that were ended, and of the deliveries that were marked as perhaps sent."""

    runs: int
    deliveries: int


def end_pending() -> Ended:
    """End what is pending, and write an audit entry. No process may be running. Idempotent; owns its transactions.

    The people concerned get a message from the runs' ends; operators find the deliveries in the admin.
    """
    deliveries = 0
    with nudges.none_sent():
        for row in Delivery.objects.filter(status__in=Delivery.OPEN).select_related("account", "session__agent"):
            deliveries += transitions.give_up(row, row.owner, "unknown", _OF_DELIVERIES)
        ended = Ended(agents.end_open_runs(_OF_RUNS), deliveries)
    audit.record("Restored", actor="system", details={"runs": ended.runs, "deliveries": ended.deliveries})
    return ended
