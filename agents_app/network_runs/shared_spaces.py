"""The shared memory of a run: of its network, or of its tree of runs. Reads only."""

from typing import Literal
from uuid import UUID

from agents_app.models import Run
from agents_app.runs import network_step
from agents_app.types.child_runs import RunKind
from audit_app.kernel.errors import NotFound, found
from tools_app.storage.shared_memory import Space


def space_of(run_id: UUID, wanted: Literal["", "network", "run"] = "") -> Space:
    """Return the memory that a run shares with others: by default of the network that it executes or works for.

    Raises NotFound (also not_a_network, if it has none and one is wanted).
    """
    run = found(Run.objects.filter(pk=run_id).first(), "There is no such run.")
    network = None
    if wanted != "run":
        network = run if network_step.executes(run) else network_of(run)[1]
    if network is not None:
        return Space("network", network.pk)
    if wanted == "network":
        raise NotFound("This run is not part of a network.", code="not_a_network")
    return Space("run", run.root_id or run.pk)


def network_of(run: Run) -> tuple[Run | None, Run | None]:
    """Return the task that a run is, or works for, and the run of its network."""
    while run.parent_id is not None:
        parent = Run.objects.get(pk=run.parent_id)
        if run.kind == RunKind.TASK.value and network_step.executes(parent):
            return run, parent
        run = parent
    return None, None
