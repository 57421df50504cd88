"""MCP servers and their tools."""

from functools import partial
from typing import Any

from rest_framework.serializers import CharField, ChoiceField, DictField, ListField

from sessions_app.surfaces.base.model_fields import model_field
from sessions_app.surfaces.base.serializers import (
    CamelCaseSerializer,
    NullableChoice,
    NullableText,
    ObjectSerializer,
    Timestamp,
)
from tools_app.models import McpServer
from tools_app.models.mcp import LONGEST_VALUE
from tools_app.secrets.credentials import find_references
from tools_app.types import Effect, Risk


class HiddenTexts(DictField):
    """Texts by name. Only texts that refer to a credential are returned; others are masked."""

    def to_representation(self, value: dict[str, str]) -> dict[str, str]:
        return {name: text if find_references(text) else "***" for name, text in value.items()}


_column = partial(model_field, McpServer)


class McpServerBody(CamelCaseSerializer):
    """An MCP server as an operator may set it. Combinations of fields are checked when it is stored."""

    name = _column("name", validators=[], help_text="")  # the error of a bad name is bad_server
    transport = _column("transport")
    command = _column("command")
    arguments = _column("arguments", help_text="")
    environment = HiddenTexts(required=False, child=CharField(max_length=LONGEST_VALUE))
    url = _column("url")
    headers = HiddenTexts(required=False, child=CharField(max_length=LONGEST_VALUE))
    oauth_client_id = _column("oauth_client_id")
    oauth_client_secret = _column("oauth_client_secret")
    is_enabled = _column("is_enabled")
    default_risk = _column("default_risk")
    default_effect = _column("default_effect")
    connect_seconds = _column("connect_seconds")
    call_seconds = _column("call_seconds")


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


class McpAuthorizationOut(ObjectSerializer):
    status = ChoiceField(
        choices=["none", "authorized", "refused"], help_text="refused: the tokens are not accepted any more."
    )
    issuer = NullableText(help_text="The authorization server.")
    scope = NullableText(help_text="Rights that were granted, separated by spaces.")
    missing_scope = NullableText(help_text="Rights that the server has demanded in vain.")
    authorized_at = Timestamp(allow_null=True)
    expires_at = Timestamp(allow_null=True, help_text="End of the access token, which is renewed before.")


class McpAuthorizationBegunOut(ObjectSerializer):
    authorization_url = CharField(help_text="Open it within ten minutes.")


class McpRevokedOut(ObjectSerializer):
    problem = NullableText(help_text="Reason why the tokens were deleted here, but not revoked.")
