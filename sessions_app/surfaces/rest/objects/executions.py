"""Tool executions and their receipts."""

from rest_framework.serializers import BooleanField, CharField, ChoiceField, ListField, UUIDField

from sessions_app.surfaces.base.serializers import (
    CamelCaseSerializer,
    NullableText,
    ObjectSerializer,
    TimeSpan,
    Timestamp,
)
from tools_app.types import ExecutionStatus


class ReceiptBody(CamelCaseSerializer):
    receipt = CharField(max_length=200)


class ExecutionOut(ObjectSerializer):
    execution_id = UUIDField(source="id")
    status = ChoiceField(choices=list(ExecutionStatus))
    output = CharField(allow_null=True, help_text="Output as JSON text.")
    error = CharField(allow_null=True)
    completed_at = Timestamp(allow_null=True)
    duration = TimeSpan(source="duration_seconds", allow_null=True)
    receipt = NullableText()
    origins = ListField(child=CharField(), help_text="Origins of the result, such as `page:example.org`.")


class ReceiptVerdictOut(ObjectSerializer):
    valid = BooleanField(source="is_valid")
    execution_id = UUIDField(allow_null=True)
    reason = CharField()
