"""Retention of recorded steps, whose texts are also in the conversation's turns and in the run, of recalled memories,
and of usage."""

from django.conf import settings
from django.db.models import Exists, OuterRef, QuerySet

from agents_app.models import CostAlert, CostTotal, DailyUsage, Run, RunRecall, Step
from audit_app import retention
from audit_app.kernel.ids import first_id_at
from tools_app.models import SharedValue


def _old_steps() -> "QuerySet[Step] | None":
    if not settings.KOMAND_STEP_DAYS:
        return None
    old = Step.objects.filter(pk__lt=first_id_at(retention.days_ago(settings.KOMAND_STEP_DAYS)))
    return old.filter(run__ended_at__isnull=False, run__end_stored=True).order_by("pk")


def _old_recalls() -> "QuerySet[RunRecall] | None":
    if not settings.KOMAND_STEP_DAYS:
        return None
    edge = first_id_at(retention.days_ago(settings.KOMAND_STEP_DAYS))
    # The edge stands on both sides of the join: PostgreSQL does not derive one from the other and reads all runs.
    ended = Run.objects.filter(pk=OuterRef("pk"), pk__lt=edge, ended_at__isnull=False)
    return RunRecall.objects.filter(Exists(ended), pk__lt=edge).order_by("pk")


retention.register(retention.Expired("steps of ended runs", "KOMAND_STEP_DAYS", _old_steps))
retention.register(retention.Expired("recalled memories of ended runs", "KOMAND_STEP_DAYS", _old_recalls))


_TOTAL_DAYS = 62  # caps look at the days of this month


def _old_shared_values() -> "QuerySet[SharedValue] | None":
    if not settings.KOMAND_STEP_DAYS:
        return None
    old = SharedValue.objects.filter(updated_at__lt=retention.days_ago(settings.KOMAND_STEP_DAYS))
    return old.exclude(kind="session").order_by("updated_at")


def _old_usage() -> "QuerySet[DailyUsage] | None":
    if not settings.KOMAND_USAGE_DAYS:
        return None
    return DailyUsage.objects.filter(day__lt=retention.days_ago(settings.KOMAND_USAGE_DAYS).date()).order_by("day")


def _old_totals() -> "QuerySet[CostTotal]":
    return CostTotal.objects.filter(day__lt=retention.days_ago(_TOTAL_DAYS).date()).order_by("day")


def _old_alerts() -> "QuerySet[CostAlert]":
    return CostAlert.objects.filter(day__lt=retention.days_ago(_TOTAL_DAYS).date()).order_by("day")


retention.register(retention.Expired("shared memory of runs and networks", "KOMAND_STEP_DAYS", _old_shared_values))
retention.register(retention.Expired("usage of sessions by day", "KOMAND_USAGE_DAYS", _old_usage))
retention.register(retention.Expired("totals of costs for caps", f"{_TOTAL_DAYS} days", _old_totals))
retention.register(retention.Expired("alerts of caps that were sent", f"{_TOTAL_DAYS} days", _old_alerts))
