"""Tasks and agents, read from the database for a caller. Synchronous.

A task is a root run of a context: a session that was opened over A2A. Other sessions of the user are not shown, so that
a key for another agent opens no conversation of a person.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet
from django.db.models.functions import Coalesce

from agents_app import selectors as agents
from agents_app.models import Agent, Run
from agents_app.types import RunStatus, RunView
from audit_app.kernel.errors import NotFound
from sessions_app import selectors
from sessions_app.access import access_agent, access_artifact, access_run, access_session
from sessions_app.conversation.citations import for_people
from sessions_app.identity.principal import Principal
from sessions_app.models import Session
from sessions_app.surfaces.a2a import asks, responses, task_history
from sessions_app.surfaces.a2a.errors import TaskNotFound
from sessions_app.surfaces.a2a.requests import history_of, read_list, read_task_id
from sessions_app.surfaces.a2a.responses import AUTH_REQUIRED, INTERRUPTED, STATE_OF, WORKING, TaskFile, TaskView
from sessions_app.surfaces.base import client_sessions
from sessions_app.surfaces.base.function_tools import invalid_param
from tools_app.storage import artifacts

NAME = "a2a"  # the key of this surface's data in sessions
CONTEXT = "contextId"  # in that data: the name that the client gave
_MICROSECOND = timedelta(microseconds=1)
_MOST_RAW, _MOST_RAW_OF_TASK = 100_000, 1_000_000  # bytes of files that are in the task itself


@dataclass(frozen=True)
class Caller:
    """The caller of a request and the agent that it names. origin: of this installation."""

    principal: Principal
    agent: Agent
    origin: str


def find_caller(principal: Principal, agent_id: str, origin: str) -> Caller:
    """Return the caller. Raises NotFound (unknown_agent) for an agent that they may not use."""
    return Caller(principal, access_agent(principal.user, agent_id), origin)


def card(caller: Caller) -> dict[str, Any]:
    agent = caller.agent
    about = agent.description or ""
    return responses.agent_card(
        agent_id=agent.agent_id, name=agent.name, description=about, version=agent.version, origin=caller.origin
    )


def access_task(caller: Caller, task_id: str) -> tuple[RunView, Session]:
    """Return a task of the caller and its context. Raises TaskNotFound."""
    try:
        run = access_run(caller.principal.user, task_id)
        session = access_session(caller.principal.user, run.conversation_id)
    except NotFound:
        raise TaskNotFound from None
    if run.parent_id or run.agent_id != caller.agent.agent_id or NAME not in session.metadata:
        raise TaskNotFound
    return run, session


def find_context(caller: Caller, context_id: str) -> Session | None:
    """Return the context of an id that this server gave, or of a name that a client gave."""
    contexts = _contexts(caller)
    try:
        if found := contexts.filter(pk=UUID(context_id)).first():
            return access_session(caller.principal.user, found.pk)
    except ValueError:
        pass
    found = client_sessions.find_session(caller.principal.user, thread_id_of(caller, context_id))
    return access_session(caller.principal.user, found.pk) if found else None


def thread_id_of(caller: Caller, *names: str) -> str:
    """Return the thread id of the session that these names of a client open."""
    return client_sessions.thread_id_of(NAME, caller.agent.agent_id, *names)


def context_id_of(session: Session) -> str:
    return str((session.metadata.get(NAME) or {}).get(CONTEXT) or session.pk)


def get_task(caller: Caller, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the task of a GetTask request. Raises TaskNotFound, InvalidInput."""
    run, session = access_task(caller, read_task_id(params))
    return responses.task(load(caller, run, session, history_of(params)))


def load_task(caller: Caller, run_id: UUID, session: Session, history_length: int | None) -> TaskView:
    """Return a task as it is now."""
    return load(caller, agents.get_run(run_id), session, history_length)


def load(
    caller: Caller, run: RunView, session: Session, history_length: int | None, *, with_data: bool = True
) -> TaskView:
    """Return a task. with_data: short files with their content."""
    return _views(caller, [run], {session.pk: session}, history_length, with_data=with_data)[0]


def list_tasks(caller: Caller, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the page of a ListTasks request, the last changed first. Raises InvalidInput."""
    request = read_list(params)
    contexts = _contexts(caller)
    if request.context_id:
        context = find_context(caller, request.context_id)
        contexts = contexts.filter(pk=context.pk) if context else contexts.none()
    rows = Run.objects.select_related("agent").filter(parent=None, agent=caller.agent)
    rows = rows.filter(conversation_id__in=contexts.values("pk"))
    rows = rows.annotate(changed_at=Coalesce("ended_at", "started_at", "created_at"))
    if request.state:
        rows = _in_state(caller, rows, request.state)
    if request.changed_since:
        # SQLite compares texts, and some times have no microseconds there.
        rows = rows.filter(changed_at__gte=request.changed_since - _MICROSECOND)
    total = rows.count()
    if request.page_token:
        moment, run_id = _read_token(request.page_token)
        rows = rows.filter(Q(changed_at__lt=moment) | Q(changed_at=moment, pk__lt=run_id)).exclude(pk=run_id)
    found = list(rows.order_by("-changed_at", "-pk")[: request.page_size + 1])
    page = found[: request.page_size]
    sessions = contexts.in_bulk({row.conversation_id for row in page})
    runs = [agents.run_view(row) for row in page if row.conversation_id in sessions]
    views = _views(caller, runs, sessions, request.history_length, with_files=request.with_artifacts, with_data=False)
    return {
        "tasks": list(map(responses.task, views)),
        "nextPageToken": _token(page[-1]) if len(found) > len(page) else "",
        "pageSize": request.page_size,
        "totalSize": total,
    }


def read_file(caller: Caller, artifact_id: str) -> tuple[artifacts.ArtifactView, bytes]:
    """Return a file of a context of the caller with this agent. Raises NotFound."""
    view = access_artifact(caller.principal.user, artifact_id)
    if not _contexts(caller).filter(pk=view.session_id).exists():
        raise NotFound("There is no such file.")
    return artifacts.read_artifact(view.session_id, view.path)


def _contexts(caller: Caller) -> QuerySet[Session]:
    return selectors.sessions_of(caller.principal.user).filter(agent=caller.agent, metadata__has_key=NAME).order_by()


def _in_state(caller: Caller, rows: Any, state: str) -> Any:
    if state not in (WORKING, *INTERRUPTED):
        return rows.filter(status__in=[status.value for status, name in STATE_OF.items() if name == state])
    waiting = [agents.run_view(row) for row in rows.filter(status=RunStatus.WAITING.value)]
    asking = asks.open_asks([run.id for run in waiting])
    if state == WORKING:
        return rows.filter(status__in=[RunStatus.RUNNING.value, RunStatus.WAITING.value]).exclude(pk__in=asking)
    wanted = [run_id for run_id, ask in asking.items() if asks.is_approval(ask) == (state == AUTH_REQUIRED)]
    return rows.filter(pk__in=wanted)


def _views(
    caller: Caller,
    runs: Sequence[RunView],
    sessions: Mapping[UUID, Session],
    history_length: int | None,
    *,
    with_files: bool = True,
    with_data: bool,
) -> list[TaskView]:
    """Return tasks.

    with_files: also their artifacts.
    with_data: short files with their content.
    """
    found = asks.first_asks(caller.principal, runs, sessions)
    talk = task_history.of_runs(runs, list(sessions.values()), history_length)
    return [
        TaskView(
            run,
            context_id_of(sessions[run.conversation_id]),
            found.get(run.id),
            _answer(run) if with_files else "",
            talk.get(run.id),
            _files(caller, run, with_data=with_data) if with_files else None,
        )
        for run in runs
    ]


def _answer(run: RunView) -> str:
    if not run.status.is_terminal:
        return ""
    transcript = agents.get_transcript(run.id)
    cited = selectors.citations_by_step(run.id).get(transcript.answering_step, ())
    return for_people([(transcript.answer, cited)])


def _files(caller: Caller, run: RunView, *, with_data: bool) -> list[TaskFile]:
    """Return the files that a run and its workstreams have written. with_data: short ones with their content."""
    tree, room = {run.id, *agents.list_descendant_ids(run.id)}, _MOST_RAW_OF_TASK if with_data else 0
    found = []
    for view in artifacts.list_artifacts(run.conversation_id):
        if view.run_id not in tree:
            continue
        is_short = view.size_bytes <= min(_MOST_RAW, room)
        room -= view.size_bytes if is_short else 0
        data = artifacts.read_artifact(view.session_id, view.path)[1] if is_short else None
        url = f"{caller.origin}/a2a/{caller.agent.agent_id}/files/{view.id}"
        found.append(TaskFile(view, data, url))
    return found


def _token(row: Any) -> str:
    return base64.urlsafe_b64encode(f"{row.changed_at.isoformat()} {row.pk}".encode()).decode()


def _read_token(text: str) -> tuple[datetime, UUID]:
    try:
        moment, _, run_id = base64.urlsafe_b64decode(text.encode()).decode().partition(" ")
        found = datetime.fromisoformat(moment), UUID(run_id)
        if found[0].tzinfo:
            return found
    except (ValueError, binascii.Error):
        pass
    raise invalid_param("pageToken must be the nextPageToken of an earlier answer.", "pageToken")
