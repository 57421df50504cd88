"""The progress of a network's run: the state and result of each task, decided from its rows. Reads only."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from agents_app.models import Run
from agents_app.networks.definition import Network
from agents_app.networks.outcomes import TaskResult
from agents_app.runs import child_messages, network_step
from audit_app.kernel.errors import NotFound


@dataclass(frozen=True)
class NetworkProgress:
    """A run of a network.

    run: with its agent.
    attempts: its child runs, oldest first.

    results: results of all tasks, in declared order.
    """

    run: Run
    network: Network
    version: int
    results: Mapping[str, TaskResult]
    attempts: tuple[Run, ...]


def read_progress(run_id: UUID) -> NetworkProgress:
    """Return the progress of a network's run. Raises NotFound (not_a_network) if the run executes none."""
    run = Run.objects.select_related("agent").filter(pk=run_id).first()
    if run is None or not network_step.executes(run):
        raise NotFound("This run does not execute a network.", code="not_a_network")
    rows = network_step.tasks_of(run)
    message = network_step.message_of(run, child_messages.user_turns_of(run))
    decision = network_step.decide_on(run, message, rows)
    stored = run.options["network"]
    return NetworkProgress(
        run, network_step.read(stored["definition"]), stored["version"], decision.results, tuple(rows)
    )
