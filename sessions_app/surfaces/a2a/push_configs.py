"""Push notification configurations of tasks: stored, shown and deleted for a caller. Synchronous.

Tokens and credentials are stored sealed and not shown again.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from django.db import transaction

from agents_app.types import RunView
from audit_app import services as audit
from audit_app.kernel.advisory_lock import serialize
from sessions_app.channels.outbound import pushes
from sessions_app.models import Session, TaskPush
from sessions_app.surfaces.a2a.errors import TaskNotFound
from sessions_app.surfaces.a2a.queries import Caller, access_task
from sessions_app.surfaces.a2a.requests import PushRequest, read_push, read_push_ids
from sessions_app.surfaces.base.function_tools import invalid_param
from tools_app.secrets import vault

MOST_CONFIGS = 10  # of a task


def store(caller: Caller, run: RunView, session: Session, request: PushRequest) -> TaskPush:
    """Store a configuration, or replace the one of its id. Owns its transaction.

    The state of the task is the first that a new one notifies, also if it has ended. Raises InvalidInput if the task
    has too many.
    """
    name, target = request.name or str(run.id), vault.seal(json.dumps(asdict(request)))
    settings = {"target_sealed": target, "credential": caller.principal.credential, "origin": caller.origin}
    with transaction.atomic():
        serialize(f"task-push:{run.id}")
        known = TaskPush.objects.filter(run_id=run.id)
        if not known.filter(name=name).exists() and known.count() >= MOST_CONFIGS:
            raise invalid_param(
                f"A task may have {MOST_CONFIGS} push notification configurations: delete one first.", "id"
            )
        new = {**settings, "session": session}
        push, _ = TaskPush.objects.update_or_create(defaults=settings, create_defaults=new, run_id=run.id, name=name)
        audit.record("TaskPushConfigured", details={"task": str(run.id), "host": urlsplit(request.url).hostname})
    return push


def create(caller: Caller, params: Mapping[str, Any]) -> dict[str, Any]:
    """Create a configuration. Raises TaskNotFound, InvalidInput."""
    caller.principal.require_write()
    run, session = access_task(caller, read_push_ids(params)[0])
    return _shown(store(caller, run, session, read_push(params)))


def get(caller: Caller, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration. Raises TaskNotFound."""
    task_id, name = read_push_ids(params)
    run, _ = access_task(caller, task_id)
    push = TaskPush.objects.filter(run_id=run.id, name=name).first()
    if push is None:
        raise TaskNotFound("The task has no such push notification configuration.")
    return _shown(push)


def list_all(caller: Caller, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return all configurations of a task: it has few, so there is one page. Raises TaskNotFound."""
    run, _ = access_task(caller, read_push_ids(params)[0])
    return {"configs": [_shown(push) for push in TaskPush.objects.filter(run_id=run.id)], "nextPageToken": ""}


def delete(caller: Caller, params: Mapping[str, Any]) -> dict[str, Any]:
    """Delete a configuration, with what is still to be sent. Idempotent. Raises TaskNotFound."""
    caller.principal.require_write()
    task_id, name = read_push_ids(params)
    run, _ = access_task(caller, task_id)
    with transaction.atomic():
        for push in TaskPush.objects.filter(run_id=run.id, name=name):
            pushes.withdraw(push)
            push.delete()
            audit.record("TaskPushDeleted", details={"task": str(run.id)})
    return {}


def _shown(push: TaskPush) -> dict[str, Any]:
    target = json.loads(vault.unseal(push.target_sealed))
    shown = {"id": push.name, "taskId": str(push.run_id), "url": target["url"]}
    return {**shown, **({"authentication": {"scheme": target["scheme"]}} if target["scheme"] else {})}


METHODS: Mapping[str, Callable[[Caller, Mapping[str, Any]], dict[str, Any]]] = {
    "CreateTaskPushNotificationConfig": create,
    "GetTaskPushNotificationConfig": get,
    "ListTaskPushNotificationConfigs": list_all,
    "DeleteTaskPushNotificationConfig": delete,
}
