"""`date_time`: the current time in a zone, conversion between zones, and differences of times."""

from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from tools_app.parameters import parameters, text
from tools_app.types import Effect, Reads, Risk, Tool, ToolContext, ToolError, ToolSpec

_TIME = {"maxLength": 40}
_ZONE = {"maxLength": 64}


class DateTime(Tool):
    spec = ToolSpec(
        name="date_time",
        description="Tell the time, convert a time or measure to end_time. IANA zones, ISO times.",
        parameters=parameters(
            operation=text("", enum=["now", "convert", "difference"]),
            timezone=text("Default UTC.", **_ZONE),
            time=text("Default now.", **_TIME),
            to_timezone=text("", **_ZONE),
            end_time=text("", **_TIME),
        ),
        effect=Effect.READ,
        risk=Risk.LOW,
        timeout_seconds=10,
        reads=Reads.NOTHING,
        sends=(),
    )

    def check(self, arguments: dict[str, Any]) -> None:
        self._answer(arguments)

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """now, convert: return a described moment (`_described`); difference: seconds and their parts (`_between`)."""
        return self._answer(arguments)

    def _answer(self, arguments: dict[str, Any]) -> dict[str, Any]:
        zone = _zone(arguments.get("timezone", "UTC"))
        operation = arguments.get("operation", "now")
        try:
            if operation == "now":
                return _described(_now().astimezone(zone))
            moment = _moment(arguments, "time", zone)
            if operation == "difference":
                return _between(moment, _moment(arguments, "end_time", zone))
            if "to_timezone" not in arguments:
                raise ToolError("to_timezone is missing: name the zone to convert to.")
            return {"from": _described(moment), **_described(moment.astimezone(_zone(arguments["to_timezone"])))}
        except OverflowError:
            raise ToolError("The time is out of range: only years 1 to 9999 are supported.") from None


def _now() -> datetime:
    return datetime.now(UTC)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # not found, an absolute path, a folder of zones: each its own error
        raise ToolError(f"There is no time zone {name!r}. {_suggestion(name)}") from None


def _suggestion(name: str) -> str:
    known = available_timezones()
    if not known:
        return "This machine has no time zone data: its operator should install the tzdata package."
    wanted = name.strip().replace(" ", "_").lower()
    by_city = sorted(zone for zone in known if wanted in (zone.lower(), zone.lower().rpartition("/")[2]))
    near = by_city or get_close_matches(name, sorted(known), n=3, cutoff=0.6)
    return f"Did you mean {' or '.join(near[:3])}?" if near else "Use an IANA name such as Europe/Paris or UTC."


def _moment(arguments: dict[str, Any], field: str, zone: ZoneInfo) -> datetime:
    """Return the time in that field, aware, by default in `zone`; the current time if the field is missing."""
    text = arguments.get(field)
    if text is None:
        return _now().astimezone(zone)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ToolError(f"{field}: {text!r} is not an ISO 8601 time such as 2026-03-01T09:30:00+01:00.") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=zone)


def _described(moment: datetime) -> dict[str, Any]:
    answer = {
        "timezone": str(moment.tzinfo),
        "iso": moment.isoformat(timespec="seconds"),
        "date": moment.strftime("%Y-%m-%d"),
        "time": moment.strftime("%H:%M:%S"),
        "weekday": moment.strftime("%A"),
        "utc_offset": moment.strftime("%z"),
        "abbreviation": moment.tzname(),
        "unix": int(moment.timestamp()),
    }
    note = _clock_change(moment)
    return {**answer, "note": note} if note else answer


def _clock_change(moment: datetime) -> str:
    """Return a note if a change of clocks skips or repeats this local time."""
    if moment.astimezone(UTC).astimezone(moment.tzinfo).replace(tzinfo=None) != moment.replace(tzinfo=None):
        return "The clocks skip this local time."
    if moment.replace(fold=0).utcoffset() != moment.replace(fold=1).utcoffset():
        return "The clocks show this local time twice; the offset given is the one meant here."
    return ""


def _between(start: datetime, end: datetime) -> dict[str, Any]:
    """Return the difference. seconds: negative if the end comes first; text: in days, hours, minutes and seconds."""
    # In UTC: Python subtracts two times of one zone by wall-clock time, ignoring changes of clocks.
    seconds = (end.astimezone(UTC) - start.astimezone(UTC)).total_seconds()
    span = timedelta(seconds=abs(seconds))
    days, rest = divmod(span, timedelta(days=1))
    hours, rest = divmod(rest, timedelta(hours=1))
    minutes, rest = divmod(rest, timedelta(minutes=1))
    parts = {"day": days, "hour": hours, "minute": minutes, "second": int(rest.total_seconds())}
    parts_text = [f"{count} {unit}{'' if count == 1 else 's'}" for unit, count in parts.items() if count]
    return {
        "start": start.isoformat(timespec="seconds"),
        "end": end.isoformat(timespec="seconds"),
        "seconds": seconds,
        "text": ", ".join(parts_text) or "no time",
    }
