"""The objects of this protocol: their fields in answers and in the OpenAPI document."""

from typing import Any

from rest_framework.serializers import BooleanField, CharField, ChoiceField, DictField, IntegerField, ListField

from agents_app.types import RunView
from audit_app.kernel.shorten import shorten
from sessions_app.models import ApiKey, ChannelAccount, Schedule, ScheduleTick, Session, Turn
from sessions_app.surfaces.base.serializers import Count, NullableText, SnakeCaseObject, Timestamp
from sessions_app.surfaces.base.timestamps import iso
from sessions_app.surfaces.zeroclaw import queries
from tools_app.models import Memory

CATEGORY = "core"  # the only one of memories
_SHOWN_CHARACTERS = 4096
_TICKS = {"sent": "sent", "failed": "error", "skipped": "skipped"}


class GatewaySessionOut(SnakeCaseObject):
    session_id = CharField()
    session_key = CharField()
    created_at = Timestamp()
    last_activity = Timestamp(source="last_active_at")
    message_count = Count()
    agent_alias = CharField(source="agent.agent_id")
    channel_id = CharField()
    name = NullableText(source="title")

    @classmethod
    def of(cls, subject: Session, **given: Any) -> dict[str, Any]:
        client_id = queries.client_id_of(subject)
        key = f"{queries.KEY_PREFIX}{client_id}" if queries.is_of_gateway(subject) else subject.key
        place = f"{subject.channel}.{subject.account_id}"
        return super().of(subject, session_id=client_id, session_key=key, channel_id=place, **given)


class GatewayMessageOut(SnakeCaseObject):
    role = CharField()
    content = CharField()
    created_at = Timestamp()

    @classmethod
    def of(cls, subject: Turn, **given: Any) -> dict[str, Any]:
        return super().of(subject, **given)


class GatewayDeviceOut(SnakeCaseObject):
    """An API key. The type, the address and the capabilities of a device are not stored."""

    id = CharField()
    name = CharField()
    device_type = NullableText()
    paired_at = Timestamp(source="created_at")
    last_seen = Timestamp()
    ip_address = NullableText()
    capabilities = ListField(child=CharField(), allow_null=True)

    @classmethod
    def of(cls, subject: ApiKey, **given: Any) -> dict[str, Any]:
        unknown = {"device_type": None, "ip_address": None, "capabilities": None}
        return super().of(subject, last_seen=subject.last_used_at or subject.created_at, **unknown, **given)


class GatewayMemoryOut(SnakeCaseObject):
    id = CharField()
    key = CharField()
    content = CharField()
    category = CharField()
    timestamp = Timestamp(source="updated_at")
    pinned = BooleanField(source="is_pinned")
    agent_alias = CharField(source="agent_id")
    source_kind = CharField(source="source")
    is_trusted = BooleanField()
    origins = ListField(child=CharField())

    @classmethod
    def of(cls, subject: Memory, **given: Any) -> dict[str, Any]:
        text, origins = shorten(subject.text, _SHOWN_CHARACTERS), subject.origins.splitlines()
        return super().of(subject, content=text, category=CATEGORY, origins=origins, **given)


class GatewayJobOut(SnakeCaseObject):
    id = CharField()
    expression = CharField()
    schedule = DictField()
    prompt = CharField()
    name = CharField(source="task_id")
    job_type = CharField()
    session_target = CharField()
    agent_alias = CharField(source="agent.agent_id")
    enabled = BooleanField()
    delivery = DictField()
    delete_after_run = BooleanField()
    created_at = Timestamp()
    next_run = CharField(help_text="Empty if there is none.")

    @classmethod
    def of(cls, subject: Schedule, **given: Any) -> dict[str, Any]:
        at = iso(subject.next_at) or ""
        cron = {"kind": "cron", "expr": subject.cron, "tz": subject.time_zone}
        return super().of(
            subject,
            expression=subject.cron or at,
            schedule=cron if subject.cron else {"kind": "at", "at": at},
            job_type="agent",
            session_target="main" if subject.session_id else "isolated",
            enabled=not subject.is_paused,
            delivery={"mode": "none", "best_effort": True},
            delete_after_run=False,
            next_run=at,
            **given,
        )


class GatewayJobRunOut(SnakeCaseObject):
    id = IntegerField()
    job_id = CharField()
    started_at = Timestamp(source="handled_at")
    finished_at = Timestamp()
    status = ChoiceField(choices=("ok", "sent", "error", "skipped"))
    output = CharField(allow_null=True)
    duration_ms = Count(allow_null=True)

    @classmethod
    def of(cls, subject: ScheduleTick, *, answer: Turn | None = None, **given: Any) -> dict[str, Any]:
        """Return a tick with the answer of its run, if it has one."""
        ended_at = answer.created_at if answer else subject.handled_at
        return super().of(
            subject,
            finished_at=ended_at,
            status="ok" if answer else _TICKS[subject.status],
            output=answer.content if answer else subject.error or None,
            duration_ms=int((ended_at - subject.handled_at).total_seconds() * 1000) if answer else None,
            **given,
        )


class GatewayChannelOut(SnakeCaseObject):
    name = CharField()
    type = CharField(source="channel")
    alias = CharField(source="account_id")
    owning_agent = CharField()
    enabled = BooleanField(source="is_enabled")
    compiled = BooleanField()
    status = ChoiceField(choices=("active", "inactive", "error"))
    health = ChoiceField(choices=("healthy", "degraded", "unavailable"))
    message_count = Count(help_text="Always 0: messages are not counted.")
    last_message_at = Timestamp(source="last_inbound_at", allow_null=True)

    @classmethod
    def of(cls, subject: ChannelAccount, **given: Any) -> dict[str, Any]:
        state = ("error", "degraded") if subject.last_error else ("active", "healthy")
        status, health = state if subject.is_enabled else ("inactive", "unavailable")
        return super().of(
            subject,
            name=f"{subject.channel}.{subject.account_id}",
            owning_agent=subject.agent.agent_id if subject.agent else "default",
            compiled=True,
            status=status,
            health=health,
            message_count=0,
            **given,
        )


class GatewayStateOut(SnakeCaseObject):
    session_id = CharField()
    state = ChoiceField(choices=("idle", "running", "error"))
    turn_id = CharField(source="id", allow_null=True)
    turn_started_at = Timestamp(source="started_at", allow_null=True)

    @classmethod
    def of(cls, subject: RunView | None, **given: Any) -> dict[str, Any]:
        """Return the state of a session. subject: its open run, None if there is none."""
        none = {} if subject else {"turn_id": None, "turn_started_at": None}
        return super().of(subject, **none, **given)
