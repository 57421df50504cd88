"""The page "Costs": sums of usage in a range, caps with the used part of each, and alerts of the month."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.template.response import TemplateResponse

from agents_app.costs import usage_report
from agents_app.costs.usage_ledger import INSTALLATION, today
from agents_app.costs.usage_report import CapUse, UsageFilter, UsageSum
from agents_app.models import DailyUsage
from agents_app.types.prices import money
from audit_app.admin_base import links, names
from audit_app.admin_base.base import ReadOnlyAdmin, render_page
from audit_app.kernel.safe_text import visible
from audit_app.kernel.shorten import shorten

_RANGES = MappingProxyType({"1": "Today", "7": "7 days", "30": "30 days", "90": "90 days", "365": "365 days"})
_REPORTS = MappingProxyType(
    {
        "day": "Day",
        "agent": "Agent",
        "user": "User",
        "session": "Session",
        "model": "Model",
        "day,agent,model": "Day, agent and model",
    }
)
# Fields of a sum that contain keys: by group, with their kind in `names` and `links`.
_KEYS = MappingProxyType(
    {"agent": ("agent_id", "agent"), "user": ("actor", "actor"), "session": ("session_id", "session")}
)
_MOST_ROWS = 200


@dataclass(frozen=True)
class Row:
    """A row of the report. percent: percent of all costs, or of all tokens if nothing has a price."""

    labels: tuple[str, ...]
    sums: UsageSum
    cost: str
    percent: int


@admin.register(DailyUsage)
class CostAdmin(ReadOnlyAdmin):
    """The page, in place of a list of the records."""

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> TemplateResponse:
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        days, report = _chosen(request, "days", _RANGES, "30"), _chosen(request, "by", _REPORTS, "day")
        groups = report.split(",")
        wanted = UsageFilter(today() - timedelta(days=int(days) - 1), today())
        total = usage_report.total(wanted)
        sums = usage_report.list_sums(wanted, groups, limit=_MOST_ROWS)
        return render_page(
            request,
            self,
            "admin/agents_app/dailyusage/costs.html",
            title="Costs",
            wanted=wanted,
            total=total,
            total_cost=_money(total.cost),
            titles=[_REPORTS[group] for group in groups],
            rows=_rows(sums, groups, total, request.user),
            count=usage_report.count_sums(wanted, groups),
            ranges=_RANGES,
            reports=_REPORTS,
            days=days,
            report=report,
            caps=_caps(request.user),
            alerts=_alerts(request.user),
            alert_percent=settings.KOMAND_COST_ALERT_PERCENT,
            uncapped_calls=usage_report.count_uncapped_calls(),
        )


def tile() -> dict[str, Any]:
    """Return the costs of today for the dashboard, with the cap of the installation that is used most."""
    total = usage_report.total(UsageFilter(today(), today()))
    fullest = max(usage_report.list_installation_cap_uses(), key=lambda use: use.percent, default=None)
    uncapped = total.unpriced_calls if total.unpriced_calls and usage_report.has_caps() else 0
    tone = "warning" if uncapped else ""
    if fullest and (fullest.percent >= settings.KOMAND_COST_ALERT_PERCENT or not uncapped):
        tone = _tone(fullest)
    return {"total": total, "cost": _money(total.cost), "cap": fullest, "uncapped_calls": uncapped, "tone": tone}


def _chosen(request: HttpRequest, name: str, choices: Mapping[str, str], default: str) -> str:
    wanted = request.GET.get(name, default)
    return wanted if wanted in choices else default


def _money(amount: float) -> str:
    return money(amount, settings.KOMAND_CURRENCY)


def _tone(use: CapUse) -> str:
    if use.percent >= 100:
        return "danger"
    return "warning" if use.percent >= settings.KOMAND_COST_ALERT_PERCENT else "success"


def _rows(sums: Sequence[UsageSum], groups: Sequence[str], total: UsageSum, user: Any) -> list[Row]:
    found = {
        group: names.find_names(noun, {getattr(one, field) for one in sums} - {None, ""}, user)
        for group, (field, noun) in _KEYS.items()
    }
    is_priced = total.cost > 0
    whole = _weight(total, is_priced=is_priced)
    rows = []
    for one in sums:
        cost = _money(one.cost) if one.calls > one.unpriced_calls else "–"
        percent = round(100 * _weight(one, is_priced=is_priced) / whole) if whole else 0
        rows.append(Row(tuple(_label(one, group, found) for group in groups), one, cost, percent))
    return rows


def _weight(sums: UsageSum, *, is_priced: bool) -> float:
    return sums.cost if is_priced else sums.input_tokens + sums.output_tokens


def _label(one: UsageSum, group: str, found: Mapping[str, Mapping[Any, str]]) -> str:
    if group in _KEYS:
        field, noun = _KEYS[group]
        key = getattr(one, field)
        return links.link(noun, key, shorten(found[group].get(key, ""), 60))
    return visible(one.day) if group == "day" else visible(f"{one.provider}/{one.model}")


def _caps(user: Any) -> list[dict[str, Any]]:
    """Return the caps, those that are used most first."""
    uses = sorted(usage_report.list_cap_uses(), key=lambda use: -use.percent)
    owners = _owners((use.cap.scope for use in uses), user)
    return [
        {
            "owner": owners[use.cap.scope],
            "use": use,
            "spent": _money(use.spent),
            "limit": _money(use.cap.limit),
            "bar": min(use.percent, 100),
            "tone": _tone(use),
        }
        for use in uses
    ]


def _alerts(user: Any) -> list[dict[str, Any]]:
    alerts = usage_report.list_alerts()
    owners = _owners((alert.scope for alert in alerts), user)
    return [{"owner": owners[alert.scope], "alert": alert} for alert in alerts]


def _owners(scopes: Iterable[str], user: Any) -> dict[str, str]:
    """Return the names of the owners of caps, by scope."""
    wanted = set(scopes)
    found = {INSTALLATION: "Installation", **names.find_names("actor", wanted - {INSTALLATION}, user)}
    return {scope: visible(found.get(scope) or scope) for scope in wanted}
