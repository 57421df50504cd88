"""Filters of admin lists that are cheap on big tables."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import AutocompleteSelectFilter, DropdownFilter, RangeDateFilter
from unfold.contrib.filters.admin.mixins import AutocompleteMixin
from unfold.contrib.filters.forms import AutocompleteDropdownForm, DropdownForm
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


MOST_LISTED = 20  # rows of a drop-down; more are searched


class RelatedFilter(AutocompleteSelectFilter):
    """A filter by a related row: a drop-down of few rows, a search of more. Their page must be searchable.

    Without the right to view that page there is no search, and the filter is left out.
    """

    form_class: Any = AutocompleteDropdownForm

    def field_choices(self, field: Any, request: HttpRequest, model_admin: Any) -> list[Any]:
        ordering = self.field_admin_ordering(field, request, model_admin) or ("pk",)
        rows = list(field.remote_field.model._default_manager.order_by(*ordering)[: MOST_LISTED + 1])
        self._is_searched = len(rows) > MOST_LISTED
        related = model_admin.admin_site.get_model_admin(field.remote_field.model)
        self._may_search = related.has_view_permission(request)
        return [] if self._is_searched else [(row.pk, str(row)) for row in rows]

    def has_output(self) -> bool:
        return self._may_search if self._is_searched else super(AutocompleteMixin, self).has_output()

    def choices(self, changelist: Any) -> Iterator[Any]:
        if self._is_searched:
            return super().choices(changelist)
        self.form_class = DropdownForm
        return super(AutocompleteMixin, self).choices(changelist)


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
