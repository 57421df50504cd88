"""One request of a person to several workstreams: each has its own checks and its own audit entry."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.contrib.auth.models import User

from agents_app import services as runs
from agents_app.services import PersonRequest
from agents_app.types.child_runs import title_of
from audit_app.kernel.errors import AppError, Conflict
from sessions_app import services
from sessions_app.access import access_run, access_session
from sessions_app.identity import rate_limits

STOP = "stop"
COMMANDS = (runs.MESSAGE, *runs.COMMANDS, STOP)
_UNLIMITED = {runs.PAUSE, runs.RESUME, STOP}  # they call no model


@dataclass(frozen=True)
class Asked:
    """The result of a request to one workstream.

    name: for people, with those above it; empty if the person has no access to it.
    error: why it was not reached.
    """

    run_id: UUID
    name: str = ""
    error: AppError | None = None


def ask_each(user: User, run_ids: Iterable[UUID], request: PersonRequest) -> list[Asked]:
    """Send a message or a command, or `stop`, to each of these workstreams; counts as one message in the user's limit.

    Raises RateLimited.
    """
    if request.command not in _UNLIMITED:
        rate_limits.take(rate_limits.chat_limit(), request.actor)
    return [_ask(user, run_id, request) for run_id in dict.fromkeys(run_ids)]


def _ask(user: User, run_id: UUID, request: PersonRequest) -> Asked:
    name = ""
    try:
        run = access_run(user, run_id)
        session, name = access_session(user, run.conversation_id), title_of(run.path)
        if request.command != STOP:
            text, more = request.text, {"actor": request.actor, "command": request.command, "key": request.key}
            services.ask_workstream(session, run_id, text, **more)
        elif run.parent_id is None:
            raise Conflict("This run answers a message of its session. Stop it there.", code="not_a_workstream")
        elif not services.cancel_session_runs(session, reason="Stopped.", run_id=run_id):
            raise Conflict(f"The workstream {run.workstream} has ended.", code="workstream_ended")
    except AppError as error:
        return Asked(run_id, name, error)
    return Asked(run_id, name)
