"""Push notifications: the states of tasks, for the addresses that clients have configured. Synchronous.

The rows of configurations are the state: each has the event of its session up to which its task was looked at. The
outbox sends what is stored here, so a notification is neither lost with a process nor out of order.
"""

from typing import Any

from django.db import transaction

from agents_app import selectors as agents
from agents_app.runs.isolation import isolated
from audit_app import timeline
from audit_app.kernel.errors import Forbidden, NotFound
from sessions_app import hot_queries
from sessions_app.access import access_agent
from sessions_app.channels.outbound import pushes
from sessions_app.identity import session_tokens
from sessions_app.identity.principal import Principal
from sessions_app.models import TaskPush
from sessions_app.surfaces.a2a import queries, responses
from sessions_app.surfaces.a2a.projection import TaskUpdates
from sessions_app.surfaces.a2a.queries import Caller
from sessions_app.surfaces.a2a.responses import TaskView


def sweep() -> None:
    """Do one pass over the configurations in whose session something has happened. Owns its transactions.

    Called about once a second, if there are any. Of states that change faster, the last one is notified.
    """
    for push in hot_queries.LIST_CHANGED_PUSHES.fetch():
        with isolated(f"notifying {push}"):
            _notify(push)


def _notify(push: TaskPush) -> None:
    seq = timeline.find_head(push.session_id)  # before the task is read: what happens meanwhile is seen next
    view = _read_task(push)
    if view is None:  # it is gone, or its client may not read it any more
        TaskPush.objects.filter(pk=push.pk).update(is_open=False)
        return
    status = f"{view.state}:{view.ask.id if view.ask else ''}"
    changes = {"seen_seq": seq, "seen_status": status, "is_open": not view.run.status.is_terminal}
    with transaction.atomic():
        rows = TaskPush.objects.filter(pk=push.pk, seen_seq=push.seen_seq, is_open=True)
        if rows.update(**changes) and status != push.seen_status:
            pushes.plan(push, seq, [(view.state, update) for update in _updates(view)])


def _read_task(push: TaskPush) -> TaskView | None:
    """Return the task as its client may see it now, None if it may not."""
    user, credential = push.session.owner, push.credential
    scopes = session_tokens.find_scopes([credential]).get(credential)
    if user is None or scopes is None or not user.is_active:
        return None
    kind: Any = "api_key" if credential.startswith("key:") else "jwt"
    principal = Principal(user, kind, scopes, surface=queries.NAME, credential=credential)
    try:
        principal.require_surface()
        agent = access_agent(user, agents.get_run(push.run_id).agent_id)
        caller = Caller(principal, agent, push.origin)
        run, session = queries.access_task(caller, str(push.run_id))
    except (Forbidden, NotFound):
        return None
    return queries.load(caller, run, session, 0, with_data=False)


def _updates(view: TaskView) -> list[dict[str, Any]]:
    """Return the status, after the artifacts if the task has ended."""
    task = responses.task(view)
    if not view.run.status.is_terminal:
        task["artifacts"] = []
    return TaskUpdates(view.run.id, view.context_id).refresh(task)
