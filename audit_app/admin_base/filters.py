"""Filters of admin lists that are cheap on big tables."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import DropdownFilter, RangeDateFilter
from unfold.utils import parse_date_str

from audit_app.kernel.ids import first_id_at


class ActiveFilter(DropdownFilter):
    """A filter of active and ended rows. ended: the state of rows whose column `<ended>_at` is set."""

    title = "state"
    parameter_name = "state"
    ended: str

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(state, state.capitalize()) for state in ("active", self.ended)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() in ("active", self.ended):
            return queryset.filter(**{f"{self.ended}_at__isnull": self.value() == "active"})
        return queryset


class KeyDateFilter(RangeDateFilter):
    """A range of days (UTC), both included, by the time-ordered primary key, so that no other index is needed."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        first = self._day("_from")
        last = self._day("_to")
        if first:
            queryset = queryset.filter(id__gte=first_id_at(_midnight(first)))
        if last:
            queryset = queryset.filter(id__lt=first_id_at(_midnight(last) + timedelta(days=1)))
        return queryset

    def _day(self, suffix: str) -> date | None:
        """Return the given day; None if there is none or it is not a date."""
        value = self.used_parameters.get(f"{self.parameter_name}{suffix}")
        day: date | None = parse_date_str(str(value)) if value else None
        return day


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
