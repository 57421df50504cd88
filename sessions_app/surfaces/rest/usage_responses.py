"""The objects of usage and costs: their fields in answers and in the OpenAPI document."""

from rest_framework.serializers import CharField, ChoiceField, DateField, FloatField, ListField, UUIDField

from sessions_app.surfaces.base.serializers import Count, ObjectSerializer


class FallbackOut(ObjectSerializer):
    provider = CharField()
    model = CharField(help_text="Empty: the provider's default.")
    failed = CharField(help_text="The provider/model before it.")
    reason = CharField(help_text="Why that could not answer.")


class UsageOut(ObjectSerializer):
    input_tokens = Count(source="usage.input_tokens")
    output_tokens = Count(source="usage.output_tokens")
    cost = FloatField(
        allow_null=True, help_text="At the prices of each call's time; null if no model that was called had a price."
    )
    models = ListField(child=CharField(), help_text="Names of the models that answered.")
    fallback = FallbackOut(allow_null=True, help_text="The last fallback that the run changed to, if any.")


class UsageTotalsOut(ObjectSerializer):
    """A sum of model calls."""

    calls = Count()
    unpriced_calls = Count(help_text="Calls of models without a price, which are not in `cost`.")
    input_tokens = Count()
    cached_input_tokens = Count(help_text="Part of the input that the server had cached.")
    output_tokens = Count()
    reasoning_tokens = Count(help_text="Part of the output.")
    cost = FloatField(help_text="At the prices of each call's time.")


class UsageSumOut(UsageTotalsOut):
    """A row of a report. Fields by which it does not group are null."""

    day = DateField(allow_null=True, help_text="In UTC.")
    agent_id = CharField(allow_null=True)
    actor_id = CharField(source="actor", allow_null=True, help_text="A user as `user:7`, or a sender of a channel.")
    session_id = UUIDField(allow_null=True)
    provider = CharField(allow_null=True)
    model = CharField(allow_null=True)


class ModelPriceOut(ObjectSerializer):
    """Prices per 1,000 tokens of a model, or of those that a pattern names."""

    provider = CharField(source="provider.name")
    model = CharField()
    input_price = FloatField()
    cached_input_price = FloatField(allow_null=True, help_text="Null: as other input.")
    output_price = FloatField()


class CostCapOut(ObjectSerializer):
    """A cap with the part of it that is used."""

    scope = CharField(source="cap.scope", help_text="`installation`, `agent:<id>` or `user:<id>`.")
    period = ChoiceField(("day", "month"), source="cap.period", help_text="In UTC.")
    limit = FloatField(source="cap.limit")
    spent = FloatField()
    percent = Count(help_text="The used part; more than 100 if calls in flight exceeded it.")
    resets = DateField(help_text="First day of the next period.")
    set_by = CharField(source="cap.remedy", help_text="Where it is set.")
