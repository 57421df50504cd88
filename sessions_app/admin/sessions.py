"""Sessions in the admin, with their conversations. Read only."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from unfold.contrib.filters.admin import FieldTextFilter, RelatedDropdownFilter
from unfold.decorators import display

from agents_app import selectors as agents
from audit_app.admin_base import columns, links
from audit_app.admin_base.base import ReadOnlyAdmin
from audit_app.admin_base.filters import KeyDateFilter
from audit_app.kernel.safe_text import visible
from audit_app.kernel.shorten import shorten
from sessions_app import selectors
from sessions_app.models import Session

PAGE = "admin:sessions_app_session_change"
TURNS_PER_PAGE = 50

links.register_page("session", PAGE)


@admin.register(Session)
class SessionAdmin(ReadOnlyAdmin):
    list_display = ("name", "person", "platform", "agent_link", "message_count", "active", "is_deleted")
    list_filter = (("channel", FieldTextFilter), ("agent", RelatedDropdownFilter), ("created_at", KeyDateFilter))
    prefetched = ("agent", "owner")
    search_fields = ("key", "title", "sender_name", "=owner__username", "=owner__email")
    search_help_text = "An id, or text in the newest 5,000 rows"
    newest_by = "last_active_at"
    change_form_template = "admin/sessions_app/session/conversation.html"
    fields = ("channel",)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        session: Session = kwargs["obj"]
        before = _place(request.GET.get("before", ""))
        turns = selectors.list_turns(session, limit=TURNS_PER_PAGE + 1, before=before)
        has_older = len(turns) > TURNS_PER_PAGE
        shown = turns[-TURNS_PER_PAGE:]
        context |= {
            "session": session,
            "turns": shown,
            "older": f"{shown[0].ordinal}.{shown[0].part}" if has_older else "",
            "is_newest": before is None,
            "open_runs": agents.list_open_runs(session.pk),
        }
        return super().render_change_form(request, context, *args, **kwargs)

    name = columns.column("Session", lambda session: visible(shorten(session.title or session.key, 80)))

    @display(description="Owner")
    def person(self, session: Session) -> str:
        return visible(session.owner.get_username() if session.owner else session.sender_name or session.sender_id)

    platform = columns.text("Channel", "channel")
    agent_link = columns.column("Agent", lambda session: links.link("agent", session.agent.agent_id))
    active = columns.time("Last active", "last_active_at")
    is_deleted = columns.column("Deleted", lambda session: session.deleted_at is not None, boolean=True)


def _place(text: str) -> tuple[int, int] | None:
    """Return `ordinal.part` of the turn before which the page ends; None for the newest turns and invalid values."""
    ordinal, _, part = text.partition(".")
    return (int(ordinal), int(part)) if ordinal.isdecimal() and part.isdecimal() else None
