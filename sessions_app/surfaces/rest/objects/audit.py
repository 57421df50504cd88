"""Entries of the audit log."""

from typing import Any

from rest_framework.serializers import CharField, DateTimeField, DictField

from audit_app.models import AuditEntry
from sessions_app.surfaces.base.serializers import NullableText, ObjectSerializer, Timestamp
from sessions_app.surfaces.rest.envelope import PageQuery


class AuditQuery(PageQuery):
    action = CharField(max_length=64, default="")
    actor_id = CharField(max_length=200, default="", source="actor")
    agent_id = CharField(max_length=120, default="")
    session_id = CharField(max_length=512, default="", source="session")
    to = DateTimeField(default=None, source="until")
    from_ = DateTimeField(default=None, source="since")


class AuditEntryOut(ObjectSerializer):
    id = CharField()
    action = CharField()
    actor_id = CharField(source="actor")
    agent_id = NullableText()
    session_id = CharField(allow_null=True)
    request_id = NullableText()
    timestamp = Timestamp(source="at")
    details = DictField()

    @classmethod
    def of(cls, subject: AuditEntry, **given: Any) -> dict[str, Any]:
        return super().of(subject, session_id=subject.session_key or subject.session_id, **given)
