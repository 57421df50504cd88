"""What the queue of approvals shows above its list: the calls that wait now, whatever expires first coming first."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from audit_app.kernel.redact import masked
from audit_app.kernel.safe_text import summary, took, visible
from tools_app import selectors
from tools_app.executions import preview
from tools_app.executions.changes import diff
from tools_app.types import ApprovalView, Change

_MOST = 50
_TONES = {"low": "success", "medium": "warning", "high": "danger"}
_SIGNS = {"added": "+ ", "removed": "\u2212 ", "same": "  ", "skipped": "  ⋯"}


@dataclass(frozen=True)
class Waiting:
    """One request. brief: what the call is about, in one line; left: time until it expires, in words."""

    id: UUID
    tool: str
    brief: str
    risk: str
    agent_id: str
    session_id: UUID
    left: str

    @property
    def tone(self) -> str:
        return _TONES.get(self.risk, "info")


def read_waiting() -> tuple[Waiting, ...]:
    """At most fifty of them."""
    now = timezone.now()
    return tuple(
        Waiting(
            asked.id,
            asked.tool,
            summary(masked(asked.arguments)),
            asked.risk,
            asked.agent_id,
            asked.session_id,
            time_left(asked.expires_at, now),
        )
        for asked in selectors.list_pending_approvals(_MOST)
    )


def time_left(expires_at: datetime, now: datetime) -> str:
    return took(now, expires_at) if expires_at > now else "over"


def changes_of(asked: ApprovalView) -> SafeString | None:
    """What the call would change, line by line; None when that is not known."""
    change = preview.find_change(asked)
    if change is None:
        return None
    lines = [
        (line.kind, _SIGNS[line.kind] + visible(line.text))
        for line in diff(Change(masked(change.before), masked(change.after), change.name))
    ]
    shown = format_html_join("", '<span class="k-{}">{}</span>', lines)
    return format_html('<p class="k-quiet">{}</p><pre class="k-json">{}</pre>', visible(change.name), shown)
