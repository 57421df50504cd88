"""Messages: sent, stored as turns, and found by the search."""

import json
from collections.abc import Iterable
from typing import Any, ClassVar

from rest_framework import serializers
from rest_framework.serializers import (
    BooleanField,
    CharField,
    ChoiceField,
    DateTimeField,
    DictField,
    IntegerField,
    JSONField,
    ListField,
    UUIDField,
    ValidationError,
)

from sessions_app.attachments import records
from sessions_app.conversation.session_key import SessionKey
from sessions_app.models import Attachment, Session, Turn
from sessions_app.selectors import citations_of
from sessions_app.surfaces.base.citations_json import CitationOut
from sessions_app.surfaces.base.serializers import (
    CamelCaseSerializer,
    NullableText,
    ObjectSerializer,
    Timestamp,
    check_storable,
)
from sessions_app.surfaces.base.written_files import WrittenFileOut
from sessions_app.surfaces.rest.objects.field_types import SchemaField
from sessions_app.surfaces.rest.objects.files import AttachmentOut
from tools_app.policy.scope import INHERIT, Scope, ScopeMode

_LONGEST_KEY = Session._meta.get_field("key").max_length or 0
_MODES = [mode.value for mode in ScopeMode]
_MOST_NAMES, _LONGEST_NAME = 100, 120
_LONGEST_METADATA = 4_000


class ScopeField(serializers.Field[Scope, Any, Any, Any]):
    """`{"mode": "none" | "inherit" | "list", "names": […]}`. An empty list allows nothing."""

    json_schema: ClassVar = {
        "type": "object",
        "properties": {
            "mode": {"enum": _MODES},
            "names": {
                "type": "array",
                "items": {"type": "string", "minLength": 1, "maxLength": _LONGEST_NAME},
                "maxItems": _MOST_NAMES,
            },
        },
        "required": ["mode"],
        "additionalProperties": False,
    }

    def to_internal_value(self, data: Any) -> Scope:
        if not isinstance(data, dict) or not data.keys() <= {"mode", "names"}:
            raise serializers.ValidationError("Must be an object with `mode` and, for mode `list`, `names`.")
        if data.get("mode") not in _MODES:
            raise serializers.ValidationError(f"`mode` must be one of: {', '.join(_MODES)}.")
        mode, names = ScopeMode(data["mode"]), data.get("names", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise serializers.ValidationError("`names` must be a list of strings.")
        if len(names) > _MOST_NAMES or not all(0 < len(name) <= _LONGEST_NAME and name.isprintable() for name in names):
            raise serializers.ValidationError(
                f"`names` must have at most {_MOST_NAMES} items, each of 1 to {_LONGEST_NAME} printable characters."
            )
        is_list = mode is ScopeMode.LIST
        if is_list and "names" not in data or names and not is_list:
            raise serializers.ValidationError("`names` is required for mode `list` and not allowed otherwise.")
        return Scope(mode, tuple(dict.fromkeys(names)))


class MessageBody(CamelCaseSerializer):
    """A message, also in the fields of an inbound message of a channel, which have their other names."""

    message_id = CharField(
        max_length=200,
        default="",
        allow_blank=True,
        help_text="Your id of the message: the same one is stored once. `Idempotency-Key` comes first.",
    )
    channel = ChoiceField(choices=["WebChat"], default="WebChat")
    channel_account_id = CharField(max_length=120, default="", help_text="Another name of `accountId`.")
    sender_display_name = CharField(
        max_length=200, default="", allow_blank=True, help_text="Another name of `displayName`."
    )
    timestamp = DateTimeField(
        default=None, help_text="Time of writing. Stored with the message; the server takes its own time of receipt."
    )
    metadata = DictField(default=dict, help_text="Stored with the message, at most 4,000 characters as JSON.")
    sender_id = CharField(max_length=200)
    text = CharField(allow_blank=True, trim_whitespace=False)
    display_name = CharField(max_length=200, default="", allow_null=True, allow_blank=True)
    account_id = CharField(max_length=120, default="default")
    session_id = CharField(max_length=_LONGEST_KEY, default="", allow_null=True, allow_blank=True)
    agent_id = CharField(max_length=120, default="default")
    attachments = ListField(
        default=list, child=UUIDField(), max_length=100, help_text="Ids of files that you uploaded for it, in order."
    )
    tools = ScopeField(default=INHERIT, help_text="The tools that may be used for this message.")
    mcp_servers = ScopeField(default=INHERIT, help_text="The MCP servers whose tools may be used for this message.")
    output_schema = SchemaField(default=None)
    agent_version = IntegerField(
        min_value=0,
        max_value=2**31 - 1,
        default=None,
        allow_null=True,
        help_text="Version of the agent, for users who may change it; 0: the draft.",
    )

    def validate_metadata(self, value: dict[str, Any]) -> dict[str, Any]:
        check_storable(value)
        if len(json.dumps(value)) > _LONGEST_METADATA:
            raise ValidationError(f"Must have at most {_LONGEST_METADATA:,} characters as JSON.")
        return value

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs["account_id"] = attrs["channel_account_id"] or attrs["account_id"]
        attrs["display_name"] = attrs["sender_display_name"] or attrs["display_name"]
        if len(str(SessionKey("WebChat", attrs["account_id"], attrs["sender_id"]))) > _LONGEST_KEY:
            raise ValidationError({"senderId": f"The session id would exceed {_LONGEST_KEY} characters."})
        return attrs


class RegenerateBody(CamelCaseSerializer):
    run_id = UUIDField(default=None, allow_null=True, help_text="Null: the last run of the active branch.")


class EditBody(CamelCaseSerializer):
    run_id = UUIDField(help_text="The run that answered the message.")
    text = CharField(allow_blank=True, trim_whitespace=False)


class SearchQuery(CamelCaseSerializer):
    query = CharField(max_length=500, help_text='Words, "phrases" and -exclusions.')
    limit = IntegerField(min_value=1, max_value=100, default=20)
    cursor = CharField(max_length=60, default="", allow_blank=True, help_text="`meta.nextCursor` of the page before.")


class AcceptedOut(ObjectSerializer):
    session_id = CharField()
    run_id = UUIDField()


class AnsweredOut(ObjectSerializer):
    """An answer, in the fields of an outbound message of a channel."""

    session_id = CharField()
    channel = CharField()
    recipient_id = CharField(help_text="The sender of the session.")
    text = CharField()
    timestamp = Timestamp()
    attachments = ListField(child=WrittenFileOut(), help_text="Files that the agent has written.")


class StructuredAnswerOut(AnsweredOut):
    output = JSONField(help_text="Parsed value of an answer that has a JSON Schema.")


class TurnOut(ObjectSerializer):
    role = ChoiceField(choices=Turn.ROLES)
    content = CharField()
    timestamp = Timestamp(source="created_at")
    tool_call_ids = ListField(child=UUIDField(), allow_null=True)
    turn_id = UUIDField(source="pk")
    run_id = UUIDField(allow_null=True)
    state = ChoiceField(choices=Turn.STATES)
    error = NullableText(source="error_message", help_text="Reason why the turn is partial or an error.")
    error_code = NullableText()
    citations = ListField(child=CitationOut(), help_text="In the order of the markers in `content`.")
    attachments = ListField(child=AttachmentOut(), help_text="Files of the message.")
    is_pinned = BooleanField(help_text="Later runs read it in full, however old it is.")
    is_summarised = BooleanField(help_text="Later runs read the session's summary in its place.")

    @classmethod
    def of(cls, subject: Turn, files: Iterable[Attachment] = (), **given: Any) -> dict[str, Any]:
        given.setdefault("is_summarised", False)
        return super().of(subject, citations=citations_of(subject), attachments=tuple(files), **given)


class FoundMessageOut(ObjectSerializer):
    session_id = CharField(source="session_key")
    title = CharField(help_text="Title of the session.")
    turn_id = UUIDField()
    run_id = UUIDField(allow_null=True)
    role = ChoiceField(choices=Turn.ROLES)
    snippet = CharField(source="excerpt", help_text="Part of the message around the matching words.")
    timestamp = Timestamp(source="created_at")


class MessageFileOut(ObjectSerializer):
    """A file of a message, in the fields of an attachment of a channel."""

    id = UUIDField(source="pk")
    filename = CharField()
    mime_type = CharField()
    size_bytes = IntegerField(allow_null=True)
    url = NullableText(help_text="Path of its content on this server.")

    @classmethod
    def of(cls, subject: Attachment, **given: Any) -> dict[str, Any]:
        return super().of(subject, url=records.url_of(subject), **given)


class InboundMessageOut(ObjectSerializer):
    """A message to an agent, in the fields of a channel's message. Of a turn and its arrival."""

    direction = ChoiceField(choices=["inbound"])
    turn_id = UUIDField(source="pk")
    session_id = CharField()
    message_id = CharField(help_text="The sender's id of it, or the turn's.")
    channel = CharField()
    channel_account_id = CharField()
    sender_id = CharField()
    sender_display_name = CharField()
    text = CharField(source="content")
    timestamp = Timestamp()
    attachments = ListField(child=MessageFileOut())
    metadata = DictField()


class OutboundMessageOut(ObjectSerializer):
    """An answer, in the fields of a channel's message. Of a turn."""

    direction = ChoiceField(choices=["outbound"])
    turn_id = UUIDField(source="pk")
    session_id = CharField()
    channel = CharField()
    recipient_id = CharField(help_text="The sender of the session.")
    text = CharField(source="content")
    timestamp = Timestamp(source="created_at")
    attachments = ListField(child=WrittenFileOut(), help_text="Files that the agent has written.")


class DictatedOut(ObjectSerializer):
    text = CharField()
