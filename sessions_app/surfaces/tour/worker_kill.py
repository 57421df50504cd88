"""Kills the process that executes a run of the tour, and reads from the audit log what became of the run."""

import os
import signal
import socket
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User

from agents_app.models import DEMO, ModelProvider, Run
from agents_app.rights import OPERATE_RUNS
from agents_app.types import RunStatus
from audit_app import selectors as audit_log
from audit_app import services as audit
from audit_app.kernel import liveness
from audit_app.kernel.errors import Conflict, Forbidden
from audit_app.kernel.liveness import ProcessView
from audit_app.models import AuditEntry
from audit_app.rights import holds, require
from sessions_app.models import Session

_KILLED, _RECOVERED = "WorkerKilled", "RunRecovered"
_WORKER = "runs"  # begins the names of the processes that execute runs
_FIRST_CLAIM = 1


@dataclass(frozen=True)
class Crash:
    """A crash of the process that executed a run.

    pid: of the killed process; 0 if it was not killed by the tour.
    is_recovered: another process can continue the run.
    seconds: from the kill to that; None if unknown.
    """

    pid: int
    is_recovered: bool
    seconds: float | None


def may_kill(user: User) -> bool:
    """Return whether the user may kill a worker of this installation, which nobody may while it serves real models."""
    return holds(user, OPERATE_RUNS) and _is_for_trial()


def _is_for_trial() -> bool:
    return bool(settings.KOMAND_TOUR) or not ModelProvider.objects.exclude(kind=DEMO).exists()


def find_worker(run_id: UUID) -> ProcessView | None:
    """Return the process of this machine that executes a run which has not been continued by another one."""
    running = Run.objects.filter(pk=run_id, status=RunStatus.RUNNING.value, fence=_FIRST_CLAIM, owner__isnull=False)
    owner = running.values_list("owner", flat=True).first()
    here = (each for each in liveness.list_processes() if each.id == owner and each.host == socket.gethostname())
    return next((each for each in here if each.alive and each.name.startswith(_WORKER)), None)


def kill_worker(user: User, session: Session, run_id: UUID) -> None:
    """Kill the process that executes a run, once. Audited. Raises MissingRight, Forbidden and Conflict."""
    require(user, OPERATE_RUNS)
    if not _is_for_trial():
        raise Forbidden("A worker is killed only while the demo is the only model, or with KOMAND_TOUR=true.")
    worker = find_worker(run_id)
    if worker is None:
        raise Conflict("No process of this machine writes this answer now. Start the long answer again.")
    details = {"run_id": str(run_id), "process": worker.name, "pid": worker.pid}
    actor = f"user:{user.pk}"
    audit.record(_KILLED, actor=actor, details=details, session_id=session.pk, session_key=session.key)
    try:
        os.kill(worker.pid, signal.SIGKILL)
    except OSError as error:
        raise Conflict(f"The process {worker.pid} could not be killed: {error.strerror}.") from None


def find_crash(session_id: UUID, run_id: UUID) -> Crash | None:
    """Return the last crash of a run's process; None without one."""
    entries = {action: _newest(session_id, run_id, action) for action in (_KILLED, _RECOVERED)}
    killed, recovered = entries[_KILLED], entries[_RECOVERED]
    if killed is None and recovered is None:
        return None
    seconds = (recovered.at - killed.at).total_seconds() if killed and recovered else None
    return Crash(killed.details["pid"] if killed else 0, recovered is not None, seconds)


def _newest(session_id: UUID, run_id: UUID, action: str) -> AuditEntry | None:
    wanted = audit_log.EntryFilter(session_id=session_id, action=action)
    return next((each for each in audit_log.list_entries(wanted) if each.details.get("run_id") == str(run_id)), None)
