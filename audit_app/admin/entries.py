"""The audit log in the admin: list, search and export, read only."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import BadRequest, PermissionDenied
from django.db import connection
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.urls import path, reverse
from django.utils import timezone
from unfold.contrib.filters.admin import DropdownFilter

from audit_app import services
from audit_app.admin import export
from audit_app.admin_base import columns, links
from audit_app.admin_base.base import ReadOnlyAdmin, acting, has_dates, render_page
from audit_app.admin_base.filters import KeyDateFilter
from audit_app.admin_base.html import json_block
from audit_app.chain.verification import Verifier, last_result
from audit_app.kernel.safe_text import summary, visible
from audit_app.models import AuditEntry
from audit_app.rights import READ_AUDIT, holds
from audit_app.selectors import by_actor

# One request verifies so many entries: about a second of work.
_VERIFIED_AT_ONCE = 20_000
LIST = "admin:audit_app_auditentry_changelist"
links.register_page("audit entry", "admin:audit_app_auditentry_change")

# Walks the index from one action to the next: a plain SELECT DISTINCT would read every entry.
_ACTIONS = """
    WITH RECURSIVE known(action) AS (
        SELECT MIN(action) FROM komand_audit_log
        UNION ALL
        SELECT (SELECT MIN(action) FROM komand_audit_log WHERE action > known.action)
        FROM known WHERE action IS NOT NULL
    )
    SELECT action FROM known WHERE action IS NOT NULL
"""


class ActionFilter(DropdownFilter):
    """A filter by one of the actions that occur in the log."""

    title = "action"
    parameter_name = "action"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        with connection.cursor() as cursor:
            cursor.execute(_ACTIONS)
            return [(action, visible(action)) for (action,) in cursor.fetchall()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
        return queryset.filter(action=self.value()) if self.value() else queryset


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    list_display = ("when", "what", "who", "agent", "session", "summary")
    list_filter = (ActionFilter, ("at", KeyDateFilter))
    named = {"actor": "actor", "agent_id": "agent", "session_id": "session"}
    empty_text = "What people and agents do appears here."
    search_fields = ("=agent_id", "actor", "session_key", "details")
    search_ids = ("id", "session_id")
    search_keys = ("request_id",)
    search_help_text = "Search people, agents, details or an id"
    fields = ("when", "what", "who", "agent", "session", "request_link", "pretty_details", "id", "number", "hash")

    def get_urls(self) -> list[Any]:
        export_url = path("export", self.admin_site.admin_view(self.export_view), name="audit_app_auditentry_export")
        verify_url = path("verify", self.admin_site.admin_view(self.verify_view), name="audit_app_auditentry_verify")
        return [export_url, verify_url, *super().get_urls()]

    when = columns.time("Time", "at", ordering="id")
    what = columns.text("Action", "action")
    who = columns.named("By", "actor", "actor")
    agent = columns.named("Agent", "agent", "agent_id")
    session = columns.named("Session", "session", "session_id", fallback="session_key")
    request_link = columns.column(
        "Request",
        lambda entry: (
            links.list_link(LIST, {"q": entry.request_id}, visible(entry.request_id)) if entry.request_id else "–"
        ),
    )
    summary = columns.column("Details", lambda entry: summary(entry.details))
    pretty_details = columns.column("Details", lambda entry: json_block(entry.details))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[AuditEntry], search_term: str
    ) -> tuple[QuerySet[AuditEntry], bool]:
        found, may_repeat = super().get_search_results(request, queryset, search_term)
        if not search_term.strip().startswith("sender:"):
            return found, may_repeat
        searched = queryset if has_dates(request) else self.recent(queryset)
        return found | searched.filter(by_actor(search_term.strip())), may_repeat

    def export_view(self, request: HttpRequest) -> StreamingHttpResponse:
        """Export all pages of the list, as filtered. The export itself is audited."""
        if not holds(request.user, READ_AUDIT):
            raise PermissionDenied
        try:
            entries = self.get_changelist_instance(request).get_queryset(request)
        except admin.options.IncorrectLookupParameters as error:
            raise BadRequest("These filters cannot be used.") from error
        with acting(request):
            services.record("AuditExported", details={"filters": request.GET.urlencode()})
        response = StreamingHttpResponse(export.stream_csv(entries), content_type="text/csv; charset=utf-8")
        response["Content-Disposition"] = f'attachment; filename="audit-{timezone.now():%Y%m%d-%H%M%S}.csv"'
        return response

    def verify_view(self, request: HttpRequest) -> HttpResponse:
        """Show the newest results of verification; on POST, verify the newest entries first."""
        if not holds(request.user, READ_AUDIT):
            raise PermissionDenied
        if request.method == "POST":
            Verifier(newest=_VERIFIED_AT_ONCE).run().record(f"user:{request.user.pk}")
            return HttpResponseRedirect(reverse("admin:audit_app_auditentry_verify"))
        full = last_result(full=True)
        return render_page(
            request,
            self,
            "admin/audit_app/auditentry/verification.html",
            title="Verification of the audit log",
            results=[result for result in dict.fromkeys((full, last_result(full=False))) if result],
            was_verified=full is not None,
            at_once=_VERIFIED_AT_ONCE,
        )
