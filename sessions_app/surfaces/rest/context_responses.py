"""The objects of a session's context: its use and the summary of older turns."""

from rest_framework.serializers import BooleanField, CharField, IntegerField

from sessions_app.surfaces.base.serializers import Count, ObjectSerializer, Timestamp


class CheckpointOut(ObjectSerializer):
    summary = CharField(help_text="The text that stands for the older turns in requests.")
    covered_turns = Count(help_text="Number of turns that it stands for.")
    covered_until = IntegerField(source="ordinal", help_text="The highest ordinal of these turns.")
    reason = CharField(help_text="threshold, overflow or asked.")
    tokens_before = Count(help_text="Estimate of the request without it.")
    tokens_after = Count(help_text="The same with it.")
    model = CharField()
    created_at = Timestamp()


class ContextOut(ObjectSerializer):
    """Of a `ContextUsage`: estimated tokens."""

    limit = Count(help_text="The context of the agent.")
    budget = Count(help_text="The part of it that a request may have.")
    used = Count(help_text="The sum of the parts.")
    percent = IntegerField(help_text="The used part of the budget, at most 100.")
    system = Count()
    tools = Count()
    summary = Count()
    pinned = Count()
    history = Count()
    newest = Count(help_text="The messages of the last run.")
    is_calibrated = BooleanField(help_text="The last report of the model's server corrects the estimates.")
    checkpoint = CheckpointOut(allow_null=True, help_text="The summary of older turns, if there is one.")
