"""The numbers of the dashboard. Open runs are read by their partial index, the last day by the sortable key."""

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Sum
from django.db.models.functions import TruncHour

from agents_app.models import IS_OPEN, Run
from agents_app.types import RunStatus
from audit_app.kernel.ids import first_id_at

FAILED = (RunStatus.FAILED.value, RunStatus.TIMED_OUT.value)
# Percentiles are computed from this number of the newest completed runs.
_SAMPLE = 1000


@dataclass(frozen=True)
class Part:
    """A part of the bar of an hour. top, height: percent of the highest bar."""

    tone: str
    top: float
    height: float


@dataclass(frozen=True)
class Hour:
    """The runs of an hour, and their bar: completed runs at the bottom, then failed ones, others on top."""

    label: str
    count: int
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Overview:
    """The numbers of the dashboard.

    open, day: runs by status, of now and of the last 24 hours
    wait_*, work_*: seconds; None if no run completed
    """

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
    """Return all numbers, by five queries that are bounded by the open runs or by a day."""
    open_runs = Run.objects.filter(IS_OPEN).order_by()
    day = Run.objects.filter(id__gte=first_id_at(now - timedelta(days=1))).order_by()
    tokens = day.aggregate(given=Sum("input_tokens"), made=Sum("output_tokens"))
    queued = open_runs.filter(status=RunStatus.QUEUED.value).order_by("created_at")
    sample = day.filter(status=RunStatus.COMPLETED.value, started_at__isnull=False).order_by("-id")
    times = list(sample.values_list("created_at", "started_at", "ended_at")[:_SAMPLE])
    waits = [(started - created).total_seconds() for created, started, _ in times if started]
    works = [(ended - started).total_seconds() for _, started, ended in times if started and ended]
    rows = list(day.annotate(hour=TruncHour("created_at")).values_list("hour", "status").annotate(Count("id")))
    by_status: Counter[str] = Counter()
    for _, status, count in rows:
        by_status[status] += count
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
    return tuple(Run.objects.prefetch_related("agent").order_by("-id")[:count])


def latest_failures(now: datetime, count: int) -> tuple[Run, ...]:
    """Return the newest failed runs of the last 24 hours."""
    day = Run.objects.prefetch_related("agent").filter(id__gte=first_id_at(now - timedelta(days=1)))
    return tuple(day.filter(status__in=FAILED).order_by("-id")[:count])


def _hours(rows: Sequence[tuple[datetime, str, int]], now: datetime) -> tuple[Hour, ...]:
    """Return the last 24 hours, oldest first, including those without runs."""
    this_hour = now.replace(minute=0, second=0, microsecond=0)
    counts: dict[datetime, Counter[str]] = {this_hour - timedelta(hours=back): Counter() for back in range(23, -1, -1)}
    for hour, status, count in rows:
        if hour in counts:
            tone = "success" if status == RunStatus.COMPLETED else "danger" if status in FAILED else "info"
            counts[hour][tone] += count
    busiest = max(tones.total() for tones in counts.values()) or 1
    return tuple(Hour(f"{hour:%H}:00", tones.total(), _parts(tones, busiest)) for hour, tones in counts.items())


def _parts(tones: Counter[str], busiest: int) -> tuple[Part, ...]:
    parts, top = [], 100.0
    for tone in ("success", "danger", "info"):
        height = round(tones[tone] / busiest * 100, 2)
        top -= height
        parts.append(Part(tone, round(max(top, 0.0), 2), height))
    return tuple(parts)


def _percentile(values: Sequence[float], percent: int) -> float | None:
    if len(values) < 2:
        return values[0] if values else None
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
