"""Usage and cost of the caller, and the channel accounts, for holders of their right."""

from datetime import date, timedelta
from typing import Any

from django.conf import settings
from rest_framework.request import Request
from rest_framework.response import Response

from agents_app.costs import usage_report
from agents_app.costs.usage_ledger import today
from agents_app.costs.usage_report import LONGEST_DAYS, UsageFilter, UsageSum
from sessions_app.access import list_channel_accounts, usage_actors
from sessions_app.identity import scopes
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.base.openapi.schemas import COUNT, NUMBER, TEXT, list_of, map_of, record, ref
from sessions_app.surfaces.base.views import PlainView
from sessions_app.surfaces.zeroclaw.requests import CostQuery
from sessions_app.surfaces.zeroclaw.responses import GatewayChannelOut

_MOST_ROWS = 200
_COUNTS = ("input_tokens", "cached_input_tokens", "output_tokens", "total_tokens", "request_count")
_SUM = {"cost_usd": NUMBER, **dict.fromkeys(_COUNTS, COUNT)}
_COST = record(
    {
        **dict.fromkeys(("session_cost_usd", "daily_cost_usd", "monthly_cost_usd"), NUMBER),
        "currency": TEXT,
        "total_tokens": COUNT,
        "request_count": COUNT,
        "by_model": map_of(record({"model": TEXT, **_SUM})),
        "by_agent": map_of(record({"agent_alias": TEXT, **_SUM})),
    }
)


class Cost(PlainView):
    @Operation("Read usage and costs", record({"cost": _COST}), query=CostQuery)
    def get(self, request: Request) -> Response:
        """Return your own; those of all users for holders of agents_app.view_dailyusage. Windows are of whole days."""
        query, now = self.query(), today()
        until: date = query["to"].date() if query["to"] else now
        since: date = query["from_"].date() if query["from_"] else until - timedelta(days=LONGEST_DAYS - 1)
        among, named = scopes.agents_of(self.principal.user), frozenset({query["agent"]} - {""})
        agents = among if not named else named if among is None else named & among

        def of(first: date, last: date) -> UsageFilter:
            return UsageFilter(first, last, actors=usage_actors(self.principal.user), agents=agents)

        window = of(since, until)
        whole = usage_report.total(window)
        models = usage_report.list_sums(window, ["model"], limit=_MOST_ROWS)
        by_agent = usage_report.list_sums(window, ["agent"], limit=_MOST_ROWS)
        cost = {
            "session_cost_usd": 0.0,
            "daily_cost_usd": usage_report.total(of(now, now)).cost,
            "monthly_cost_usd": usage_report.total(of(now.replace(day=1), now)).cost,
            "currency": settings.KOMAND_CURRENCY,
            "total_tokens": whole.input_tokens + whole.output_tokens,
            "request_count": whole.calls,
            "by_model": {f"{row.provider}/{row.model}": {"model": row.model, **_sum(row)} for row in models},
            "by_agent": {str(row.agent_id): {"agent_alias": row.agent_id, **_sum(row)} for row in by_agent},
        }
        return Response({"cost": cost})


class ChannelList(PlainView):
    @Operation("List the channel accounts", record({"channels": list_of(ref("GatewayChannel"))}), errors=[403])
    def get(self, request: Request) -> Response:
        """Takes sessions_app.view_channelaccount or change_channelaccount."""
        return Response({"channels": [GatewayChannelOut.of(row) for row in list_channel_accounts(self.principal.user)]})


def _sum(row: UsageSum) -> dict[str, Any]:
    total = row.input_tokens + row.output_tokens
    counts = (row.input_tokens, row.cached_input_tokens, row.output_tokens, total, row.calls)
    return {"cost_usd": row.cost, **dict(zip(_COUNTS, counts, strict=True))}
