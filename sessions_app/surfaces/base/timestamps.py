"""Text forms of times and durations. Pure."""

from datetime import UTC, datetime


def iso(moment: datetime | None) -> str | None:
    """Return ISO 8601 in UTC with milliseconds and Z: `2026-03-01T09:30:00.000Z`."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_span(seconds: float | None) -> str | None:
    """Return the text form of a .NET TimeSpan, `[days.]hh:mm:ss[.fff]`: `00:00:01.234`, `00:05:00`, `1.02:00:00`."""
    if seconds is None:
        return None
    whole, milliseconds = divmod(round(seconds * 1000), 1000)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    text = f"{hour:02}:{minute:02}:{second:02}"
    if days:
        text = f"{days}.{text}"
    return f"{text}.{milliseconds:03}" if milliseconds else text
