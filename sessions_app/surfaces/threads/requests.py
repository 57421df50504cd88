"""Request bodies and queries of the protocol, checked. Bodies with fields that nobody knows are refused."""

import json
from typing import Any

from rest_framework import serializers

from sessions_app.models import Feedback

LONGEST_TEXT = 200_000
MOST_ITEMS = 100
MOST_TARGETS = 200
LANGUAGES = ("en", "zh")
ROLES = ("USER", "ASSISTANT", "SYSTEM")
REASONS = (
    "INCORRECT",
    "MISSING_INFO",
    "NOT_RELEVANT",
    "BAD_CITATIONS",
    "HALLUCINATION",
    "OCR_ERROR",
    "PARSING_ERROR",
    "STRUCTURE_ISSUE",
    "TABLE_ERROR",
    "FORMATTING",
    "OTHER",
)
TARGETS = ("THREAD", "MESSAGE", "DOCUMENT", "DOCUMENT_VERSION", "CHUNK")


class Body(serializers.Serializer[Any]):
    def to_internal_value(self, data: Any) -> Any:
        fields = super().to_internal_value(data)
        unknown = sorted(set(data) - set(self.fields))
        if unknown:
            raise serializers.ValidationError({name: ["There is no such field."] for name in unknown})
        return fields


def _text(most: int, **options: Any) -> serializers.CharField:
    return serializers.CharField(min_length=1, max_length=most, trim_whitespace=False, **options)


def _wish(field: type[serializers.Field[Any, Any, Any, Any]], **options: Any) -> Any:
    """A field that may be missing or null, which is the same."""
    return field(required=False, allow_null=True, default=None, **options)


def _check_storable(value: Any) -> None:
    """A JSON value as every database takes it. Raises ValidationError."""
    if "\\u0000" in json.dumps(value):
        raise serializers.ValidationError("A text contains a NUL character. Leave it out.")


class ThreadBody(Body):
    parent_path_part_id = _wish(serializers.UUIDField)
    title = _text(255, required=False, allow_null=True, default=None)
    message_for_title = _text(4096, required=False, allow_null=True, default=None)
    path_part_name = _text(255, required=False, allow_null=True, default=None)
    system_managed = serializers.BooleanField(required=False, allow_null=True, default=False)
    agent_id = _text(120, required=False, default="default")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["title"] and attrs["message_for_title"]:
            raise serializers.ValidationError("Give a title or a message to make one of, not both.")
        return attrs


class ThreadChanges(Body):
    title = _text(255, required=False, allow_null=True)
    parent_thread_id = serializers.UUIDField(required=False, allow_null=True)


class UserMessageBody(Body):
    input_text = serializers.CharField(required=False, allow_blank=True, default="", trim_whitespace=False)
    fast_mode = _wish(serializers.BooleanField)
    output_language = _wish(serializers.ChoiceField, choices=LANGUAGES)


class ContentBody(Body):
    text = serializers.CharField(allow_blank=True, trim_whitespace=False, max_length=LONGEST_TEXT)
    is_error = _wish(serializers.BooleanField)
    citations = _wish(serializers.JSONField, validators=[_check_storable])
    references = _wish(serializers.JSONField, validators=[_check_storable])


class MessageBody(Body):
    message_id = _wish(serializers.UUIDField)
    role = serializers.ChoiceField(ROLES)
    content = ContentBody()
    details = _wish(serializers.JSONField, validators=[_check_storable])


class AskBody(Body):
    prompt = _text(LONGEST_TEXT)
    output_language = _wish(serializers.ChoiceField, choices=LANGUAGES)
    agent_id = _text(120, required=False, default="default")


class ExtractBody(Body):
    prompt = _text(LONGEST_TEXT)
    schema_path_part_id = _wish(serializers.UUIDField)
    output_schema = _wish(serializers.JSONField, validators=[_check_storable])
    agent_id = _text(120, required=False, default="default")


class FeedbackBody(Body):
    target_type = serializers.ChoiceField(TARGETS)
    target_id = serializers.UUIDField()
    rating = serializers.ChoiceField([name for name, _ in Feedback.RATINGS])
    reason = _wish(serializers.ChoiceField, choices=REASONS)
    comment = serializers.CharField(
        required=False, allow_null=True, allow_blank=True, default="", max_length=4000, trim_whitespace=False
    )
    extra_metadata = _wish(serializers.DictField, validators=[_check_storable])


class ApiKeyBody(Body):
    name = _text(100)
    expires_at = _wish(serializers.DateTimeField)


class SignInBody(serializers.Serializer[Any]):
    """Newer clients say `username`, older ones `email`."""

    username = serializers.CharField(required=False, max_length=254)
    email = serializers.CharField(required=False, max_length=254)
    password = serializers.CharField(trim_whitespace=False, max_length=1024)
    tenant_id = _wish(serializers.UUIDField)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not (attrs.get("username") or attrs.get("email")):
            raise serializers.ValidationError({"username": ["This field is required."]})
        return attrs


class Page(serializers.Serializer[Any]):
    limit = serializers.IntegerField(min_value=1, max_value=MOST_ITEMS, required=False, default=20)
    offset = serializers.IntegerField(min_value=0, max_value=10_000_000, required=False, default=0)
    sort_dir = serializers.ChoiceField(["ASC", "DESC"], required=False, default="DESC")


class Dated(Page):
    created_after = _wish(serializers.DateTimeField)
    created_before = _wish(serializers.DateTimeField)
    updated_after = _wish(serializers.DateTimeField)
    updated_before = _wish(serializers.DateTimeField)

    def between(self) -> dict[str, Any]:
        """The bounds as filters, by `created_at` and `updated_at`."""
        asked = self.validated_data
        bounds = {
            f"{name}_at__{word}": asked[f"{name}_{side}"]
            for name in ("created", "updated")
            for side, word in (("after", "gte"), ("before", "lt"))
        }
        return {name: value for name, value in bounds.items() if value is not None}


class ThreadQuery(Dated):
    parent_path_part_id = _wish(serializers.UUIDField)
    sort_by = serializers.ChoiceField(["CREATED_AT", "UPDATED_AT"], required=False, default="CREATED_AT")
    title_like = serializers.CharField(required=False, default="", allow_blank=True, max_length=255)


class MessageQuery(Page):
    before = _wish(serializers.DateTimeField)
    role = _wish(serializers.ChoiceField, choices=ROLES)
    with_details = serializers.BooleanField(required=False, default=True)


class OneMessageQuery(serializers.Serializer[Any]):
    with_details = serializers.BooleanField(required=False, default=True)


class FeedbackQuery(Dated):
    target_type = _wish(serializers.ChoiceField, choices=TARGETS)
    target_id = serializers.ListField(
        child=serializers.UUIDField(), required=False, default=list, max_length=MOST_TARGETS
    )
    rating = _wish(serializers.ChoiceField, choices=["UP", "DOWN"])
    mine = _wish(serializers.BooleanField)
    sort_by = serializers.ChoiceField(["CREATED_AT"], required=False, default="CREATED_AT")


class AuditQuery(Page):
    actor_user_id = _wish(serializers.UUIDField)
    kind = serializers.CharField(required=False, default="", allow_blank=True, max_length=64)
    since = _wish(serializers.DateTimeField)
    until = _wish(serializers.DateTimeField)
    subject_path_part_id = _wish(serializers.UUIDField)
    recursive = _wish(serializers.BooleanField)


class StreamQuery(serializers.Serializer[Any]):
    last_message_id = _wish(serializers.UUIDField)
    last_entry_id = serializers.CharField(required=False, default="", allow_blank=True, max_length=64)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["last_message_id"] and not attrs["last_entry_id"]:
            raise serializers.ValidationError({"last_entry_id": ["It is required with last_message_id."]})
        return attrs
