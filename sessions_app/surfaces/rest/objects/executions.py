"""Tool executions and their receipts."""

from typing import Any

from rest_framework.serializers import BooleanField, CharField, ChoiceField, JSONField, ListField, UUIDField

from audit_app.kernel import redact
from sessions_app.models import Session
from sessions_app.surfaces.base.serializers import (
    CamelCaseSerializer,
    NullableText,
    ObjectSerializer,
    TimeSpan,
    Timestamp,
)
from tools_app.types import ExecutionStatus, ExecutionView


class ReceiptBody(CamelCaseSerializer):
    receipt = CharField(max_length=200)


class ExecutionOut(ObjectSerializer):
    """The request of a call and, once it has ended, its result."""

    execution_id = UUIDField(source="id")
    tool_name = CharField(source="tool")
    agent_id = CharField()
    session_id = CharField()
    parameters = JSONField(help_text="The arguments of the call. Secrets are masked.")
    timeout = TimeSpan(source="timeout_seconds")
    requested_at = Timestamp(source="created_at")
    status = ChoiceField(choices=list(ExecutionStatus))
    output = CharField(allow_null=True, help_text="Output as JSON text.")
    error = CharField(allow_null=True)
    completed_at = Timestamp(allow_null=True)
    duration = TimeSpan(source="duration_seconds", allow_null=True)
    receipt = NullableText()
    origins = ListField(child=CharField(), help_text="Origins of the result, such as `page:example.org`.")


def execution_json(view: ExecutionView, session: Session) -> dict[str, Any]:
    return ExecutionOut.of(view, session_id=session.key, parameters=redact.masked_arguments(view.arguments))


class ReceiptVerdictOut(ObjectSerializer):
    valid = BooleanField(source="is_valid")
    execution_id = UUIDField(allow_null=True)
    reason = CharField()
