"""Usage and costs: reports, the use of caps, caps of users, and prices of models."""

from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from agents_app.costs import cost_settings, usage_report
from agents_app.costs.usage_report import UsageFilter
from agents_app.rights import SET_COST_CAPS, SET_PRICES, VIEW_COSTS
from agents_app.types.prices import Price
from audit_app.kernel.csv_text import csv_lines
from audit_app.kernel.errors import InvalidInput
from audit_app.rights import holds
from sessions_app.access import access_session, usage_actors
from sessions_app.identity import scopes
from sessions_app.surfaces.base.openapi.fields import answer_schema
from sessions_app.surfaces.base.openapi.operations import Answer, Operation
from sessions_app.surfaces.base.openapi.schemas import COUNT, INTEGER, TEXT, record
from sessions_app.surfaces.rest.objects import usage as objects
from sessions_app.surfaces.rest.operations import envelope, paged
from sessions_app.surfaces.rest.views.base import RestView, ok

_MOST_CSV_ROWS = 50_000
_PAGE_META = {"total": COUNT, "page": INTEGER, "pageSize": INTEGER}
_REPORT_META = {
    **_PAGE_META,
    **dict.fromkeys(("from", "to", "currency"), TEXT),
    "totals": answer_schema(objects.UsageTotalsOut),
}


class UsageReport(RestView):
    """The caller's own usage; that of all users for holders of the right. As JSON in pages, or as CSV in one file."""

    @Operation(
        "Read usage and costs",
        query=objects.UsageQuery,
        errors=[403, 404],
        description="Your own usage; that of all users with the right agents_app.view_dailyusage.",
        answers={
            200: Answer(
                "One page of sums, or all of them as CSV. `meta.totals` is the sum of all.",
                envelope([objects.UsageSumOut], record(_REPORT_META)),
                also_as=["text/csv"],
            )
        },
    )
    def get(self, request: Request) -> HttpResponseBase:
        query, page = self.query(), self.page()
        wanted, groups = self._filter(query), query["by"]
        if query["format_"] == "csv" or "text/csv" in request.headers.get("Accept", ""):
            return self._csv(wanted, groups)
        rows = usage_report.list_sums(wanted, groups, limit=page.size, offset=page.offset)
        meta = {
            **page.meta(usage_report.count_sums(wanted, groups)),
            "from": wanted.since.isoformat(),
            "to": wanted.until.isoformat(),
            "currency": settings.KOMAND_CURRENCY,
            "totals": objects.UsageTotalsOut.of(usage_report.total(wanted)),
        }
        return ok([objects.UsageSumOut.of(row) for row in rows], meta)

    def _filter(self, fields: dict[str, Any]) -> UsageFilter:
        user, agents = self.principal.user, scopes.agents_of(self.principal.user)
        if fields["agent_id"]:
            named = frozenset({fields["agent_id"]})
            agents = named if agents is None else named & agents
        session = fields["session_id"] and access_session(user, fields["session_id"], needs=VIEW_COSTS)
        return UsageFilter(
            since=fields["since"],
            until=fields["until"],
            actors=usage_actors(user, fields["user_id"]),
            agents=agents,
            session_id=session.pk if session else None,
            model=fields["model"],
        )

    @staticmethod
    def _csv(wanted: UsageFilter, groups: list[str]) -> HttpResponse:
        rows = usage_report.list_sums(wanted, groups, limit=_MOST_CSV_ROWS + 1)
        if len(rows) > _MOST_CSV_ROWS:
            raise InvalidInput(f"The report has more than {_MOST_CSV_ROWS:,} rows. Choose a shorter range.")
        shown = [objects.UsageSumOut.of(row) for row in rows]
        columns = [name for name in map(str, objects.UsageSumOut().fields) if not shown or shown[0][name] is not None]
        lines = csv_lines([columns, *([row[name] for name in columns] for row in shown)])
        name = f"usage-{wanted.since}-{wanted.until}.csv"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return HttpResponse(lines, content_type="text/csv; charset=utf-8", headers=headers)


class CapList(RestView):
    """The caps of the caller; all caps for holders of the right."""

    @paged("List cost caps and their use", objects.CostCapOut)
    def get(self, request: Request) -> Response:
        user = self.principal.user
        sees_all = holds(user, VIEW_COSTS)
        return self.page_of(
            usage_report.list_cap_uses() if sees_all else usage_report.list_cap_uses_of(user.pk), objects.CostCapOut.of
        )


class UserCaps(RestView):
    """The caps of one user, in place of those that the settings give each user."""

    @Operation("Set the cost caps of a user", [objects.CostCapOut], body=objects.CostCapsBody)
    def put(self, request: Request, user_id: int) -> Response:
        self.require(SET_COST_CAPS)
        cost_settings.set_user_caps(user_id, **self.body())
        return self._shown(user_id)

    @Operation("Remove the cost caps of a user", [objects.CostCapOut])
    def delete(self, request: Request, user_id: int) -> Response:
        """Let the caps of the settings apply."""
        self.require(SET_COST_CAPS)
        cost_settings.set_user_caps(user_id, per_day=None, per_month=None)
        return self._shown(user_id)

    def _shown(self, user_id: int) -> Response:
        return ok([objects.CostCapOut.of(use) for use in usage_report.list_cap_uses_of(user_id)])


class PriceList(RestView):
    @paged("List prices of models", objects.ModelPriceOut, errors=[403])
    def get(self, request: Request) -> Response:
        if not holds(self.principal.user, SET_PRICES):
            self.require(VIEW_COSTS)
        return self.page_of(cost_settings.list_prices(), objects.ModelPriceOut.of)


class PriceDetail(RestView):
    """The price of one model, or of a pattern of models."""

    @Operation("Set the price of a model", objects.ModelPriceOut, body=objects.PriceBody)
    def put(self, request: Request, provider: str, model: str) -> Response:
        self.require(SET_PRICES)
        body = self.body()
        price = Price(body["input_price"], body["output_price"], body["cached_input_price"])
        return ok(objects.ModelPriceOut.of(cost_settings.set_price(provider, model, price)))

    @Operation("Delete the price of a model")
    def delete(self, request: Request, provider: str, model: str) -> Response:
        self.require(SET_PRICES)
        cost_settings.delete_price(provider, model)
        return ok(None)
