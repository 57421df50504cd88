"""Admin of the files of sessions: metadata only."""

from django.contrib import admin
from django.template.defaultfilters import filesizeformat

from audit_app.admin_base import columns
from audit_app.admin_base.base import ReadOnlyAdmin
from tools_app.models import Artifact


@admin.register(Artifact)
class ArtifactAdmin(ReadOnlyAdmin):
    empty_text = "Files that agents write appear here."
    list_display = ("name", "size", "kind", "agent", "run", "changed")
    search_fields = ("=agent_id", "path")
    search_ids = ("id", "session_id", "run_id")
    search_help_text = "Search names of files, agents or an id"
    fieldsets = ((None, {"fields": (("name", "size"), ("kind", "changed"), ("agent", "run"), "digest")}),)

    name = columns.text("Path", "path")
    size = columns.column("Size", lambda artifact: str(filesizeformat(artifact.size_bytes)))
    kind = columns.text("Type", "media_type")
    agent = columns.link("Agent", "agent", "agent_id")
    run = columns.link("Written by", "run", "run_id")
    changed = columns.time("Changed", "updated_at")
    digest = columns.column("SHA-256", lambda artifact: artifact.sha256)
