"""Our objects as JSON objects of this protocol."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User

from agents_app.types import RunStatus, RunView
from audit_app.models import AuditEntry
from sessions_app.models import ApiKey, Feedback, Session
from sessions_app.surfaces.base.timestamps import iso
from sessions_app.surfaces.threads import commands
from sessions_app.surfaces.threads.foreign_ids import TENANT, threads_path, user_uuid, workflow_id
from sessions_app.surfaces.threads.queries import ThreadMessage

Shape = dict[str, Any]

NEW_THREAD = "New Thread"
_TASK_QUEUE = "runs"
_WORKFLOW = {status: status.name if status.is_terminal else "RUNNING" for status in RunStatus}
_WORKFLOW[RunStatus.CANCELLED] = "CANCELED"


def page(items: Sequence[Shape], total: int, query: dict[str, Any]) -> Shape:
    return {"items": list(items), "total": total, "limit": query["limit"], "offset": query["offset"]}


def person(user: User) -> Shape:
    return {
        "user_id": str(user_uuid(user.pk)),
        "first_name": user.first_name or None,
        "last_name": user.last_name or None,
    }


def thread(session: Session, owner: User, *, is_busy: bool) -> Shape:
    """Return a thread. `agent_id` and `is_busy` (a message would be refused now) are fields of ours."""
    return {
        "id": str(session.id),
        "path_part_id": str(session.id),
        "title": session.title or NEW_THREAD,
        "parent_thread_id": commands.parent_of(session),
        "materialized_path": path_of(session, owner),
        "tenant_id": str(TENANT),
        "owner": person(owner),
        "created_at": iso(session.created_at),
        "updated_at": iso(session.last_active_at),
        "agent_id": session.agent.agent_id,
        "is_busy": is_busy,
    }


def path_of(session: Session, owner: User) -> str:
    return f"{threads_path(owner.pk)}/{commands.path_name_of(session)}"


def message(stored: ThreadMessage, session: Session, owner: User) -> Shape:
    content = {"text": stored.text, "is_error": stored.is_error, "citations": [], "references": [], **stored.extras}
    at = iso(stored.created_at)
    return {
        "id": str(stored.id),
        "path_part_id": str(stored.id),
        "sequence": stored.sequence,
        "role": stored.role,
        "content": content,
        "details": stored.details,
        "parent_path_id": str(session.id),
        "materialized_path": f"{path_of(session, owner)}/{stored.sequence}",
        "tenant_id": str(TENANT),
        "author_tenant_user_id": str(user_uuid(owner.pk)) if stored.role == "USER" else None,
        "created_at": at,
        "updated_at": at,
    }


def job(thread_id: UUID, run: RunView) -> Shape:
    return {
        "workflow_id": workflow_id(thread_id),
        "temporal_status": _WORKFLOW[run.status],
        "workflow_type": f"agent:{run.agent_id}",
        "task_queue": _TASK_QUEUE,
        "start_time": iso(run.started_at or run.created_at),
        "close_time": iso(run.ended_at),
        "run_id": str(run.id),
        "status": run.status.value,
        "waiting_on": run.waiting_on.value if run.waiting_on else None,
    }


def feedback(row: Feedback) -> Shape:
    return {
        "id": str(row.pk),
        "target_type": row.target_type,
        "target_id": str(row.target_id),
        "user_id": str(user_uuid(row.user_id)),
        "rating": row.rating,
        "reason": row.reason or None,
        "comment": row.comment or None,
        "extra_metadata": row.extra_metadata,
        "created_at": iso(row.created_at),
        "updated_at": iso(row.updated_at),
    }


def api_key(row: ApiKey) -> Shape:
    return {
        "id": str(row.pk),
        "name": row.name,
        "key_suffix": row.suffix,
        "created_at": iso(row.created_at),
        "expires_at": iso(row.expires_at),
        "last_used_at": iso(row.last_used_at),
    }


def user(row: User) -> Shape:
    """Return the current user. Operators are the tenant's admins, superusers its owners."""
    role = "OWNER" if row.is_superuser else "ADMIN" if row.is_staff else "USER"
    return {
        "id": str(user_uuid(row.pk)),
        "email": row.email or None,
        "phone_number": None,
        "first_name": row.first_name or None,
        "last_name": row.last_name or None,
        "idp_type": "PASSWORD",
        "current_tenant_id": str(TENANT),
        "current_tenant_role": role,
        "default_tenant_id": str(TENANT),
        "language_preference": "en",
        "join_method": "CREATOR" if row.is_superuser else "ADDED",
        "onboarding_completed_at": iso(row.date_joined),
    }


def audit_event(row: AuditEntry, users: dict[int, User]) -> Shape:
    """Return an audit entry. Its subject is its session, or the tenant."""
    number = row.actor.removeprefix("user:")
    actor = users.get(int(number)) if row.actor.startswith("user:") and number.isdecimal() else None
    return {
        "id": str(row.pk),
        "subject_path_part_id": str(row.session_id or TENANT),
        "kind": row.action,
        "ts": iso(row.at),
        "actor_user_id": str(user_uuid(actor.pk)) if actor else None,
        "payload": row.details,
        "actor": person(actor) if actor else None,
        "subject_name": row.session_key or None,
        "subject_object_id": str(row.session_id) if row.session_id else None,
        "subject_part_type": "THREAD" if row.session_id else None,
    }


def trace(run: RunView, owner: User, calls: int, generations: int, model: str) -> Shape:
    """Return the trace of a run, for diagnostics."""
    seconds = (run.ended_at - run.started_at).total_seconds() if run.ended_at and run.started_at else None
    return {
        "status": "ready" if run.status.is_terminal else "pending",
        "kind": "chat_turn",
        "trace_id": str(run.id),
        "run_id": str(run.id),
        "thread_id": str(run.conversation_id),
        "message_id": str(run.id),
        "user_id": str(user_uuid(owner.pk)),
        "started_at": iso(run.started_at),
        "ended_at": iso(run.ended_at),
        "duration_ms": None if seconds is None else round(seconds * 1000),
        "model": model or None,
        "generations": generations,
        "tool_calls": calls,
        "subagents": 0,
        "input_tokens": run.usage.input_tokens,
        "output_tokens": run.usage.output_tokens,
        "state": run.status.value,
        "workflow_name": None,
        "title": None,
    }
