"""The objects of memories and of the search."""

from typing import Any

from rest_framework.serializers import BooleanField, CharField, ChoiceField, ListField, UUIDField

from sessions_app.models import Turn
from sessions_app.surfaces.base.serializers import ObjectSerializer, Timestamp
from tools_app.models import Memory


class FoundMessageOut(ObjectSerializer):
    session_id = CharField(source="session_key")
    title = CharField(help_text="Of the session.")
    turn_id = UUIDField()
    run_id = UUIDField(allow_null=True)
    role = ChoiceField(choices=Turn.ROLES)
    snippet = CharField(source="excerpt", help_text="The part of the message around the words.")
    timestamp = Timestamp(source="created_at")


class MemoryOut(ObjectSerializer):
    memory_id = UUIDField(source="pk")
    agent_id = CharField()
    key = CharField()
    text = CharField()
    source_ = ChoiceField(choices=Memory.SOURCES)
    is_trusted = BooleanField(help_text="Whether agents use it by themselves: not from outside, or approved.")
    is_pinned = BooleanField()
    origins = ListField(child=CharField(), help_text="What the run that wrote it had read from outside.")
    approved_at = Timestamp(allow_null=True)
    created_at = Timestamp()
    updated_at = Timestamp()

    @classmethod
    def of(cls, subject: Memory, **given: Any) -> dict[str, Any]:
        origins = subject.origins.splitlines()
        return super().of(subject, origins=origins, source_=subject.source or ("tool" if origins else "agent"), **given)
