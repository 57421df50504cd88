"""Feedback on sessions and messages in the admin, with a link to the message."""

from typing import Any

from django.contrib import admin
from django.db.models import Q
from django.utils.html import format_html
from unfold.contrib.filters.admin import ChoicesDropdownFilter
from unfold.decorators import display

from audit_app.admin_base import columns, links
from audit_app.admin_base.base import ReadOnlyAdmin
from audit_app.admin_base.filters import KeyDateFilter
from audit_app.admin_base.html import json_block
from audit_app.kernel.safe_text import visible
from audit_app.kernel.shorten import shorten
from sessions_app.models import Feedback, Turn

_LISTED_CHARACTERS, _SHOWN_CHARACTERS = 100, 2_000


@admin.register(Feedback)
class FeedbackAdmin(ReadOnlyAdmin):
    empty_text = "Ratings appear here when people rate answers in the chat."
    search_ids = ("id", "session_id")
    list_display = ("label", "opinion", "about", "session_link", "person", "created_at")
    list_filter = (
        ("rating", ChoicesDropdownFilter),
        ("target_type", ChoicesDropdownFilter),
        ("created_at", KeyDateFilter),
    )
    prefetched = ("session", "user")
    search_fields = ("reason", "comment", "=user__username")
    search_help_text = "Search comments, people or an id, also of a session"
    fields = (
        "opinion",
        "about",
        "message_text",
        "session_link",
        "reason",
        "remark",
        "person",
        "more",
        "created_at",
        "updated_at",
    )
    readonly_fields = fields

    label = columns.column(
        "Feedback", lambda row: visible(shorten(row.comment or row.reason or "–", _LISTED_CHARACTERS))
    )
    opinion = columns.column("Rating", lambda row: row.get_rating_display(), label={"up": "success", "down": "danger"})
    about = columns.column("About", lambda row: str(row.get_target_type_display()))

    @display(description="Message")
    def message_text(self, row: Feedback) -> Any:
        """Return the message, with a link to the page of its session that ends with it."""
        turn = _find_turn(row)
        url = links.find_url("session", row.session_id)
        if turn is None or url is None:
            return "–"
        text = visible(shorten(turn.content, _SHOWN_CHARACTERS)) or "(no text)"
        return format_html('<a class="k-link" href="{}?before={}.{}">{}</a>', url, turn.ordinal, turn.part + 1, text)

    session_link = columns.column(
        "Session", lambda row: links.link("session", row.session_id, shorten(row.session.title or row.session.key, 60))
    )
    remark = columns.text("Comment", "comment", empty="–")
    person = columns.column("By", lambda row: visible(row.user.get_username() if row.user else row.sender))
    more = columns.column("Sent with it", lambda row: json_block(row.extra_metadata) if row.extra_metadata else "–")


def _find_turn(row: Feedback) -> Turn | None:
    """Return the rated message. The target of an answer is its run."""
    if row.target_type != "MESSAGE":
        return None
    of_session = Turn.objects.filter(session_id=row.session_id)
    return of_session.filter(Q(pk=row.target_id) | Q(run_id=row.target_id, is_answer=True)).first()
