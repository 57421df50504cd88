"""The numbers of the dashboard. Open runs are read from their partial index, the last day from the sortable key."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Sum
from django.db.models.functions import TruncHour

from agents_app.models import OPEN, Run
from agents_app.types import RunStatus
from audit_app.pagination import first_id_at

FAILED = (RunStatus.FAILED.value, RunStatus.TIMED_OUT.value)
# Percentiles are of this many of the newest completed runs.
_SAMPLE = 1000


@dataclass(frozen=True)
class Hour:
    """Runs begun in one hour. completed, failed, other: percent of the busiest hour's runs."""

    label: str
    count: int
    completed: float
    failed: float
    other: float


@dataclass(frozen=True)
class Overview:
    """open and day: runs by status, now and begun in 24 hours; times in seconds, None when no run completed."""

    open: dict[str, int]
    oldest_queued: datetime | None
    day: dict[str, int]
    input_tokens: int
    output_tokens: int
    wait_p50: float | None
    wait_p95: float | None
    work_p50: float | None
    work_p95: float | None
    hours: tuple[Hour, ...]

    @property
    def failed(self) -> int:
        return sum(self.day.get(status, 0) for status in FAILED)


def read(now: datetime) -> Overview:
    """Everything at once: five queries, each bounded by what is open or by one day."""
    open_runs = Run.objects.filter(status__in=OPEN).order_by()
    day = Run.objects.filter(id__gte=first_id_at(now - timedelta(days=1))).order_by()
    tokens = day.aggregate(given=Sum("input_tokens"), made=Sum("output_tokens"))
    queued = open_runs.filter(status=RunStatus.QUEUED.value).order_by("created_at")
    sample = day.filter(status=RunStatus.COMPLETED.value, started_at__isnull=False).order_by("-id")
    times = list(sample.values_list("created_at", "started_at", "ended_at")[:_SAMPLE])
    waits = [(started - created).total_seconds() for created, started, _ in times if started]
    works = [(ended - started).total_seconds() for _, started, ended in times if started and ended]
    by_hour = day.annotate(hour=TruncHour("created_at")).values_list("hour", "status").annotate(Count("id"))
    rows = list(by_hour)
    by_status: dict[str, int] = {}
    for _, status, count in rows:
        by_status[status] = by_status.get(status, 0) + count
    return Overview(
        open=dict(open_runs.values_list("status").annotate(Count("id"))),
        oldest_queued=queued.values_list("created_at", flat=True).first(),
        day=by_status,
        input_tokens=tokens["given"] or 0,
        output_tokens=tokens["made"] or 0,
        wait_p50=_percentile(waits, 50),
        wait_p95=_percentile(waits, 95),
        work_p50=_percentile(works, 50),
        work_p95=_percentile(works, 95),
        hours=_hours(rows, now),
    )


def latest_runs(count: int) -> tuple[Run, ...]:
    return tuple(Run.objects.select_related("agent").order_by("-id")[:count])


def latest_failures(now: datetime, count: int) -> tuple[Run, ...]:
    """The newest failed runs of the last 24 hours."""
    day = Run.objects.select_related("agent").filter(id__gte=first_id_at(now - timedelta(days=1)))
    return tuple(day.filter(status__in=FAILED).order_by("-id")[:count])


def _hours(rows: Sequence[tuple[datetime, str, int]], now: datetime) -> tuple[Hour, ...]:
    """The last 24 hours, oldest first, the empty ones too."""
    this_hour = now.replace(minute=0, second=0, microsecond=0)
    counts: dict[datetime, dict[str, int]] = {this_hour - timedelta(hours=back): {} for back in range(23, -1, -1)}
    for hour, status, count in rows:
        kind = "completed" if status == RunStatus.COMPLETED else "failed" if status in FAILED else "other"
        if hour in counts:
            counts[hour][kind] = counts[hour].get(kind, 0) + count
    busiest = max((sum(kinds.values()) for kinds in counts.values()), default=0) or 1

    def percent(kinds: dict[str, int], kind: str) -> float:
        return round(kinds.get(kind, 0) / busiest * 100, 1)

    return tuple(
        Hour(
            f"{hour:%H}:00", sum(kinds.values()),
            percent(kinds, "completed"), percent(kinds, "failed"), percent(kinds, "other"),
        )
        for hour, kinds in counts.items()
    )  # fmt: skip


def _percentile(values: Sequence[float], percent: int) -> float | None:
    if len(values) < 2:
        return values[0] if values else None
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
