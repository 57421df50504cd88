"""Usage, prices and cost caps."""

from datetime import date, timedelta
from functools import partial
from typing import Any

from rest_framework.serializers import (
    CharField,
    ChoiceField,
    DateField,
    FloatField,
    IntegerField,
    ListField,
    UUIDField,
    ValidationError,
)

from agents_app.costs.usage_ledger import today
from agents_app.costs.usage_report import GROUPS, LONGEST_DAYS
from agents_app.models import ModelPrice, UserCostCap
from sessions_app.surfaces.base.model_fields import model_field
from sessions_app.surfaces.base.serializers import CamelCaseSerializer, Count, ObjectSerializer
from sessions_app.surfaces.rest.envelope import PageQuery
from sessions_app.surfaces.rest.objects.field_types import check_finite

_DEFAULT_DAYS = 30


class UsageQuery(PageQuery):
    by = CharField(max_length=60, default="day", help_text=f"One or several of {', '.join(GROUPS)}, as `day,agent`.")
    agent_id = CharField(max_length=120, default="")
    user_id = IntegerField(
        min_value=1, max_value=2**63 - 1, default=None, help_text="Id of a user. Usage of other users needs a right."
    )
    session_id = CharField(max_length=512, default="")
    model = CharField(max_length=200, default="")
    to = DateField(default=None, source="until", help_text="The last day, in UTC. Default: today.")
    from_ = DateField(
        default=None, source="since", help_text=f"The first day. At most {LONGEST_DAYS} days. Default: 30 days."
    )
    format_ = ChoiceField(
        ("json", "csv"), default="json", help_text="Format of the answer. Default: by the header `Accept`."
    )

    def validate_by(self, value: str) -> list[str]:
        groups = list(dict.fromkeys(name.strip() for name in value.split(",")))
        if unknown := [name for name in groups if name not in GROUPS]:
            raise ValidationError(f"{unknown[0][:60]!r} is not one of {', '.join(GROUPS)}.")
        return groups

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        until: date = attrs["until"] or today()
        earliest = date.min + timedelta(days=LONGEST_DAYS)
        since: date = attrs["since"] or max(until, earliest) - timedelta(days=_DEFAULT_DAYS - 1)
        if not 0 <= (until - since).days < LONGEST_DAYS:
            raise ValidationError({"from": f"The range must have 1 to {LONGEST_DAYS} days."})
        return {**attrs, "since": since, "until": until}


_price = partial(model_field, ModelPrice, validators=[check_finite])
_cap = partial(model_field, UserCostCap, default=None, validators=[check_finite])


class PriceBody(CamelCaseSerializer):
    """Prices per 1,000 tokens."""

    input_price = _price("input_price", help_text="")
    cached_input_price = _price(
        "cached_input_price", default=None, help_text="Price of cached input tokens. Null: the same as other input."
    )
    output_price = _price("output_price", help_text="")


class CostCapsBody(CamelCaseSerializer):
    """Caps in whole units. Null: that of the settings; 0: no cap."""

    per_day = _cap("per_day", help_text="")
    per_month = _cap("per_month", help_text="")


class FallbackOut(ObjectSerializer):
    provider = CharField()
    model = CharField(help_text="Empty: the provider's default.")
    failed = CharField(help_text="Model that was replaced, as provider/model.")
    reason = CharField(help_text="Reason why that model could not answer.")


class SpentOut(ObjectSerializer):
    """Tokens and cost, of a run or of it together with its workstreams, at any depth."""

    input_tokens = Count(source="usage.input_tokens")
    output_tokens = Count(source="usage.output_tokens")
    cost = FloatField(allow_null=True, help_text="As that of one run.")


class UsageOut(ObjectSerializer):
    """The tokens and the cost of one run, without its workstreams."""

    input_tokens = Count(source="usage.input_tokens")
    output_tokens = Count(source="usage.output_tokens")
    cost = FloatField(
        allow_null=True, help_text="At the prices of each call's time; null if no model that was called had a price."
    )
    models = ListField(child=CharField(), help_text="Names of the models that answered.")
    fallback = FallbackOut(allow_null=True, help_text="The last fallback that the run changed to, if any.")
    with_workstreams = SpentOut(allow_null=True, help_text="Together with its workstreams; null if it has none.")


class UsageTotalsOut(ObjectSerializer):
    """A sum of model calls."""

    calls = Count()
    unpriced_calls = Count(help_text="Number of calls without a price, which `cost` does not contain.")
    input_tokens = Count()
    cached_input_tokens = Count(help_text="Part of the input that the server had cached.")
    output_tokens = Count()
    reasoning_tokens = Count(help_text="Part of the output.")
    cost = FloatField(help_text="At the prices of each call's time.")


class UsageSumOut(UsageTotalsOut):
    """A row of a report. Fields by which it does not group are null."""

    day = DateField(allow_null=True, help_text="Day in UTC.")
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
    cached_input_price = FloatField(
        allow_null=True, help_text="Price of cached input tokens. Null: the same as other input."
    )
    output_price = FloatField()


class CostCapOut(ObjectSerializer):
    """A cap with the part of it that is used."""

    scope = CharField(source="cap.scope", help_text="`installation`, `agent:<id>` or `user:<id>`.")
    period = ChoiceField(("day", "month"), source="cap.period", help_text="Period in UTC.")
    limit = FloatField(source="cap.limit")
    spent = FloatField()
    percent = Count(help_text="Used percentage; above 100 if calls in flight exceeded the cap.")
    resets = DateField(help_text="First day of the next period.")
    set_by = CharField(source="cap.remedy", help_text="Setting or field that defines it.")
