"""Credentials."""

from typing import Any

from rest_framework.serializers import CharField, ListField, SlugField, ValidationError

from sessions_app.surfaces.base.model_fields import model_field
from sessions_app.surfaces.base.serializers import CamelCaseSerializer, ObjectSerializer, Timestamp
from tools_app.models import Credential


class CredentialBody(CamelCaseSerializer):
    """A credential. The vault limits the length of its value. `agents` alone may change without the value."""

    value = CharField(required=False, trim_whitespace=False, allow_blank=True)
    hosts = model_field(
        Credential,
        "hosts",
        help_text="Hosts that it may be sent to. Required for a new credential; a change needs the value again.",
    )
    agents = model_field(
        Credential,
        "agents",
        child=SlugField(max_length=120),
        allow_null=False,
        help_text="Agents that may use it in runs of other users.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "value" not in attrs and ("hosts" in attrs or "agents" not in attrs):
            raise ValidationError({"value": "This field is required."})
        return attrs


class NewCredentialBody(CredentialBody):
    name = model_field(Credential, "name")
    value = CharField(trim_whitespace=False, allow_blank=True)


class CredentialOut(ObjectSerializer):
    """Never with its value."""

    name = CharField()
    hosts = ListField(child=CharField(), help_text="Hosts that calls may send it to.")
    agents = ListField(child=CharField(), help_text="Agents that may use it in runs of other users.")
    created_at = Timestamp()
    updated_at = Timestamp()
    last_used_at = Timestamp(allow_null=True)
