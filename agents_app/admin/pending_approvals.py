"""The waiting approval requests, which the queue shows above its list, ordered by expiry."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import AnonymousUser, User
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from audit_app.admin_base.html import json_block
from audit_app.admin_base.names import find_names
from audit_app.kernel.redact import masked, masked_for_approver
from audit_app.kernel.safe_text import summary, took, visible
from tools_app import selectors
from tools_app.executions import preview
from tools_app.executions.changes import diff
from tools_app.models import Approval
from tools_app.types import ApprovalView, Change

_MAX_SHOWN = 50
_TONES = {"low": "success", "medium": "warning", "high": "danger"}
_SIGNS = {"added": "+ ", "removed": "\u2212 ", "same": "  ", "skipped": "  ⋯"}


@dataclass(frozen=True)
class Waiting:
    """A request.

    brief: summary of the call in one line.
    left: time until it expires, for display.

    agent, session: their names, empty if the viewer may not see them.
    """

    id: UUID
    tool: str
    brief: str
    risk: str
    agent_id: str
    session_id: UUID
    left: str
    agent: str
    session: str

    @property
    def tone(self) -> str:
        return _TONES.get(self.risk, "info")


def read_waiting(user: User | AnonymousUser) -> tuple[Waiting, ...]:
    """Return at most fifty requests, with the names that the user may see."""
    now = timezone.now()
    requests = [preview.targets_first(request) for request in selectors.list_pending_approvals(_MAX_SHOWN)]
    agents = find_names("agent", {request.agent_id for request in requests}, user)
    sessions = find_names("session", {request.session_id for request in requests}, user)
    return tuple(
        Waiting(
            request.id,
            request.tool,
            summary(masked_for_approver(request.arguments)),
            request.risk,
            request.agent_id,
            request.session_id,
            time_left(request.expires_at, now),
            agents.get(request.agent_id, ""),
            sessions.get(request.session_id, ""),
        )
        for request in requests
    )


def time_left(expires_at: datetime, now: datetime) -> str:
    return took(now, expires_at) if expires_at > now else "expired"


def arguments_of(approval: Approval) -> SafeString:
    """Return all arguments, those first that say what the call reaches, below the hosts in them."""
    request = preview.targets_first(selectors.approval_view(approval))
    places = format_html("<p>Goes to: <strong>{}</strong></p>", ", ".join(request.places)) if request.places else ""
    return format_html("{}{}", places, json_block(masked_for_approver(request.arguments)))


def changes_of(request: ApprovalView) -> SafeString | None:
    """Return the diff of the call's change as HTML; None if it is unknown."""
    change = preview.find_change(request)
    if change is None:
        return None
    lines = [
        (line.kind, _SIGNS[line.kind] + visible(line.text))
        for line in diff(Change(masked(change.before), masked(change.after), change.name))
    ]
    shown = format_html_join("", '<span class="k-{}">{}</span>', lines)
    return format_html('<p class="k-quiet">{}</p><pre class="k-json">{}</pre>', visible(change.name), shown)
