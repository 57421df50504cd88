"""Admin of agents' questions to users."""

from typing import Any

from django.contrib import admin
from django.utils import timezone
from unfold.contrib.filters.admin import ChoicesDropdownFilter
from unfold.decorators import display

from audit_app.admin_base import links
from audit_app.admin_base.base import ReadOnlyAdmin
from audit_app.kernel.safe_text import clipped, visible
from tools_app.models import InputRequest
from tools_app.types import InputStatus

_LISTED_CHARACTERS = 160
_TONES = {
    InputStatus.PENDING.value: "info",
    InputStatus.ANSWERED.value: "success",
    InputStatus.EXPIRED.value: "warning",
    InputStatus.CANCELLED.value: "warning",
}


@admin.register(InputRequest)
class InputRequestAdmin(ReadOnlyAdmin):
    list_display = ("beginning", "state", "run", "asked", "until")
    list_filter = (("status", ChoicesDropdownFilter),)
    search_fields = ("question", "=answered_by")
    search_ids = ("id", "run_id", "session_id", "execution_id")
    search_help_text = "An id, or words of the newest 5,000"
    fieldsets = (
        (None, {"fields": ("whole", "choices", ("state", "who"), ("run", "execution_link"), ("asked", "until"))}),
    )

    @display(description="Question")
    def beginning(self, request: InputRequest) -> str:
        return visible(clipped(request.question, _LISTED_CHARACTERS))

    @display(description="Question")
    def whole(self, request: InputRequest) -> str:
        return visible(request.question)

    @display(description="Options")
    def choices(self, request: InputRequest) -> str:
        return visible(" · ".join(map(str, request.options))) or "–"

    @display(description="Status", label=_TONES)
    def state(self, request: InputRequest) -> str:
        return request.status

    @display(description="Answered by")
    def who(self, request: InputRequest) -> str:
        return visible(request.answered_by) or "–"

    @display(description="Run")
    def run(self, request: InputRequest) -> Any:
        return links.link("run", request.run_id)

    @display(description="Call")
    def execution_link(self, request: InputRequest) -> Any:
        return links.link("execution", request.execution_id)

    @display(description="Asked")
    def asked(self, request: InputRequest) -> str:
        return f"{timezone.localtime(request.created_at):%Y-%m-%d %H:%M:%S}"

    @display(description="Open until")
    def until(self, request: InputRequest) -> str:
        return f"{timezone.localtime(request.expires_at):%Y-%m-%d %H:%M:%S}"
