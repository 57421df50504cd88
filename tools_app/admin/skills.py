"""Admin of skills: manifest, signature, permissions and installs; never edited."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from unfold.decorators import display
from unfold.enums import ActionVariant

from audit_app.admin_base import columns, links
from audit_app.admin_base.base import ReadOnlyAdmin, get_or_404, reported
from audit_app.admin_base.dialogs import back_to
from audit_app.admin_base.html import json_block
from audit_app.admin_base.permissions import granted_by
from audit_app.admin_base.theme import Dialog, act
from audit_app.kernel.safe_text import visible
from tools_app.models import Skill
from tools_app.rights import PUBLISH_SKILLS
from tools_app.skills import registry
from tools_app.skills.registry import SkillView

PAGE = "admin:tools_app_skill_change"
BADGES = {"verified": "success", "not verified": "warning"}


@admin.register(Skill)
class SkillAdmin(ReadOnlyAdmin):
    empty_text = "Skills are instructions that agents load when a task needs them."
    list_display = ("skill_id", "title", "publisher", "latest_version", "kind", "badge", "agents_count")
    search_fields = ("skill_id", "name", "description", "publisher_id")
    search_help_text = "Id, name, publisher"
    ordering = ("skill_id",)
    actions_detail: Any = ("remove",)
    fieldsets = (
        (None, {"fields": (("skill_id", "title"), ("publisher", "badge"), ("kind", "all_versions"), "text")}),
        ("Permissions", {"fields": ("needs", "installed_for")}),
        ("Manifest", {"fields": ("manifest", "digest")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        skills: QuerySet[Any] = super().get_queryset(request).annotate(agents=Count("installs"))
        return skills

    def recent(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset  # few enough to search all of them

    @act(
        "Remove",
        path="remove",
        icon="delete",
        permissions=["remove"],
        variant=ActionVariant.DANGER,
        dialog=Dialog(
            "Remove this skill?",
            "Deletes all its versions. A skill that is installed for an agent cannot be removed.",
            "Remove it",
        ),
    )
    def remove(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        skill = get_or_404(self, request, object_id)
        with reported(request):
            registry.delete_skill(skill.skill_id)
            messages.success(request, "The skill was removed.")
            return back_to(request, "admin:tools_app_skill_changelist")
        return back_to(request, PAGE, object_id)

    has_remove_permission = granted_by(PUBLISH_SKILLS)

    title = columns.text("Name", "name")
    publisher = columns.text("Publisher", "publisher_id")
    kind = columns.column("Kind", lambda skill: _view(skill).manifest.kind.value)
    badge = columns.column(
        "Signature", lambda skill: "verified" if _view(skill).is_verified else "not verified", label=BADGES
    )

    @display(description="Agents")
    def agents_count(self, skill: Skill) -> int:
        return int(skill.agents)  # type: ignore[attr-defined]  # annotated

    all_versions = columns.column("Versions", lambda skill: ", ".join(_view(skill).versions))
    text = columns.text("Description", "description", empty="–")
    needs = columns.column(
        "Requires", lambda skill: visible(", ".join(map(str, _view(skill).manifest.required))) or "nothing"
    )

    @display(description="Installed for")
    def installed_for(self, skill: Skill) -> str | SafeString:
        rows = skill.installs.select_related("version").order_by("agent_id")
        installs = (
            (
                links.link("agent", row.agent_id),
                f" {row.version.version}, granted: {visible(', '.join(row.granted)) or 'nothing'}",
            )
            for row in rows
        )
        return format_html_join("; ", "{}{}", installs) or "no agent"

    manifest = columns.column("As published", lambda skill: json_block(dict(_view(skill).data)))
    digest = columns.column("Digest", lambda skill: _view(skill).digest)


def _view(skill: Skill) -> SkillView:
    return registry.get_skill(skill.skill_id)
