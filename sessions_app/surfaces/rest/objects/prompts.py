"""Requests of model calls, in parts."""

from rest_framework.serializers import CharField, ChoiceField, IntegerField, ListField

from agents_app.runs.request_view import PartKind
from sessions_app.surfaces.base.serializers import CamelCaseSerializer, Count, ObjectSerializer


class PromptQuery(CamelCaseSerializer):
    # Of four bytes each, percent-encoded: the server takes a request line of 16 KiB.
    text = CharField(max_length=1_000, default="hello", help_text="The first message.")


class StepQuery(CamelCaseSerializer):
    step = IntegerField(
        min_value=0,
        max_value=2**31 - 1,
        default=None,
        allow_null=True,
        help_text="Index of the step, from 0. Default: the last one.",
    )


class PromptPartOut(ObjectSerializer):
    kind = ChoiceField(choices=list(PartKind))
    name = CharField(help_text="Name of the part of the system message or of the tool, or the role of the message.")
    text = CharField(help_text="Secrets are masked.")
    tokens = Count(help_text="Estimated tokens.")


class PromptOut(ObjectSerializer):
    """The request of a model call, by the agent's present settings."""

    model = CharField()
    step = Count(help_text="Index of the model call in the run, from 0.")
    total_tokens = Count(help_text="Estimated tokens.")
    reported_tokens = Count(allow_null=True, help_text="Tokens that the model server counted. Null: not reported.")
    limit_tokens = Count(help_text="The agent's `maxContextTokens`.")
    hidden_tools = ListField(child=CharField(), help_text="Tools that are not listed and found by `find_tools`.")
    parts = ListField(child=PromptPartOut())
