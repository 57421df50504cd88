"""What the page shows of a request for approval, below the call that it is about. Pure.

Whoever decides sees all of the arguments, with every invisible character spelled out.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from audit_app.kernel.redact import masked
from audit_app.kernel.safe_text import pretty_json, visible
from sessions_app.approvals import prompt_text
from sessions_app.surfaces.chat.collapse import Folded, folded
from tools_app.executions.changes import DiffLine, diff
from tools_app.types import ApprovalStatus, ApprovalView, Change, Decision

_LONGEST_ARGUMENTS = 100_000


@dataclass(frozen=True)
class ApprovalCard:
    """call_id: the execution it is about; changes: what the call would change, perhaps nothing to be seen; run_scope,
    always_scope: what would be allowed with it; choices: what whoever looks may say, perhaps nothing; outcome: what
    came of it."""

    id: UUID
    call_id: UUID
    tool: str
    risk: str
    reason: str
    status: ApprovalStatus
    expires_at: datetime
    arguments: Folded
    changes: tuple[DiffLine, ...] = ()
    changed: str = ""
    choices: tuple[Decision, ...] = ()
    run_scope: str = ""
    always_scope: str = ""
    outcome: str = ""
    note: str = ""
    decided_at: datetime | None = None

    @property
    def is_pending(self) -> bool:
        return self.status is ApprovalStatus.PENDING

    @property
    def is_refused(self) -> bool:
        return self.status in (ApprovalStatus.DENIED, ApprovalStatus.EXPIRED)

    @property
    def may_decide(self) -> bool:
        return bool(self.choices)

    @property
    def offers_run(self) -> bool:
        return Decision.ALLOW_RUN in self.choices

    @property
    def offers_always(self) -> bool:
        return Decision.ALLOW_ALWAYS in self.choices

    @property
    def waits(self) -> str:
        """What to say of the run meanwhile."""
        return waiting_label(self.may_decide)


def card_of(
    approval: ApprovalView, change: Change | None, *, allowed_decisions: Collection[Decision], name: str
) -> ApprovalCard:
    """may_say: all that whoever looks may say; change: what the call would do to a text, if that is known; name: what
    the person who decided is called."""
    hidden = Change(masked(change.before), masked(change.after), change.name) if change else None
    return ApprovalCard(
        approval.id,
        approval.execution_id,
        approval.tool,
        approval.risk,
        approval.reason,
        approval.status,
        approval.expires_at,
        _arguments(approval.arguments),
        _changes(hidden),
        hidden.name if hidden else "",
        prompt_text.narrowed(approval, allowed_decisions).choices,
        _scope(approval.run_pattern),
        _scope(approval.pattern),
        prompt_text.outcome(approval, name),
        masked(approval.note),
        approval.decided_at,
    )


def waiting_label(may_decide: bool) -> str:
    return "Waiting for your decision" if may_decide else "Waiting for an operator"


def _changes(change: Change | None) -> tuple[DiffLine, ...]:
    return tuple(replace(line, text=visible(line.text)) for line in diff(change)) if change else ()


def _arguments(arguments: dict[str, Any]) -> Folded:
    text = pretty_json(masked(arguments))
    if len(text) > _LONGEST_ARGUMENTS:
        hidden = len(text) - _LONGEST_ARGUMENTS
        text = f"{text[:_LONGEST_ARGUMENTS]}\n… {hidden:,} more characters are not shown here"
    return folded(text)


def _scope(pattern: str) -> str:
    return prompt_text.scope(pattern) if pattern else ""
