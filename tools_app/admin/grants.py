"""Admin of grants: read and revoked."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from unfold.contrib.filters.admin import DropdownFilter
from unfold.decorators import display
from unfold.enums import ActionVariant

from audit_app.admin_base import columns, links
from audit_app.admin_base.base import ReadOnlyAdmin, get_or_404, reported
from audit_app.admin_base.dialogs import back_to
from audit_app.admin_base.permissions import granted_by
from audit_app.admin_base.theme import Dialog, act
from audit_app.kernel.safe_text import visible
from tools_app.models import Grant
from tools_app.policy import grants
from tools_app.rights import REVOKE_GRANTS

PAGE = "admin:tools_app_grant_change"

links.register_page("grant", PAGE)


_VALIDITIES = {
    "standing": Q(run_id=None, revoked_at=None),
    "run": Q(run_id__isnull=False, revoked_at=None),
    "revoked": Q(revoked_at__isnull=False),
}


class HoldsFilter(DropdownFilter):
    """Filters by validity."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("standing", "Permanent"), ("run", "For a run"), ("revoked", "Revoked")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Grant]) -> QuerySet[Grant]:
        return queryset.filter(_VALIDITIES.get(self.value() or "", Q()))


@admin.register(Grant)
class GrantAdmin(ReadOnlyAdmin):
    empty_text = "Permissions appear here when somebody allows a tool call for good."
    list_display = ("what", "agent", "holds", "who", "when")
    list_filter = (HoldsFilter,)
    search_fields = ("=agent_id", "pattern", "granted_by")
    search_ids = ("id", "run_id", "approval_id")
    actions_detail: Any = ("revoke",)
    fieldsets = ((None, {"fields": ("what", ("agent", "holds"), ("who", "when"), ("approval", "revoked"))}),)

    has_revoke_permission = granted_by(REVOKE_GRANTS)

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        """Offer to revoke a grant that is still valid."""
        grant = self.get_object(request, object_id)
        holds = grant is not None and grant.revoked_at is None
        return super().get_actions_detail(request, object_id) if holds else []

    @act(
        "Revoke",
        path="revoke",
        icon="block",
        permissions=["revoke"],
        variant=ActionVariant.DANGER,
        dialog=Dialog("Revoke this permission?", "From now on, such calls require approval again.", "Revoke it"),
    )
    def revoke(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        grant = get_or_404(self, request, object_id)
        with reported(request):
            grants.revoke_grant(grant.pk)
            messages.success(request, "The permission is revoked.")
        return back_to(request, PAGE, object_id)

    what = columns.text("Allowed calls", "pattern")
    agent = columns.link("Agent", "agent", "agent_id")

    @display(description="Validity", label={"permanent": "warning", "for a run": "info"})
    def holds(self, grant: Grant) -> str:
        if grant.revoked_at:
            return "revoked"
        return "for a run" if grant.run_id else "permanent"

    who = columns.text("Granted by", "granted_by")
    when = columns.time("Granted", "created_at")
    approval = columns.link("Approval request", "approval", "approval_id")

    @display(description="Revoked")
    def revoked(self, grant: Grant) -> str:
        if grant.revoked_at is None:
            return "–"
        return f"{timezone.localtime(grant.revoked_at):%Y-%m-%d %H:%M:%S} by {visible(grant.revoked_by)}"
