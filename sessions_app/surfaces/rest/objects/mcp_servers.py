"""MCP servers and their tools."""

from typing import Any

from rest_framework.serializers import BooleanField, CharField, ChoiceField, DictField, IntegerField, ListField

from sessions_app.surfaces.base.serializers import (
    CamelCaseSerializer,
    NullableChoice,
    NullableText,
    ObjectSerializer,
    Timestamp,
)
from tools_app.models import McpServer
from tools_app.secrets.credentials import find_references
from tools_app.types import Effect, Risk


class HiddenTexts(DictField):
    """Texts by name. Only texts that refer to a credential are returned; others are masked."""

    def to_representation(self, value: dict[str, str]) -> dict[str, str]:
        return {name: text if find_references(text) else "***" for name, text in value.items()}


class McpServerBody(CamelCaseSerializer):
    """An MCP server as an operator may set it. Combinations of fields are checked when it is stored."""

    name = CharField(max_length=24)
    transport = ChoiceField(required=False, choices=McpServer.TRANSPORTS)
    command = CharField(required=False, max_length=500, allow_blank=True)
    arguments = ListField(required=False, child=CharField(max_length=1000), max_length=100)
    environment = HiddenTexts(required=False, child=CharField(max_length=4000))
    url = CharField(required=False, max_length=500, allow_blank=True)
    headers = HiddenTexts(required=False, child=CharField(max_length=4000))
    is_enabled = BooleanField(required=False)
    default_risk = ChoiceField(required=False, choices=McpServer.RISKS)
    default_effect = ChoiceField(required=False, choices=McpServer.EFFECTS)
    connect_seconds = IntegerField(required=False, min_value=1, max_value=300)
    call_seconds = IntegerField(required=False, min_value=1, max_value=1800)


class ToolNamesBody(CamelCaseSerializer):
    tools = ListField(child=CharField(max_length=128), default=None, allow_null=True)


class McpToolOut(ObjectSerializer):
    name = CharField()
    description = CharField()
    state = ChoiceField(source="status", choices=["offered", "off", "gone", "new", "changed"])
    claims = DictField(source="hints")
    risk = NullableChoice(choices=list(Risk))
    effect = NullableChoice(choices=list(Effect))
    parameters = DictField()


class McpServerOut(McpServerBody, ObjectSerializer):
    """Of a row with its tools."""

    state = ChoiceField(choices=McpServer.STATES)
    last_error = NullableText()
    reached_at = Timestamp(allow_null=True)
    tools = ListField(child=McpToolOut())

    @classmethod
    def of(cls, subject: McpServer, **given: Any) -> dict[str, Any]:
        return super().of(subject, tools=subject.tools.all(), **given)


class McpChangesOut(CamelCaseSerializer):
    new = ListField(child=CharField())
    changed = ListField(child=CharField())
    gone = ListField(child=CharField())
    left_out = DictField(child=CharField(), help_text="Reason by name of the tool.")


class McpServerRefreshedOut(McpServerOut):
    changes = McpChangesOut()


class McpServerApprovedOut(McpServerOut):
    approved = ListField(child=CharField())
