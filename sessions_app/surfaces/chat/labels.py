"""Labels of the page: states of tool calls, places in the queue, durations, sizes, costs, days."""

from datetime import date, datetime, timedelta

from django.conf import settings

from agents_app.types.child_runs import LAUNCH_TOOL, NETWORK_TOOL, WAIT_TOOL
from agents_app.types.prices import money
from tools_app.run_progress import REPORT_PROGRESS, UPDATE_PLAN
from tools_app.types import ExecutionStatus

# CSS class and label of a tool card, by the status of the execution.
CALL_STATES: dict[str, tuple[str, str]] = {
    ExecutionStatus.PENDING: ("waiting", "waiting"),
    ExecutionStatus.RUNNING: ("running", "running"),
    ExecutionStatus.COMPLETED: ("done", "done"),
    ExecutionStatus.FAILED: ("failed", "failed"),
    ExecutionStatus.TIMED_OUT: ("timed-out", "timed out"),
    ExecutionStatus.CANCELLED: ("cancelled", "cancelled"),
    ExecutionStatus.UNKNOWN: ("failed", "outcome unknown"),
}
# Class and label while a call waits for an approval, and after it was denied.
ASKS, DENIED = ("asks", "needs approval"), ("denied", "denied")
# Tools that the page treats specially.
WRITE_ARTIFACT = "write_artifact"
# Calls without a card, because something else shows their effect: workstreams, the plan, the progress.
QUIET_TOOLS = frozenset({LAUNCH_TOOL, NETWORK_TOOL, WAIT_TOOL, UPDATE_PLAN, REPORT_PROGRESS})
BAD_CALL_STATES = {"failed", "timed-out"}


def cost(amount: float | None) -> str:
    """Return an amount in the currency of the installation, such as `0.005 EUR`; empty for None."""
    return "" if amount is None else money(amount, settings.KOMAND_CURRENCY)


def in_line(place: int) -> str:
    """Return the status of a queued message. place: from 1."""
    return "Queued, next" if place == 1 else f"Queued, {ordinal(place)} in line"


def ordinal(number: int) -> str:
    """Return `1st`, `2nd`, `3rd`, `4th`, `11th`, `21st` …"""
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def duration(seconds: float | None) -> str:
    """Return `0.4 s`, `12 s` or `3 min 5 s`; "" for None."""
    if seconds is None:
        return ""
    if seconds < 0.0995:
        return f"{max(round(seconds * 1000), 1)} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"


def size(count: int) -> str:
    """Return `1 byte`, `12 bytes`, `3.4 kB`, `250 kB` or `1.2 MB`."""
    if count < 1000:
        return f"{count} byte{'' if count == 1 else 's'}"
    number, unit = (count / 1000, "kB") if count < 999_500 else (count / 1_000_000, "MB")
    return f"{number:.1f} {unit}" if number < 9.95 else f"{number:.0f} {unit}"


def day_name(at: datetime, today: date) -> str:
    """Return the heading under which a session of that time is listed."""
    days = (today - at.date()).days
    if days <= 0:
        return "Today"
    if days == 1:
        return "Yesterday"
    if days < 7:
        return "Last 7 days"
    if days < 30:
        return "Last 30 days"
    return f"{at:%B}" if at.year == today.year else f"{at:%Y}"


def time_ago(at: datetime, now: datetime) -> str:
    """Return `now`, `5 min`, `3 h` or `2 d`, for older times the date."""
    passed = now - at
    if passed < timedelta(minutes=1):
        return "now"
    if passed < timedelta(hours=1):
        return f"{int(passed.total_seconds()) // 60} min"
    if passed < timedelta(days=1):
        return f"{int(passed.total_seconds()) // 3600} h"
    if passed < timedelta(days=7):
        return f"{passed.days} d"
    return f"{at:%-d %b}" if at.year == now.year else f"{at:%-d %b %Y}"
