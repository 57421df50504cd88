"""Admin of the links by which people without a login read chats: read and revoked. Their tokens are not stored."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from unfold.contrib.filters.admin import DropdownFilter
from unfold.decorators import display
from unfold.enums import ActionVariant

from audit_app.admin_base import columns
from audit_app.admin_base.base import ReadOnlyAdmin, get_or_404, reported
from audit_app.admin_base.dialogs import back_to
from audit_app.admin_base.permissions import granted_by
from audit_app.admin_base.theme import Dialog, act
from audit_app.kernel.safe_text import visible
from sessions_app.chat_copies import share_links
from sessions_app.models import ShareLink
from sessions_app.rights import REVOKE_SHARES

PAGE = "admin:sessions_app_sharelink_change"


class StateFilter(DropdownFilter):
    """Filters by what ended a link, if anything did."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("open", "Open"), ("revoked", "Revoked"), ("expired", "Expired")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ShareLink]) -> QuerySet[ShareLink]:
        now = timezone.now()
        states = {
            "open": Q(revoked_at=None, expires_at__gt=now),
            "revoked": Q(revoked_at__isnull=False),
            "expired": Q(revoked_at=None, expires_at__lte=now),
        }
        return queryset.filter(states.get(self.value() or "", Q()))


@admin.register(ShareLink)
class ShareLinkAdmin(ReadOnlyAdmin):
    empty_text = "Links appear here when people share their chats."
    list_display = ("chat", "person", "state", "shows", "created", "expires")
    list_filter = (StateFilter,)
    named = {"session_id": "session"}
    prefetched = ("owner",)
    search_ids = ("id", "session_id")
    search_fields = ("=owner__username", "=owner__email")
    search_help_text = "An id, also of a session, or a user name"
    actions_detail: Any = ("revoke",)
    fieldsets = ((None, {"fields": ("chat", ("person", "state"), "shows", ("created", "expires"), "revoked")}),)

    has_revoke_permission = granted_by(REVOKE_SHARES)

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        """Offer to revoke a link that is open."""
        link = self.get_object(request, object_id)
        is_open = link is not None and self._state_of(link) == "open"
        return super().get_actions_detail(request, object_id) if is_open else []

    @act(
        "Revoke",
        path="revoke",
        icon="block",
        permissions=["revoke"],
        variant=ActionVariant.DANGER,
        dialog=Dialog("Revoke this link?", "People who have it cannot open the chat any more.", "Revoke it"),
    )
    def revoke(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        link = get_or_404(self, request, object_id)
        with reported(request):
            share_links.revoke_of_others(link.pk)
            messages.success(request, "The link is revoked.")
        return back_to(request, PAGE, object_id)

    chat = columns.named("Chat", "session", "session_id")
    person = columns.column("Created by", lambda link: visible(link.owner.get_username()))
    created = columns.time("Created", "created_at")
    expires = columns.time("Ends", "expires_at")
    revoked = columns.time("Revoked", "revoked_at")

    @display(description="State", label={"open": "warning"})
    def state(self, link: ShareLink) -> str:
        return self._state_of(link)

    @display(description="Shows")
    def shows(self, link: ShareLink) -> str:
        parts = (("tool calls", link.has_calls), ("files", link.has_files))
        return ", ".join(["messages", *(name for name, is_shown in parts if is_shown)])

    @staticmethod
    def _state_of(link: ShareLink) -> str:
        if link.revoked_at:
            return "revoked"
        return "open" if link.expires_at > timezone.now() else "expired"
