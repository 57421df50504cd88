"""The emergency stop."""

from collections.abc import Sequence
from typing import Any

from rest_framework.serializers import BooleanField, CharField, ListField

from sessions_app.surfaces.base.serializers import CamelCaseSerializer, NullableText, ObjectSerializer, Timestamp
from tools_app.policy.emergency_stop import ControlView


class ControlBody(CamelCaseSerializer):
    reason = CharField(max_length=300, default="", allow_blank=True, help_text="Shown to users and recorded.")
    agent_id = CharField(max_length=120, default="", allow_blank=True, help_text="Empty: all agents.")


class StoppedAgentOut(ObjectSerializer):
    agent_id = CharField(source="scope")
    reason = CharField()
    changed_by = NullableText()
    changed_at = Timestamp(allow_null=True)


class ControlOut(ObjectSerializer):
    stopped = BooleanField(source="is_stopped")
    reason = CharField()
    changed_by = NullableText()
    changed_at = Timestamp(allow_null=True)
    stopped_agents = ListField(child=StoppedAgentOut())


def control(everything: ControlView, stopped: Sequence[ControlView]) -> dict[str, Any]:
    """Return the state of the emergency stop, from that of all agents and the scopes that are stopped now."""
    return ControlOut.of(everything, stopped_agents=[view for view in stopped if view.scope])
