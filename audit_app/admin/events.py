"""The stored events of all sessions in the admin, read only."""

from datetime import UTC, datetime

from django.contrib import admin
from django.db.models import QuerySet

from audit_app.admin_base import columns
from audit_app.admin_base.base import ReadOnlyAdmin
from audit_app.admin_base.html import json_block
from audit_app.kernel.safe_text import summary
from audit_app.models import Event

# A type is searched in this many of the newest events: there is no index by type.
SEARCH_ROWS = 5_000


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    list_display = ("when", "what", "seq", "session", "run", "step", "who", "summary")
    ordering = ("-id",)
    search_ids = ("session_id", "run_id")
    search_fields = ("=type",)
    empty_text = "Events appear here when somebody writes to an agent."
    search_help_text = "Search a type, or the id of a session or run"
    fields = ("when", "what", "seq", "session", "run", "step", "who", "request_id", "pretty_payload")

    def recent(self, queryset: QuerySet[Event]) -> QuerySet[Event]:
        newest = Event.objects.order_by("-id").values_list("id", flat=True).first() or 0
        return queryset.filter(id__gt=newest - SEARCH_ROWS)

    when = columns.column(
        "Time", lambda event: f"{datetime.fromtimestamp(event.ts / 1000, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3]
    )
    what = columns.text("Type", "type")
    session = columns.link("Session", "session", "session_id")
    run = columns.link("Run", "run", "run_id")
    who = columns.text("By", "actor")
    summary = columns.column("Payload", lambda event: summary(event.payload))
    pretty_payload = columns.column("Payload", lambda event: json_block(event.payload))
