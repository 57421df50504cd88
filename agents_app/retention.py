"""Retention of recorded steps. Their texts are also in the conversation's turns and in the run."""

from django.conf import settings
from django.db.models import QuerySet

from agents_app.models import Step
from audit_app import retention
from audit_app.kernel.ids import first_id_at


def _old_steps() -> "QuerySet[Step] | None":
    if not settings.KOMAND_STEP_DAYS:
        return None
    old = Step.objects.filter(pk__lt=first_id_at(retention.days_ago(settings.KOMAND_STEP_DAYS)))
    return old.filter(run__ended_at__isnull=False, run__end_stored=True).order_by("pk")


retention.register(retention.Expired("steps of ended runs", "KOMAND_STEP_DAYS", _old_steps))
