"""Admin of agents' questions to users."""

from django.contrib import admin
from unfold.contrib.filters.admin import ChoicesDropdownFilter

from audit_app.admin_base import columns
from audit_app.admin_base.base import ReadOnlyAdmin
from audit_app.kernel.safe_text import clipped, visible
from tools_app import selectors
from tools_app.models import InputRequest
from tools_app.types.questions import InputStatus

_LISTED_CHARACTERS = 160
_TONES = {
    InputStatus.PENDING.value: "info",
    InputStatus.ANSWERED.value: "success",
    InputStatus.EXPIRED.value: "warning",
    InputStatus.CANCELLED.value: "warning",
}


def _labels(request: InputRequest) -> str:
    """Return the labels of all options."""
    return " · ".join(label for question in selectors.questions_of(request) for label in question.labels)


@admin.register(InputRequest)
class InputRequestAdmin(ReadOnlyAdmin):
    empty_text = "Questions of agents to people appear here."
    list_display = ("beginning", "state", "run", "asked", "until")
    list_filter = (("status", ChoicesDropdownFilter),)
    search_fields = ("question", "=answered_by")
    search_ids = ("id", "run_id", "session_id", "execution_id")
    search_help_text = "Search questions, people or an id"
    fieldsets = (
        (None, {"fields": ("whole", "choices", ("state", "who"), ("run", "execution_link"), ("asked", "until"))}),
    )

    beginning = columns.column("Question", lambda request: visible(clipped(request.question, _LISTED_CHARACTERS)))
    whole = columns.text("Question", "question")
    choices = columns.column("Options", lambda request: visible(_labels(request)) or "–")
    state = columns.column("Status", lambda request: request.status, label=_TONES)
    who = columns.text("Answered by", "answered_by", empty="–")
    run = columns.link("Run", "run", "run_id")
    execution_link = columns.link("Call", "execution", "execution_id")
    asked = columns.time("Asked", "created_at")
    until = columns.time("Open until", "expires_at")
