"""The audit log, for users with the right to read it."""

from typing import Any

from django.contrib.auth.models import User
from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from audit_app import selectors
from audit_app.admin.export import stream_csv
from audit_app.rights import READ_AUDIT
from audit_app.selectors import EntryFilter
from sessions_app.surfaces.base.openapi.operations import Answer, Operation
from sessions_app.surfaces.base.openapi.schemas import TEXT, ref
from sessions_app.surfaces.threads import responses
from sessions_app.surfaces.threads.foreign_ids import user_id_of
from sessions_app.surfaces.threads.requests import AuditQuery
from sessions_app.surfaces.threads.views.base import ThreadsView


class _AuditView(ThreadsView):
    def filter_and_fields(self) -> tuple[EntryFilter, dict[str, Any]]:
        """Return the filter of the query, and all fields of the query."""
        self.require(READ_AUDIT)
        fields = self.query()
        actor = fields["actor_user_id"]
        entry_filter = EntryFilter(
            action=fields["kind"],
            actor=f"user:{user_id_of(actor) or 'nobody'}" if actor else "",
            session_id=fields["subject_path_part_id"],
            since=fields["since"],
            until=fields["until"],
        )
        return entry_filter, fields


class AuditEventList(_AuditView):
    """Lists entries, newest first or with `sort_dir=ASC` oldest first. `total` is at most `selectors.MOST_COUNTED`."""

    @Operation("Read the audit log", ref("ThreadAuditEventPage"), query=AuditQuery, errors=[403])
    def get(self, request: Request) -> Response:
        entry_filter, fields = self.filter_and_fields()
        oldest_first, limit = fields["sort_dir"] == "ASC", fields["limit"]
        rows = selectors.list_entries(entry_filter, limit=limit, offset=fields["offset"], oldest_first=oldest_first)
        user_ids = {int(number) for row in rows if (number := row.actor.removeprefix("user:")).isdecimal()}
        users = User.objects.in_bulk(user_ids)
        items = [responses.audit_event(row, users) for row in rows]
        return Response(responses.page(items, selectors.count_entries(entry_filter), fields))


class AuditEventExport(_AuditView):
    """Exports all matching entries as CSV."""

    @Operation(
        "Export the audit log as CSV",
        query=AuditQuery,
        errors=[403],
        answers={200: Answer("All entries.", TEXT, "text/csv")},
    )
    def get(self, request: Request) -> HttpResponseBase:
        entry_filter, _ = self.filter_and_fields()
        headers = {"Content-Disposition": 'attachment; filename="audit-events.csv"'}
        lines = stream_csv(selectors.matching(entry_filter))
        return StreamingHttpResponse(lines, content_type="text/csv; charset=utf-8", headers=headers)
