"""The audit log, for operators."""

from collections.abc import Sequence
from typing import Any

from django.contrib.auth.models import User
from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from audit_app import selectors
from audit_app.admin.export import stream_csv
from audit_app.kernel.errors import Forbidden
from audit_app.models import AuditEntry
from audit_app.selectors import EntryFilter
from sessions_app.surfaces.threads import responses
from sessions_app.surfaces.threads.foreign_ids import user_id_of
from sessions_app.surfaces.threads.requests import AuditQuery
from sessions_app.surfaces.threads.views.base import ThreadsView


class _AuditView(ThreadsView):
    def wanted(self) -> tuple[EntryFilter, dict[str, Any]]:
        if not self.principal.user.is_staff:
            raise Forbidden("Only operators read the audit log.")
        asked = self.query(AuditQuery).validated_data
        actor = asked["actor_user_id"]
        wanted = EntryFilter(
            action=asked["kind"],
            actor=f"user:{user_id_of(actor) or 'nobody'}" if actor else "",
            session_id=asked["subject_path_part_id"],
            since=asked["since"],
            until=asked["until"],
        )
        return wanted, asked


class AuditEventList(_AuditView):
    """Newest first, or oldest first with `sort_dir=ASC`. `total` stops counting at `selectors.MOST_COUNTED`."""

    def get(self, request: Request) -> Response:
        wanted, asked = self.wanted()
        oldest_first = asked["sort_dir"] == "ASC"
        rows = selectors.list_entries(wanted, limit=asked["limit"], offset=asked["offset"], oldest_first=oldest_first)
        people = _people_of(rows)
        items = [responses.audit_event(row, people) for row in rows]
        return Response(responses.page(items, selectors.count_entries(wanted), asked))


class AuditEventExport(_AuditView):
    """The same as CSV, all of it."""

    def get(self, request: Request) -> HttpResponseBase:
        wanted, _ = self.wanted()
        headers = {"Content-Disposition": 'attachment; filename="audit-events.csv"'}
        lines = stream_csv(selectors.matching(wanted))
        return StreamingHttpResponse(lines, content_type="text/csv; charset=utf-8", headers=headers)


def _people_of(rows: Sequence[AuditEntry]) -> dict[int, User]:
    ids = {int(number) for row in rows if (number := row.actor.removeprefix("user:")).isdecimal()}
    return User.objects.in_bulk(ids)
