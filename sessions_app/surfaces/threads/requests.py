"""Serializers of request bodies and queries. Bodies with unknown fields are refused."""

from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from rest_framework import serializers

from sessions_app.models import Feedback
from sessions_app.surfaces.base.serializers import check_storable

M = TypeVar("M", bound=Model)

LONGEST_TEXT = 200_000
MOST_ITEMS = 100
MOST_TARGETS = 200
LANGUAGES = ("en", "zh")
ROLES = ("USER", "ASSISTANT", "SYSTEM")
_ANSWER_REASONS = ("INCORRECT", "MISSING_INFO", "NOT_RELEVANT", "BAD_CITATIONS", "HALLUCINATION")
_DOCUMENT_REASONS = ("OCR_ERROR", "PARSING_ERROR", "STRUCTURE_ISSUE", "TABLE_ERROR", "FORMATTING")
REASONS = (*_ANSWER_REASONS, *_DOCUMENT_REASONS, "OTHER")
TARGETS = ("THREAD", "MESSAGE", "DOCUMENT", "DOCUMENT_VERSION", "CHUNK")


class StrictBody(serializers.Serializer[Any]):
    def to_internal_value(self, data: Any) -> Any:
        fields = super().to_internal_value(data)
        unknown = sorted(set(data) - set(self.fields))
        if unknown:
            raise serializers.ValidationError({name: ["Unknown field."] for name in unknown})
        return fields


def _text(most: int, **options: Any) -> serializers.CharField:
    return serializers.CharField(min_length=1, max_length=most, trim_whitespace=False, **options)


def _optional(field: type[serializers.Field[Any, Any, Any, Any]], **options: Any) -> Any:
    """Return an optional field; null and missing are equivalent."""
    return field(required=False, allow_null=True, default=None, **options)


class ThreadBody(StrictBody):
    parent_path_part_id = _optional(serializers.UUIDField)
    title = _text(255, required=False, allow_null=True, default=None)
    message_for_title = _text(4096, required=False, allow_null=True, default=None)
    path_part_name = _text(255, required=False, allow_null=True, default=None)
    system_managed = serializers.BooleanField(required=False, allow_null=True, default=False)
    agent_id = _text(120, required=False, default="default")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["title"] and attrs["message_for_title"]:
            raise serializers.ValidationError("Send either title or message_for_title, not both.")
        return attrs


class ThreadChanges(StrictBody):
    title = _text(255, required=False, allow_null=True)
    parent_thread_id = serializers.UUIDField(required=False, allow_null=True)


class UserMessageBody(StrictBody):
    input_text = serializers.CharField(required=False, allow_blank=True, default="", trim_whitespace=False)
    fast_mode = _optional(serializers.BooleanField)
    output_language = _optional(serializers.ChoiceField, choices=LANGUAGES)

    def validate_fast_mode(self, wanted: bool | None) -> bool | None:
        if wanted:
            raise serializers.ValidationError("This server has no fast mode.")
        return wanted


class ContentBody(StrictBody):
    text = serializers.CharField(allow_blank=True, trim_whitespace=False, max_length=LONGEST_TEXT)
    is_error = _optional(serializers.BooleanField)
    citations = _optional(serializers.JSONField, validators=[check_storable])
    references = _optional(serializers.JSONField, validators=[check_storable])


class MessageBody(StrictBody):
    message_id = _optional(serializers.UUIDField)
    role = serializers.ChoiceField(ROLES)
    content = ContentBody()
    details = _optional(serializers.JSONField, validators=[check_storable])


class AskBody(StrictBody):
    prompt = _text(LONGEST_TEXT)
    output_language = _optional(serializers.ChoiceField, choices=LANGUAGES)
    agent_id = _text(120, required=False, default="default")


class ExtractBody(StrictBody):
    prompt = _text(LONGEST_TEXT)
    schema_path_part_id = _optional(serializers.UUIDField)
    output_schema = _optional(serializers.JSONField, validators=[check_storable])
    agent_id = _text(120, required=False, default="default")


class FeedbackBody(StrictBody):
    target_type = serializers.ChoiceField(TARGETS)
    target_id = serializers.UUIDField()
    rating = serializers.ChoiceField([name for name, _ in Feedback.RATINGS])
    reason = _optional(serializers.ChoiceField, choices=REASONS)
    comment = serializers.CharField(
        required=False, allow_null=True, allow_blank=True, default="", max_length=4000, trim_whitespace=False
    )
    extra_metadata = _optional(serializers.DictField, validators=[check_storable])


class ApiKeyBody(StrictBody):
    name = _text(100)
    expires_at = _optional(serializers.DateTimeField)


class SignInBody(serializers.Serializer[Any]):
    """Newer clients send `username`, older ones `email`."""

    username = serializers.CharField(required=False, max_length=254)
    email = serializers.CharField(required=False, max_length=254)
    password = serializers.CharField(trim_whitespace=False, max_length=1024)
    code = serializers.CharField(default="", allow_blank=True, max_length=40)
    tenant_id = _optional(serializers.UUIDField)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not (attrs.get("username") or attrs.get("email")):
            raise serializers.ValidationError({"username": ["This field is required."]})
        return attrs


class PageQuery(serializers.Serializer[Any]):
    limit = serializers.IntegerField(min_value=1, max_value=MOST_ITEMS, required=False, default=20)
    offset = serializers.IntegerField(min_value=0, max_value=10_000_000, required=False, default=0)
    sort_dir = serializers.ChoiceField(["ASC", "DESC"], required=False, default="DESC")

    def page_of(self, rows: "QuerySet[M]", order_by: str) -> "QuerySet[M]":
        """Return the page of the rows, by a field and then by id."""
        sign, start = "-" if self.validated_data["sort_dir"] == "DESC" else "", self.validated_data["offset"]
        return rows.order_by(f"{sign}{order_by}", f"{sign}id")[start : start + self.validated_data["limit"]]


class DatedQuery(PageQuery):
    created_after = _optional(serializers.DateTimeField)
    created_before = _optional(serializers.DateTimeField)
    updated_after = _optional(serializers.DateTimeField)
    updated_before = _optional(serializers.DateTimeField)

    def between(self) -> dict[str, Any]:
        """Return the bounds as filters of the fields `created_at` and `updated_at`."""
        bounds = {
            f"{name}_at__{lookup}": self.validated_data[f"{name}_{side}"]
            for name in ("created", "updated")
            for side, lookup in (("after", "gte"), ("before", "lt"))
        }
        return {name: value for name, value in bounds.items() if value is not None}


class ThreadQuery(DatedQuery):
    parent_path_part_id = _optional(serializers.UUIDField)
    sort_by = serializers.ChoiceField(["CREATED_AT", "UPDATED_AT"], required=False, default="CREATED_AT")
    title_like = serializers.CharField(required=False, default="", allow_blank=True, max_length=255)


class MessageQuery(PageQuery):
    before = _optional(serializers.DateTimeField)
    role = _optional(serializers.ChoiceField, choices=ROLES)
    with_details = serializers.BooleanField(required=False, default=True)


class OneMessageQuery(serializers.Serializer[Any]):
    with_details = serializers.BooleanField(required=False, default=True)


class FeedbackQuery(DatedQuery):
    target_type = _optional(serializers.ChoiceField, choices=TARGETS)
    target_id = serializers.ListField(
        child=serializers.UUIDField(), required=False, default=list, max_length=MOST_TARGETS
    )
    rating = _optional(serializers.ChoiceField, choices=["UP", "DOWN"])
    mine = _optional(serializers.BooleanField)
    sort_by = serializers.ChoiceField(["CREATED_AT"], required=False, default="CREATED_AT")


class AuditQuery(PageQuery):
    actor_user_id = _optional(serializers.UUIDField)
    kind = serializers.CharField(required=False, default="", allow_blank=True, max_length=64)
    since = _optional(serializers.DateTimeField)
    until = _optional(serializers.DateTimeField)
    subject_path_part_id = _optional(serializers.UUIDField)
    recursive = _optional(serializers.BooleanField)


class StreamQuery(serializers.Serializer[Any]):
    last_message_id = _optional(serializers.UUIDField)
    last_entry_id = serializers.CharField(required=False, default="", allow_blank=True, max_length=64)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["last_message_id"] and not attrs["last_entry_id"]:
            raise serializers.ValidationError({"last_entry_id": ["This field is required with last_message_id."]})
        return attrs
