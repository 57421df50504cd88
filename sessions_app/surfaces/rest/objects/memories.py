"""Memories: what agents remember about a user."""

from typing import Any

from rest_framework.serializers import BooleanField, CharField, ChoiceField, IntegerField, ListField, UUIDField

from sessions_app.surfaces.base.serializers import CamelCaseSerializer, ObjectSerializer, Timestamp
from tools_app.models import Memory


class DeleteMemoriesQuery(CamelCaseSerializer):
    agent_id = CharField(max_length=120, default="", allow_blank=True, help_text="Id of an agent. Empty: all agents.")


class MemoryQuery(DeleteMemoriesQuery):
    query = CharField(max_length=500, default="", allow_blank=True, help_text='Words, "phrases" and -exclusions.')
    limit = IntegerField(min_value=1, max_value=200, default=50)
    cursor = CharField(max_length=100, default="", allow_blank=True, help_text="`meta.nextCursor` of the page before.")


class MemoryBody(CamelCaseSerializer):
    """A change of a memory; a missing field stays."""

    text = CharField(
        required=False, trim_whitespace=False, help_text="New text, at most 100 KB. Its source is then you."
    )
    is_pinned = BooleanField(required=False)


class MemoryOut(ObjectSerializer):
    memory_id = UUIDField(source="pk")
    agent_id = CharField()
    key = CharField()
    text = CharField()
    source_ = ChoiceField(choices=Memory.SOURCES)
    is_trusted = BooleanField(help_text="Recalled by agents without a tool call: not from outside, or approved.")
    is_pinned = BooleanField()
    origins = ListField(child=CharField(), help_text="Origins of what the run that wrote it had read.")
    approved_at = Timestamp(allow_null=True)
    created_at = Timestamp()
    updated_at = Timestamp()

    @classmethod
    def of(cls, subject: Memory, **given: Any) -> dict[str, Any]:
        origins = subject.origins.splitlines()
        return super().of(subject, origins=origins, source_=subject.source or ("tool" if origins else "agent"), **given)
