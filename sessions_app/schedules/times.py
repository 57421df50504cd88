"""The times of cron expressions in a time zone. Pure.

Expressions have five fields (minute, hour, day of the month, month, day of the week) with Debian's rules: when both
days are restricted, either of them matches; a time that the clocks skip in spring comes right after the change, and one
that they repeat in autumn comes once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from audit_app.kernel.errors import InvalidInput

MOST_MISSED = 100  # ticks that are made up for after an outage
_FIELDS = 5
_time_zones = cache(available_timezones)  # which reads all files of the database, for 7 ms


@dataclass(frozen=True)
class Rhythm:
    """A cron expression in a time zone (a name of the IANA database). Raises InvalidInput (bad_cron, bad_time_zone)."""

    cron: str
    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        if self.time_zone not in _time_zones():
            raise InvalidInput(
                f"{self.time_zone!r} is not a time zone. Use a name such as Europe/Berlin or UTC.", code="bad_time_zone"
            )
        if len(self.cron.split()) != _FIELDS:
            raise InvalidInput(
                "A cron expression must have five fields: minute, hour, day of the month, month, day of the week. "
                "For example, 0 9 * * 1-5 is 9:00 on weekdays.",
                code="bad_cron",
            )
        try:
            next(self._after(datetime.now(UTC)))
        except CronSimError as error:
            raise InvalidInput(f"{self.cron!r} is not a valid cron expression: {error}.", code="bad_cron") from None
        except StopIteration:
            raise InvalidInput(f"No date matches {self.cron!r}.", code="bad_cron") from None

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first time after the moment, in UTC; None if there is none within 50 years."""
        return next(iter(self.upcoming(moment, 1)), None)

    def upcoming(self, moment: datetime, count: int) -> list[datetime]:
        """Return the next times after the moment, in UTC."""
        return [found.astimezone(UTC) for found in islice(self._after(moment), count)]

    def due(self, first: datetime, now: datetime) -> list[datetime]:
        """Return the times from `first`, which is one of them, until now: at most the newest MOST_MISSED."""
        newest: list[datetime] = []
        end = now.astimezone(ZoneInfo(self.time_zone)).replace(second=0, microsecond=0) + timedelta(minutes=1)
        for found in CronSim(self.cron, end, reverse=True):
            moment = found.astimezone(UTC)
            if moment <= first or len(newest) == MOST_MISSED:
                break
            newest.append(moment)
        return [first, *reversed(newest)][-MOST_MISSED:]

    def explained(self) -> str:
        """Return the expression in words, such as `At 09:00 on Monday through Friday`."""
        return str(CronSim(self.cron, datetime.now(UTC)).explain())

    def _after(self, moment: datetime) -> Iterator[datetime]:
        return iter(CronSim(self.cron, moment.astimezone(ZoneInfo(self.time_zone))))
