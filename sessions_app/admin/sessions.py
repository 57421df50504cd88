"""Sessions in the admin, with their conversations. Only their agent can be changed."""

from collections.abc import Collection
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from unfold.contrib.filters.admin import FieldTextFilter
from unfold.decorators import display
from unfold.forms import BaseDialogForm
from unfold.widgets import UnfoldAdminTextInputWidget

from agents_app import selectors as agents
from audit_app.admin_base import columns, links, names
from audit_app.admin_base.base import ReadOnlyAdmin, get_or_404, reported
from audit_app.admin_base.dialogs import back_to
from audit_app.admin_base.filters import KeyDateFilter, RelatedFilter
from audit_app.admin_base.permissions import granted_by
from audit_app.admin_base.theme import Dialog, act
from audit_app.kernel.safe_text import visible
from audit_app.kernel.shorten import shorten
from sessions_app import selectors
from sessions_app.access import access_agent
from sessions_app.models import Session
from sessions_app.rights import CHANGE_SESSIONS
from sessions_app.services import bind_session

PAGE = "admin:sessions_app_session_change"
TURNS_PER_PAGE = 50

links.register_page("session", PAGE)


def _titles(keys: Collection[Any], user: Any) -> dict[Any, str]:
    """Return the titles of sessions, which are taken from messages: for users who may see sessions."""
    if not user.has_perm("sessions_app.view_session"):
        return {}
    return dict(Session.objects.filter(pk__in=keys).values_list("pk", "title"))


names.register_names("session", _titles)


class BindForm(BaseDialogForm):
    """The agent that answers the later messages of a session."""

    agent = forms.SlugField(max_length=120, widget=UnfoldAdminTextInputWidget, help_text="Id of the agent.")


@admin.register(Session)
class SessionAdmin(ReadOnlyAdmin):
    empty_text = "Chats of all users and channels appear here."
    list_display = ("name", "person", "platform", "agent_link", "message_count", "active", "is_deleted")
    list_filter = (("channel", FieldTextFilter), ("agent", RelatedFilter), ("created_at", KeyDateFilter))
    prefetched = ("agent", "owner")
    search_fields = ("key", "title", "sender_name", "=owner__username", "=owner__email")
    search_help_text = "Search titles, people or an id"
    newest_by = "last_active_at"
    change_form_template = "admin/sessions_app/session/conversation.html"
    fields = ("channel",)
    actions_detail: Any = ("bind",)

    has_bind_permission = granted_by(CHANGE_SESSIONS)

    @act(
        "Change agent",
        path="bind",
        icon="alt_route",
        permissions=["bind"],
        dialog=Dialog(
            "Which agent answers this session?",
            "Later messages of the session go to this agent. Its open runs end with the agent they have.",
            "Bind the session",
            form_class=BindForm,
        ),
    )
    def bind(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        session = get_or_404(self, request, object_id)
        with reported(request):
            agent = access_agent(request.user, form.cleaned_data["agent"])
            bind_session(session, agent)
            messages.success(request, f"{agent.agent_id} answers the next message of this session.")
        return back_to(request, PAGE, object_id)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        session: Session = kwargs["obj"]
        before = _place(request.GET.get("before", ""))
        turns = selectors.list_turns(session, limit=TURNS_PER_PAGE + 1, before=before, among=Q())
        has_older = len(turns) > TURNS_PER_PAGE
        shown = turns[-TURNS_PER_PAGE:]
        files = selectors.attachments_of(shown)
        context |= {
            "session": session,
            "turns": [(turn, files.get(turn.pk, ())) for turn in shown],
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
    agent_link = columns.column("Agent", lambda row: links.link("agent", row.agent.agent_id, row.agent.name))
    active = columns.time("Last active", "last_active_at")
    is_deleted = columns.column("Deleted", lambda session: session.deleted_at is not None, boolean=True)


def _place(text: str) -> tuple[int, int] | None:
    """Return `ordinal.part` of the turn before which the page ends; None for the newest turns and invalid values."""
    ordinal, _, part = text.partition(".")
    return (int(ordinal), int(part)) if ordinal.isdecimal() and part.isdecimal() else None
