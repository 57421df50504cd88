"""The objects of this protocol: their fields in answers and in the OpenAPI document."""

from typing import Any

from rest_framework.serializers import CharField, ChoiceField, ListField

from agents_app.types import RunView
from sessions_app.models import ApiKey, Session, Turn
from sessions_app.surfaces.base.serializers import Count, NullableText, SnakeCaseObject, Timestamp
from sessions_app.surfaces.zeroclaw import queries


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
