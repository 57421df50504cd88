"""API keys."""

from datetime import timedelta
from typing import Any

from django.utils import timezone
from rest_framework.serializers import BooleanField, CharField, IntegerField, ListField, UUIDField

from sessions_app.identity.api_keys import NEVER
from sessions_app.models import ApiKey
from sessions_app.surfaces.base.serializers import CamelCaseSerializer, ObjectSerializer, Timestamp


class ApiKeyBody(CamelCaseSerializer):
    name = CharField(max_length=120)
    scopes = ListField(
        child=CharField(max_length=130),
        help_text="For example `all`, `read`, `rest`, `openai:read`, `agent:default`, `rights`. None grants nothing.",
    )
    expires_in_days = IntegerField(
        min_value=1,
        max_value=3650,
        default=None,
        allow_null=True,
        help_text="Days until the key expires. Default: KOMAND_API_KEY_DAYS.",
    )
    never_expires = BooleanField(default=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        days, never = attrs.pop("expires_in_days"), attrs.pop("never_expires")
        return {**attrs, "expires_at": NEVER if never else days and timezone.now() + timedelta(days=days)}


class ApiKeyOut(ObjectSerializer):
    id = UUIDField()
    name = CharField()
    prefix = CharField()
    scopes = ListField(child=CharField())
    created_at = Timestamp()
    expires_at = Timestamp(allow_null=True)
    last_used_at = Timestamp(allow_null=True)
    revoked_at = Timestamp(allow_null=True)

    @classmethod
    def of(cls, subject: ApiKey, **given: Any) -> dict[str, Any]:
        return super().of(subject, prefix=f"sk-user-{subject.prefix}", **given)


class NewApiKeyOut(ApiKeyOut):
    key = CharField(help_text="The key itself. It is shown only once.")
