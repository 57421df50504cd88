"""Admin of memories: read, searched and deleted."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from audit_app import services as audit
from audit_app.admin_base import columns
from audit_app.admin_base.base import ReadOnlyAdmin, acting
from audit_app.admin_base.permissions import granted_by
from audit_app.kernel.safe_text import clipped, visible
from tools_app.models import Memory
from tools_app.rights import DELETE_MEMORIES

_LISTED_CHARACTERS = 120


@admin.register(Memory)
class MemoryAdmin(ReadOnlyAdmin):
    empty_text = "Facts appear here when agents remember something about people."
    newest_by = "updated_at"
    list_display = ("title", "beginning", "agent", "person", "source", "trusted", "changed")
    search_fields = ("=agent_id", "=actor", "key", "text")
    search_ids = ("id", "run_id")
    search_help_text = "Search texts, agents, people such as user:7 or an id"
    fieldsets = (
        (
            None,
            {"fields": ("title", "whole", ("agent", "person"), ("run", "changed"), ("source", "trusted", "outside"))},
        ),
    )

    has_delete_permission = granted_by(DELETE_MEMORIES)

    def log_deletions(self, request: HttpRequest, queryset: QuerySet[Memory]) -> Any:
        with acting(request):
            for memory in queryset:
                audit.record("MemoryDeleted", details={"key": memory.key, "of": memory.actor}, agent_id=memory.agent_id)
        return super().log_deletions(request, queryset)

    title = columns.text("Key", "key")
    beginning = columns.column("Text", lambda memory: visible(clipped(memory.text, _LISTED_CHARACTERS)))
    whole = columns.text("Text", "text")
    agent = columns.link("Agent", "agent", "agent_id")
    person = columns.text("For", "actor")
    source = columns.text("Source", "source")
    trusted = columns.column("Trusted", lambda memory: "yes" if memory.is_trusted else "no")
    outside = columns.column("Read before", lambda memory: visible(", ".join(memory.origins.splitlines())))
    run = columns.link("Stored by", "run", "run_id")
    changed = columns.time("Changed", "updated_at")
