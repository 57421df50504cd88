"""Skills, in the registry and installed for agents."""

from typing import Any

from rest_framework.serializers import BooleanField, CharField, ChoiceField, DictField, IntegerField, ListField

from sessions_app.surfaces.base.serializers import CamelCaseSerializer, NullableText, ObjectSerializer, Timestamp
from sessions_app.surfaces.rest.envelope import PageQuery
from tools_app.skills.manifest import Kind
from tools_app.skills.registry import SkillView
from tools_app.types import Effect, Risk


class SkillQuery(PageQuery):
    publisher_id = CharField(max_length=120, default="")
    category = CharField(max_length=60, default="")
    verified_only = BooleanField(default=False)


class VersionQuery(CamelCaseSerializer):
    version = CharField(max_length=60, default="", help_text="Version. Empty: the newest.")


class InstallBody(VersionQuery):
    granted_permissions = ListField(
        source="granted",
        default=None,
        allow_null=True,
        max_length=100,
        help_text='"crm:read" or {"resource", "access", "scope"}. If missing: all that the skill requires.',
    )


class GrantBody(CamelCaseSerializer):
    granted_permissions = ListField(source="granted", max_length=100)


class PermissionOut(ObjectSerializer):
    resource = CharField()
    access = CharField()
    scope = NullableText()


class SkillOut(ObjectSerializer):
    skill_id = CharField()
    name = CharField()
    version = CharField()
    publisher_id = CharField()
    description = CharField()
    category = CharField()
    kind = ChoiceField(choices=list(Kind))
    input_schema = DictField()
    output_schema = DictField(allow_null=True)
    required_permissions = ListField(source="required", child=PermissionOut())
    declared_tool_access = ListField(child=CharField())
    risk = ChoiceField(choices=list(Risk))
    effect = ChoiceField(choices=list(Effect))
    timeout_seconds = IntegerField()
    signature_hash = NullableText()
    digest = CharField()
    is_verified = BooleanField()
    versions = ListField(child=CharField(), help_text="Newest first.")
    created_at = Timestamp()
    http = DictField(allow_null=True)
    mcp = DictField(allow_null=True)
    instruction = DictField(allow_null=True)

    optional = ("http", "mcp", "instruction")

    @classmethod
    def of(cls, subject: SkillView, **given: Any) -> dict[str, Any]:
        """Return the manifest as it was published, completed by its defaults and the fields of the registry."""
        own = {name: getattr(subject, name) for name in ("digest", "is_verified", "versions", "created_at")}
        return {**subject.data, **super().of(subject.manifest, **own, **given)}


class SkillInstallOut(ObjectSerializer):
    agent_id = CharField()
    skill_id = CharField()
    version = CharField()
    granted_permissions = ListField(source="granted", child=PermissionOut())
    missing_permissions = ListField(source="lacking", child=PermissionOut())
    installed_at = Timestamp()
