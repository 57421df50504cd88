"""Admin of the files of sessions: metadata only."""

from typing import Any

from django.contrib import admin
from django.template.defaultfilters import filesizeformat
from django.utils import timezone
from unfold.decorators import display

from audit_app.admin_base import links
from audit_app.admin_base.base import ReadOnlyAdmin
from audit_app.kernel.safe_text import visible
from tools_app.models import Artifact


@admin.register(Artifact)
class ArtifactAdmin(ReadOnlyAdmin):
    list_display = ("name", "size", "kind", "agent", "run", "changed")
    search_fields = ("=agent_id", "path")
    search_ids = ("id", "session_id", "run_id")
    search_help_text = "An id, or words of the newest 5,000"
    fieldsets = ((None, {"fields": (("name", "size"), ("kind", "changed"), ("agent", "run"), "digest")}),)

    @display(description="Path")
    def name(self, artifact: Artifact) -> str:
        return visible(artifact.path)

    @display(description="Size")
    def size(self, artifact: Artifact) -> str:
        return str(filesizeformat(artifact.size_bytes))

    @display(description="Type")
    def kind(self, artifact: Artifact) -> str:
        return visible(artifact.media_type)

    @display(description="Agent")
    def agent(self, artifact: Artifact) -> str:
        return links.link("agent", artifact.agent_id)

    @display(description="Written by")
    def run(self, artifact: Artifact) -> Any:
        return links.link("run", artifact.run_id)

    @display(description="Changed")
    def changed(self, artifact: Artifact) -> str:
        return f"{timezone.localtime(artifact.updated_at):%Y-%m-%d %H:%M:%S}"

    @display(description="SHA-256")
    def digest(self, artifact: Artifact) -> str:
        return artifact.sha256
