"""The objects of this protocol: their fields in answers and in the OpenAPI document."""

from collections.abc import Sequence
from typing import Any, ClassVar
from uuid import UUID

from django.contrib.auth.models import User
from rest_framework.serializers import BooleanField, CharField, ChoiceField, DictField, Field, JSONField, UUIDField

from agents_app.types import RunStatus, RunView
from audit_app.models import AuditEntry
from audit_app.rights import READ_AUDIT, holds
from sessions_app.models import Session
from sessions_app.surfaces.base.serializers import Count, NullableText, SnakeCaseObject, Timestamp
from sessions_app.surfaces.base.timestamps import iso
from sessions_app.surfaces.threads import commands, requests
from sessions_app.surfaces.threads.foreign_ids import TENANT, threads_path, user_uuid, workflow_id
from sessions_app.surfaces.threads.queries import ThreadMessage

Shape = dict[str, Any]

NEW_THREAD = "New Thread"
_TASK_QUEUE = "runs"
_WORKFLOW = {status: status.name if status.is_terminal else "RUNNING" for status in RunStatus}
_WORKFLOW[RunStatus.CANCELLED] = "CANCELED"
_OBJECTS = {"type": "array", "items": {"type": "object"}}


def page(items: Sequence[Shape], total: int, query: dict[str, Any]) -> Shape:
    return {"items": list(items), "total": total, "limit": query["limit"], "offset": query["offset"]}


class UserId(UUIDField):
    """Our id of a user, as a UUID."""

    def to_representation(self, value: Any) -> str:
        return str(user_uuid(value))


class ContentField(JSONField):
    json_schema: ClassVar = {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "is_error": {"type": "boolean"},
            "citations": _OBJECTS,
            "references": _OBJECTS,
        },
        "required": ["text", "is_error", "citations", "references"],
    }


class NullField(Field[Any, Any, Any, Any]):
    """A field that is always null."""

    json_schema: ClassVar = {"type": "null"}


class ThreadPersonOut(SnakeCaseObject):
    user_id = UserId(source="pk")
    first_name = NullableText()
    last_name = NullableText()


class ThreadOut(SnakeCaseObject):
    """`agent_id` and `is_busy` (a message would be refused now) are fields of ours."""

    id = UUIDField()
    path_part_id = UUIDField(source="id")
    title = CharField()
    parent_thread_id = UUIDField(allow_null=True)
    materialized_path = CharField()
    tenant_id = UUIDField()
    owner = ThreadPersonOut()
    created_at = Timestamp()
    updated_at = Timestamp(source="last_active_at")
    agent_id = CharField(source="agent.agent_id")
    is_busy = BooleanField()


class ThreadMessageOut(SnakeCaseObject):
    id = UUIDField()
    path_part_id = UUIDField(source="id")
    sequence = Count()
    role = ChoiceField(choices=requests.ROLES)
    content = ContentField()
    details = DictField(allow_null=True)
    parent_path_id = UUIDField()
    materialized_path = CharField()
    tenant_id = UUIDField()
    author_tenant_user_id = UserId(allow_null=True)
    created_at = Timestamp()
    updated_at = Timestamp(source="created_at")


class ThreadMessageTakenOut(SnakeCaseObject):
    workflow_id = CharField()
    user_message_id = UUIDField()
    message_id = UUIDField()


class ThreadJobOut(SnakeCaseObject):
    workflow_id = CharField()
    temporal_status = CharField()
    workflow_type = CharField()
    task_queue = CharField()
    start_time = Timestamp()
    close_time = Timestamp(source="ended_at", allow_null=True)
    run_id = UUIDField(source="id")
    status = CharField()
    waiting_on = CharField(allow_null=True)


class ThreadFeedbackOut(SnakeCaseObject):
    id = UUIDField()
    target_type = ChoiceField(choices=requests.TARGETS)
    target_id = UUIDField()
    user_id = UserId()
    rating = CharField()
    reason = NullableText()
    comment = NullableText()
    extra_metadata = DictField(allow_null=True)
    created_at = Timestamp()
    updated_at = Timestamp()


class ThreadApiKeyOut(SnakeCaseObject):
    id = UUIDField()
    name = CharField()
    key_suffix = CharField(source="suffix")
    created_at = Timestamp()
    expires_at = Timestamp(allow_null=True)
    last_used_at = Timestamp(allow_null=True)


class ThreadNewApiKeyOut(ThreadApiKeyOut):
    key = CharField()


class ThreadUserOut(SnakeCaseObject):
    """The current user. Operators are the tenant's admins, superusers its owners."""

    id = UserId()
    email = NullableText()
    phone_number = NullField()
    first_name = NullableText()
    last_name = NullableText()
    idp_type = CharField()
    current_tenant_id = UUIDField()
    current_tenant_role = CharField()
    default_tenant_id = UUIDField()
    language_preference = CharField()
    join_method = CharField()
    onboarding_completed_at = Timestamp(source="date_joined", allow_null=True)


class ThreadAuditEventOut(SnakeCaseObject):
    """An audit entry. Its subject is its session, or the tenant."""

    id = CharField()
    subject_path_part_id = UUIDField()
    kind = CharField(source="action")
    ts = Timestamp(source="at")
    actor_user_id = UserId(allow_null=True)
    payload = DictField(source="details")
    actor = ThreadPersonOut(allow_null=True)
    subject_name = NullableText(source="session_key")
    subject_object_id = UUIDField(source="session_id", allow_null=True)
    subject_part_type = CharField(allow_null=True)


def path_of(session: Session, owner: User) -> str:
    return f"{threads_path(owner.pk)}/{commands.path_name_of(session)}"


def thread(session: Session, owner: User, *, is_busy: bool) -> Shape:
    return ThreadOut.of(
        session,
        title=session.title or NEW_THREAD,
        parent_thread_id=commands.parent_of(session),
        materialized_path=path_of(session, owner),
        tenant_id=TENANT,
        owner=owner,
        is_busy=is_busy,
    )


def message(stored: ThreadMessage, session: Session, owner: User) -> Shape:
    return ThreadMessageOut.of(
        stored,
        content={"text": stored.text, "is_error": stored.is_error, "citations": [], "references": [], **stored.extras},
        parent_path_id=session.id,
        materialized_path=f"{path_of(session, owner)}/{stored.sequence}",
        tenant_id=TENANT,
        author_tenant_user_id=owner.pk if stored.role == "USER" else None,
    )


def job(thread_id: UUID, run: RunView) -> Shape:
    return ThreadJobOut.of(
        run,
        workflow_id=workflow_id(thread_id),
        temporal_status=_WORKFLOW[run.status],
        workflow_type=f"agent:{run.agent_id}",
        task_queue=_TASK_QUEUE,
        start_time=run.started_at or run.created_at,
    )


def user(row: User) -> Shape:
    return ThreadUserOut.of(
        row,
        phone_number=None,
        idp_type="PASSWORD",
        current_tenant_id=TENANT,
        current_tenant_role="OWNER" if row.is_superuser else "ADMIN" if holds(row, READ_AUDIT) else "USER",
        default_tenant_id=TENANT,
        language_preference="en",
        join_method="CREATOR" if row.is_superuser else "ADDED",
    )


def audit_event(row: AuditEntry, users: dict[int, User]) -> Shape:
    number = row.actor.removeprefix("user:")
    actor = users.get(int(number)) if row.actor.startswith("user:") and number.isdecimal() else None
    return ThreadAuditEventOut.of(
        row,
        subject_path_part_id=row.session_id or TENANT,
        actor_user_id=actor.pk if actor else None,
        actor=actor,
        subject_part_type="THREAD" if row.session_id else None,
    )


def trace(run: RunView, owner: User, calls: int, generations: int, model: str) -> Shape:
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
