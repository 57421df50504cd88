"""Prompt templates over REST: the fields of requests and answers."""

from rest_framework.serializers import CharField, DictField, IntegerField, ListField

from agents_app.models import PromptTemplate, PromptTemplateVersion
from sessions_app.surfaces.base.model_fields import model_field
from sessions_app.surfaces.base.serializers import CamelCaseSerializer, NullableText, ObjectSerializer, Timestamp


class PromptTemplateBody(CamelCaseSerializer):
    text = model_field(
        PromptTemplate, "text", trim_whitespace=False, help_text="Markdown with front matter, see docs/templates.md."
    )
    note = model_field(PromptTemplateVersion, "note", default="", help_text="Note on the new version.")


class NewPromptTemplateBody(PromptTemplateBody):
    name = model_field(PromptTemplate, "name", help_text="")


class PreviewBody(CamelCaseSerializer):
    text = model_field(
        PromptTemplate,
        "text",
        default=None,
        allow_null=True,
        trim_whitespace=False,
        help_text="Number of a version. Null: the current text.",
    )
    parameters = DictField(default=dict)


class PromptTemplateOut(ObjectSerializer):
    name = CharField()
    description = CharField()
    version = IntegerField(
        allow_null=True, help_text="Number of the version. Null: a file of the folder KOMAND_PROMPTS_DIR."
    )
    updated_at = Timestamp(allow_null=True)
    problem = NullableText(help_text="Reason why it cannot be used.")


class PromptTemplateInFullOut(PromptTemplateOut):
    text = CharField()
    parameters = DictField(help_text="Own parameters with their defaults. Null: required.")


class PromptTemplateVersionOut(ObjectSerializer):
    number = IntegerField()
    note = CharField()
    changed_by = NullableText(source="actor")
    created_at = Timestamp()


class PromptTemplateVersionInFullOut(PromptTemplateVersionOut):
    text = CharField()


class RenderedPartOut(ObjectSerializer):
    name = CharField()
    text = CharField()


class RenderedTemplateOut(ObjectSerializer):
    """A rendered prompt. It is stored nowhere."""

    parts = ListField(child=RenderedPartOut(), help_text="Texts of the skills, then of the template.")
    settings = DictField(help_text="Settings of model calls.")
