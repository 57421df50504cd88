"""Queries and bodies of usage, prices and cost caps."""

from datetime import date, timedelta
from typing import Any

from rest_framework.serializers import CharField, ChoiceField, DateField, FloatField, IntegerField, ValidationError

from agents_app.costs.usage_ledger import today
from agents_app.costs.usage_report import GROUPS, LONGEST_DAYS
from sessions_app.surfaces.base.serializers import CamelCaseSerializer
from sessions_app.surfaces.rest.objects.field_types import check_finite
from sessions_app.surfaces.rest.requests import PageQuery

_DEFAULT_DAYS = 30


class UsageQuery(PageQuery):
    by = CharField(max_length=60, default="day", help_text=f"One or several of {', '.join(GROUPS)}, as `day,agent`.")
    agent_id = CharField(max_length=120, default="")
    user_id = IntegerField(min_value=1, max_value=2**63 - 1, default=None, help_text="Of others: takes a right.")
    session_id = CharField(max_length=512, default="")
    model = CharField(max_length=200, default="")
    to = DateField(default=None, source="until", help_text="The last day, in UTC. Default: today.")
    from_ = DateField(
        default=None, source="since", help_text=f"The first day. At most {LONGEST_DAYS} days. Default: 30 days."
    )
    format_ = ChoiceField(("json", "csv"), default="json", help_text="Also chosen by `Accept`.")

    def validate_by(self, value: str) -> list[str]:
        groups = list(dict.fromkeys(name.strip() for name in value.split(",")))
        if unknown := [name for name in groups if name not in GROUPS]:
            raise ValidationError(f"{unknown[0][:60]!r} is none of {', '.join(GROUPS)}.")
        return groups

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        until: date = attrs["until"] or today()
        earliest = date.min + timedelta(days=LONGEST_DAYS)
        since: date = attrs["since"] or max(until, earliest) - timedelta(days=_DEFAULT_DAYS - 1)
        if not 0 <= (until - since).days < LONGEST_DAYS:
            raise ValidationError({"from": f"The range must have 1 to {LONGEST_DAYS} days."})
        return {**attrs, "since": since, "until": until}


def _price(**options: Any) -> FloatField:
    return FloatField(min_value=0, max_value=1e12, validators=[check_finite], **options)


class PriceBody(CamelCaseSerializer):
    """Prices per 1,000 tokens."""

    input_price = _price()
    cached_input_price = _price(default=None, allow_null=True, help_text="Null: as other input.")
    output_price = _price()


class CostCapsBody(CamelCaseSerializer):
    """Caps in whole units. Null: that of the settings; 0: no cap."""

    per_day = _price(default=None, allow_null=True)
    per_month = _price(default=None, allow_null=True)
